"""What a project's sources ask for too late or too early: `python -c … ` in the project's folder, with the project's own Python.

A module's top runs while the component is built, where no variable of the endpoint's is there; functions run later, where there are
no files to import from.

In:  the project in the current folder. Out: on stdout a line for each find, `FILE:LINE: TEXT` and, behind a tab, a hint.
Invariant: a source that is no Python, or of a newer one, says nothing here; the build says what is wrong.
"""

import ast
import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

SDK = "modelhost_guest"
# Not to be imported to see what they import; and what the standard library brings in later, which the SDK has with it.
NEVER = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "__main__"}
BUILT_IN = {"encodings", "_strptime"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
MOST = 2000


class Module:
    """A file of the project: what its top and its functions import, and where it asks for variables."""

    def __init__(self, path, name, tree):
        self.path = path
        self.package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        # Names of modules, each with its line; in functions also whether the program goes on without.
        self.top, self.later = [], []
        # Names that are `os`, its `environ` and its `getenv`; those of other files, with the module and the name there.
        self.os, self.environ, self.getenv, self.others = set(), set(), set(), {}
        # Lines of the top that read a variable, with its name; calls of the top by their names.
        self.reads, self.calls = [], []
        # Of each function whether it reads a variable, and what it calls.
        self.functions = {}
        for node in ast.walk(tree):
            self._bind(node)
        self._visit(tree, None, False)

    def _bind(self, node):
        if isinstance(node, ast.Import):
            self.os.update(it.asname or "os" for it in node.names if it.name == "os" or (it.name.startswith("os.") and not it.asname))
        elif isinstance(node, ast.ImportFrom):
            for it in node.names:
                bound = it.asname or it.name
                if node.module == "os" and not node.level:
                    self.environ.update([bound] if it.name == "environ" else [])
                    self.getenv.update([bound] if it.name == "getenv" else [])
                self.others[bound] = (self.absolute(node), it.name)

    def absolute(self, node):
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])

    def _visit(self, node, function, is_optional):
        """Goes through the statements and expressions of the top (`function` is None) and of functions."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imports(node, function, is_optional)
            return
        variable = self._variable(node)
        if variable is not None:
            if function is None:
                self.reads.append((node.lineno, variable))
            else:
                function["reads"] = True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            (self.calls if function is None else function["calls"]).append((node.func.id, getattr(node, "lineno", 0)))
        if isinstance(node, FUNCTIONS):
            # Decorators, defaults and annotations belong to what is around it.
            body = node.body if isinstance(node.body, list) else [node.body]
            for part in ast.iter_child_nodes(node):
                if part not in body:
                    self._visit(part, function, is_optional)
            inner = {"reads": False, "calls": []}
            if function is None and not isinstance(node, ast.Lambda):
                self.functions[node.name] = inner
            for part in body:
                self._visit(part, inner, False)
            return
        if isinstance(node, ast.ClassDef):
            for part in ast.iter_child_nodes(node):
                self._visit(part, function, is_optional)
            # What makes an object is its `__init__`.
            made = next((it for it in node.body if isinstance(it, ast.FunctionDef) and it.name == "__init__"), None)
            if function is None and made is not None:
                self.functions[node.name] = self.functions.pop("__init__", {"reads": False, "calls": []})
            return
        if isinstance(node, ast.If) and self._is_never(node.test):
            for part in node.orelse:
                self._visit(part, function, is_optional)
            return
        if isinstance(node, ast.Try):
            for part in node.body:
                self._visit(part, function, is_optional or any(map(self._catches, node.handlers)))
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                self._visit(part, function, is_optional)
            return
        for part in ast.iter_child_nodes(node):
            self._visit(part, function, is_optional)

    def _imports(self, node, function, is_optional):
        found = [it.name for it in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            base = self.absolute(node)
            found = [base, *(f"{base}.{it.name}" for it in node.names if it.name != "*")]
        for name in found:
            is_member = isinstance(node, ast.ImportFrom) and name != found[0]
            (self.top if function is None else self.later).append((name, node.lineno, is_optional, is_member))

    def _variable(self, node):
        """The name of the variable that an expression reads, or no name; None if it reads none."""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and self._is_environ(node.value):
            return self._text(node.slice)
        if isinstance(node, ast.Call):
            function = node.func
            is_getenv = isinstance(function, ast.Name) and function.id in self.getenv
            if isinstance(function, ast.Attribute):
                is_getenv = function.attr == "getenv" and isinstance(function.value, ast.Name) and function.value.id in self.os
                is_getenv = is_getenv or (function.attr in ("get", "pop", "items", "copy") and self._is_environ(function.value))
            if is_getenv:
                return self._text(node.args[0]) if node.args else ""
        if isinstance(node, ast.Compare) and any(map(self._is_environ, node.comparators)):
            return self._text(node.left)
        return None

    def _is_environ(self, node):
        if isinstance(node, ast.Name):
            return node.id in self.environ
        return isinstance(node, ast.Attribute) and node.attr == "environ" and isinstance(node.value, ast.Name) and node.value.id in self.os

    def _text(self, node):
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    def _is_never(self, test):
        """Whether a block runs only for a type checker, or where the file is the program."""
        names = {it.id for it in ast.walk(test) if isinstance(it, ast.Name)} | {it.attr for it in ast.walk(test) if isinstance(it, ast.Attribute)}
        return "TYPE_CHECKING" in names or "__name__" in names

    def _catches(self, handler):
        names = {it.id for it in ast.walk(handler.type) if isinstance(it, ast.Name)} if handler.type else {"Exception"}
        return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def own(name):
    """The path of a module of the project, if it is one."""
    base = name.replace(".", "/")
    return next((it for it in (f"{base}/__init__.py", f"{base}.py") if name and os.path.isfile(it)), None)


def project():
    """The project's modules that `app` reaches, by any import, by their names."""
    found, ahead = {}, ["app"]
    while ahead and len(found) < MOST:
        name = ahead.pop()
        path = own(name)
        if path is None or name in found:
            continue
        try:
            tree = ast.parse(pathlib.Path(path).read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            continue
        module = found[name] = Module(path, name, tree)
        ahead += [it for imported, *_ in (*module.top, *module.later) for it in parents(imported)]
    return found


def parents(name):
    parts = name.split(".")
    return [".".join(parts[:number]) for number in range(1, len(parts) + 1)]


def imported(modules):
    """The modules that are there once `app` has been imported."""
    there, ahead = set(), ["app", SDK]
    while ahead:
        for name in parents(ahead.pop()):
            if name in there or not name:
                continue
            if name in modules:
                there.add(name)
                ahead += [it for it, *_ in modules[name].top]
            elif name.partition(".")[0] in sys.stdlib_module_names:
                there.update(of_the_library(name))
            else:
                found = of_a_package(name)
                if found is not None:
                    there.add(name)
                    ahead += found
    return there


def of_the_library(name):
    """The modules that are there with one of the standard library."""
    if name.partition(".")[0] in NEVER:
        return set()
    try:
        importlib.import_module(name)
    except Exception:
        # It may be a member, or of another system.
        return {name} & set(sys.modules)
    return set(sys.modules)


def of_a_package(name):
    """What a module of a package imports; None if it is no module."""
    spec = spec_of(name)
    if spec is None:
        return None
    if spec.origin is None or not spec.origin.endswith(".py"):
        return []
    try:
        tree = ast.parse(pathlib.Path(spec.origin).read_bytes())
        return [it for it, *_ in Module(spec.origin, name, tree).top]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


def spec_of(name):
    """Of a module that is installed. Nothing is imported."""
    path = None
    try:
        for part in parents(name):
            spec = importlib.machinery.PathFinder.find_spec(part, path)
            if spec is None:
                return None
            path = list(spec.submodule_search_locations or [])
        return spec
    except (ImportError, ValueError):
        return None


def is_built_in(name):
    """Whether a module of the standard library is no file of Python: it is there at any time."""
    base = name.partition(".")[0]
    if base not in sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return True
    return base in BUILT_IN or spec is None or spec.origin is None or not spec.origin.endswith(".py")


def late(modules):
    """Imports of functions whose modules are not there by then."""
    there = None
    for module in modules.values():
        lines = {}
        for name, line, is_optional, is_member in module.later:
            there = imported(modules) if there is None else there
            if name in there or is_built_in(name):
                continue
            is_installed = own(name) is not None or name.partition(".")[0] in sys.stdlib_module_names or spec_of(name) is not None
            # A member that is no module, and what the program goes on without.
            if (is_member or is_optional) and not (is_installed and not (is_member and not is_module(name))):
                continue
            # Of `from a import b` the module `a.b`, if that is one.
            if line not in lines or (is_member and is_module(name)):
                lines[line] = name
        for line, name in sorted(lines.items()):
            text = f"`{name}` is imported in a function, which fails at a request: there are no files to import from"
            yield f"{module.path}:{line}: {text}\timport it at the top of the module"


def is_module(name):
    if own(name) is not None or spec_of(name) is not None:
        return True
    return name.partition(".")[0] in sys.stdlib_module_names and importlib.util.find_spec(name.rpartition(".")[0]) is not None and name in sys.modules


def early(modules):
    """Variables that the top of a module reads."""
    for module in modules.values():
        lines = dict(reversed(module.reads))
        for name, line in module.calls:
            if reads(modules, module, name, set()):
                lines.setdefault(line, None)
        for line, variable in sorted(lines.items()):
            what = f"the environment variable `{variable}`" if variable else "the environment"
            text = f"{what} is read while the component is built, where it is not set"
            yield f"{module.path}:{line}: {text}\tread it in `init`, or in the function that needs it"


def reads(modules, module, name, seen):
    """Whether a function of the project, by its name in a module, reads a variable."""
    if (module.path, name) in seen:
        return False
    seen.add((module.path, name))
    if name in module.functions:
        function = module.functions[name]
        return function["reads"] or any(reads(modules, module, called, seen) for called, _ in function["calls"])
    base, other = module.others.get(name, ("", ""))
    return base in modules and reads(modules, modules[base], other, seen)


def main():
    sys.path[:] = [it for it in sys.path if it]
    modules = project()
    for line in (*early(modules), *late(modules)):
        print(line)


main()
