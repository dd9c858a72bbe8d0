"""What the project's sources export and import: `python -c …` in the project's folder, with the project's own Python.

In:  the project in the current folder: `app`, and the project's modules that it imports. Nothing of it is run.
Out: on stdout a JSON object: `exports`, the contract's interfaces that the functions are, and `uses`, what is imported of the SDK.
     On stderr, with status 1, a source that is no Python, or a name that the SDK does not have.
"""

import ast
import difflib
import functools
import importlib.machinery
import json
import os
import pathlib
import sys

SDK = "modelhost_guest"
IMPORTS = "wit_world.imports"
MOST = 2000
# What a call or a decorator of the SDK's makes the project export.
FUNCTIONS = {
    "init": ["init"],
    "input_schema": ["input-schema"],
    "pre_inference": ["pre-inference"],
    "post_inference": ["post-inference"],
    "pre_inference_tensors": ["pre-inference-tensors"],
    "post_inference_tensors": ["post-inference-tensors"],
    "websocket": ["websocket"],
    "truss": ["init", "respond", "operations"],
}
SERVED = ["respond", "operations"]
# The same of an application's methods.
METHODS = {
    "init": ["init"],
    "handler": SERVED,
    "get": SERVED,
    "post": SERVED,
    "background": SERVED,
    "batch": [*SERVED, "respond-all"],
    "websocket": ["websocket"],
}
APPLICATIONS = {"App", "Potassium"}
# The bindings' classes, which a project may write by itself.
CLASSES = {
    "Init": "init",
    "InputSchema": "input-schema",
    "PreInference": "pre-inference",
    "PostInference": "post-inference",
    "PreInferenceTensors": "pre-inference-tensors",
    "PostInferenceTensors": "post-inference-tensors",
    "Respond": "respond",
    "RespondAll": "respond-all",
    "Operations": "operations",
    "Websocket": "websocket",
}
# Modules of the SDK that call the host or a library, and those of the bindings.
USES = {name: [name] for name in ("blobs", "image", "jobs", "kv", "metrics", "models", "outbound", "tensor", "tokenizer")}
USES |= {"send_webhook": ["outbound"]}
# Potassium's store, and what is behind it by its backend.
STORE, BACKENDS = "store", {"redis": ["kv"], "s3": ["blobs"]}
BINDINGS = {
    "arithmetic": "tensor",
    "blobstore": "blobs",
    "container": "blobs",
    "images": "image",
    "jobs": "jobs",
    "kv": "kv",
    "metrics": "metrics",
    "models": "models",
    "request": "request",
    "requests": "outbound",
    "tokenizers": "tokenizer",
    "types": None,
    "wasi_blobstore_types": "blobs",
    "websockets": None,
}

APP, APP_CLASS = ("an application",), ("a class of applications",)


class Wrong(Exception):
    """What the author has to mend, with a hint."""


class Module:
    """A file of the project, or of the SDK."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        try:
            self.nodes = list(nodes(ast.parse(pathlib.Path(path).read_bytes(), path)))
        except SyntaxError as error:
            raise Wrong(f"SyntaxError: {error.msg} ({path}:{error.lineno})") from None
        except (ValueError, RecursionError) as error:
            raise Wrong(f"{type(error).__name__}: {error} ({path})") from None
        # What each name stands for; the modules of `from … import *`.
        self.names, self.stars = {}, []

    def absolute(self, node):
        if not node.level:
            return node.module or ""
        parts = self.package.split(".") if self.package else []
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


class Project:
    """The modules of the project that `app` reaches, and what they use."""

    def __init__(self):
        self.modules, self.sdk = {}, {}
        self.exports, self.uses = set(), set()
        # Whether there is a store, and the backends that it is made with; `None` is one that only a run tells.
        self.has_store, self.backends = False, set()
        ahead = ["app"]
        while ahead and len(self.modules) < MOST:
            name = ahead.pop()
            path = own(name)
            if path is None or name in self.modules:
                continue
            module = self.modules[name] = Module(path, name)
            for node in module.nodes:
                for imported in imports(module, node):
                    parts = imported.split(".")
                    ahead += [".".join(parts[:number]) for number in range(1, len(parts) + 1)]
        # Twice: a name may stand for one of a module that comes later.
        for _ in range(2):
            for module in self.modules.values():
                self.bind(module)
        for module in self.modules.values():
            self.look(module)
        if self.has_store:
            of_any = set(BACKENDS) if not self.backends or None in self.backends else self.backends
            self.uses.update(use for backend in of_any for use in BACKENDS.get(backend, []))
        if "app" in self.modules:
            self.exports.update(CLASSES[name] for name in self.classes(self.modules["app"], set()))

    def bind(self, module):
        for node in module.nodes:
            if isinstance(node, ast.Import):
                for it in node.names:
                    module.names[it.asname or it.name.partition(".")[0]] = ("module", it.name if it.asname else it.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                base = module.absolute(node)
                for it in node.names:
                    if it.name == "*":
                        module.stars += [base] if base not in module.stars else []
                    else:
                        module.names[it.asname or it.name] = self.member(base, it.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                value = self.value(module, node.value)
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and value is not None:
                        module.names[target.id] = value
            elif isinstance(node, ast.ClassDef) and any(self.value(module, base) == APP_CLASS for base in node.bases):
                module.names[node.name] = APP_CLASS
            elif isinstance(node, ast.arg) and node.annotation is not None and self.value(module, node.annotation) == APP_CLASS:
                module.names[node.arg] = APP

    def member(self, base, name):
        """What a name of a module stands for."""
        if base in self.modules:
            return self.named(self.modules[base], name) or ("module", f"{base}.{name}")
        if base == SDK or base.startswith(f"{SDK}."):
            if name in APPLICATIONS:
                return APP_CLASS
            return ("module", f"{base}.{name}") if base == SDK and submodule(name) and name not in FUNCTIONS else ("sdk", name)
        return ("module", f"{base}.{name}")

    def named(self, module, name):
        if name in module.names:
            return module.names[name]
        for star in module.stars:
            if star in self.modules and star != module.name:
                found = self.modules[star].names.get(name)
            else:
                found = self.member(star, name) if star == SDK and name in self.of_the_sdk(SDK) else None
            if found is not None:
                return found
        return None

    def value(self, module, node):
        """What an expression stands for, as far as that matters here."""
        if isinstance(node, ast.Name):
            return self.named(module, node.id)
        if isinstance(node, ast.Attribute):
            base = self.value(module, node.value)
            if base == APP:
                return ("method", node.attr)
            return self.member(base[1], node.attr) if base is not None and base[0] == "module" else None
        if isinstance(node, ast.Call) and self.value(module, node.func) == APP_CLASS:
            return APP
        return None

    def look(self, module):
        """Finds what a module exports and uses."""
        for node in module.nodes:
            if isinstance(node, ast.Call):
                called = self.value(module, node.func)
                self.exported(called)
                if called == ("sdk", "Store"):
                    self.backends.add(backend(node))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for decorator in node.decorator_list:
                    self.exported(self.value(module, decorator))
                    if self.value(module, decorator) == ("sdk", "truss") and "websocket" in methods(node):
                        self.exports.add("websocket")
            elif isinstance(node, (ast.Name, ast.Attribute)):
                found = self.value(module, node)
                if found is not None and found[0] == "module" and found[1].startswith(f"{SDK}."):
                    self.used(found[1])
                base = self.value(module, node.value) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else None
                if base is not None and base[0] == "module" and base[1].partition(".")[0] == SDK:
                    self.check(module, node, base[1], node.attr)
            elif isinstance(node, ast.Import):
                for it in node.names:
                    self.used(it.name)
            elif isinstance(node, ast.ImportFrom):
                base = module.absolute(node)
                self.used(base)
                for it in node.names:
                    self.imported(module, node, base, it.name)

    def imported(self, module, node, base, name):
        if name == "*":
            return
        if base == IMPORTS:
            if name not in BINDINGS:
                raise Wrong(
                    f"{module.path}:{node.lineno}: `{IMPORTS}` has no `{name}`: the world that is made of the sources has only what "
                    "the SDK knows\twrite the world that imports it, in wit/world.wit"
                )
            self.uses.update(filter(None, [BINDINGS[name]]))
        elif base == SDK or base.startswith(f"{SDK}."):
            self.check(module, node, base, name)
            self.used(f"{base}.{name}")

    def used(self, name):
        """Notes the use of a module or function of the SDK."""
        if name.startswith(f"{SDK}."):
            for part in name.split(".")[1:]:
                self.uses.update(USES.get(part, []))
                self.has_store |= part == STORE

    def exported(self, value):
        if value is not None and value[0] in ("sdk", "method"):
            self.exports.update((FUNCTIONS if value[0] == "sdk" else METHODS).get(value[1], []))

    def classes(self, module, seen):
        """The classes of the bindings that a module has by its own text, or by that of others of the project."""
        seen.add(module.name)
        found = {it.name for it in module.nodes if isinstance(it, ast.ClassDef)}
        for node in module.nodes:
            if isinstance(node, ast.Assign):
                found |= {it.id for it in node.targets if isinstance(it, ast.Name)}
            elif isinstance(node, ast.ImportFrom):
                base = module.absolute(node)
                found |= {it.asname or it.name for it in node.names if base in self.modules}
                if base in self.modules and base not in seen and any(it.name == "*" for it in node.names):
                    found |= self.classes(self.modules[base], seen)
        return found & set(CLASSES)

    def check(self, module, node, base, name):
        """Refuses a name that the SDK does not have."""
        known = self.of_the_sdk(base)
        if known is None or name in known or (base == SDK and submodule(name)) or (name.startswith("__") and name.endswith("__")):
            return
        near = difflib.get_close_matches(name, [it for it in known if not it.startswith("_")], 1)
        hint = f"did you mean `{near[0]}`?" if near else "modelhost-guest/README.md says what there is"
        raise Wrong(f"{module.path}:{node.lineno}: `{base}` has no `{name}`\t{hint}")

    def of_the_sdk(self, name):
        """The names that a module of the SDK has at its top; None if it cannot be read."""
        if name not in self.sdk:
            path = place(name)
            self.sdk[name] = None if path is None else set(top(ast.parse(pathlib.Path(path).read_bytes())))
        return self.sdk[name]


def backend(call):
    """The backend of a call that makes a store; None if it is no text, or the call has arguments from elsewhere."""
    if any(isinstance(it, ast.Starred) for it in call.args) or any(it.arg is None for it in call.keywords):
        return None
    given = next((it.value for it in call.keywords if it.arg == "backend"), call.args[0] if call.args else ast.Constant("redis"))
    return given.value if isinstance(given, ast.Constant) and given.value in BACKENDS else None


def methods(node):
    return {it.name for it in node.body if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef))}


def nodes(tree):
    """The nodes below one, in order, without the blocks that no import of the module runs."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If) and is_never(node.test):
            for part in node.orelse:
                yield part
                yield from nodes(part)
        else:
            yield from nodes(node)


def is_never(test):
    """Whether a block runs only for a type checker, or where the file is the program."""
    names = {it.id for it in ast.walk(test) if isinstance(it, ast.Name)} | {it.attr for it in ast.walk(test) if isinstance(it, ast.Attribute)}
    return "TYPE_CHECKING" in names or "__name__" in names


def top(tree):
    """The names that a module binds at its top."""
    for node in tree.body:
        for part in ast.walk(node) if isinstance(node, (ast.If, ast.Try)) else [node]:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield part.name
            elif isinstance(part, (ast.Import, ast.ImportFrom)):
                yield from ((it.asname or it.name).partition(".")[0] for it in part.names)
            elif isinstance(part, (ast.Assign, ast.AnnAssign)):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                yield from (it.id for target in targets for it in ast.walk(target) if isinstance(it, ast.Name))


def imports(module, node):
    """The modules that a statement may import."""
    if isinstance(node, ast.Import):
        yield from (it.name for it in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = module.absolute(node)
        yield base
        yield from (f"{base}.{it.name}" if base else it.name for it in node.names if it.name != "*")


def own(name):
    """The path of a module of the project, if it is one."""
    base = name.replace(".", "/")
    return next((it for it in (f"{base}/__init__.py", f"{base}.py") if name and os.path.isfile(it)), None)


@functools.cache
def place(name):
    """The file of a module of the SDK, which is installed; None if it is not there."""
    spec = importlib.machinery.PathFinder.find_spec(SDK)
    if spec is None or spec.origin is None:
        return None
    path = pathlib.Path(spec.origin).parent.joinpath(*name.split(".")[1:])
    return next((it for it in (path / "__init__.py", path.with_name(f"{path.name}.py")) if it.is_file()), None)


def submodule(name):
    return place(f"{SDK}.{name}") is not None


sys.path[:] = [it for it in sys.path if it]
try:
    project = Project()
except Wrong as wrong:
    text, _, hint = str(wrong).partition("\t")
    print(f"{text}\n  hint: {hint}" if hint else text, file=sys.stderr)
    sys.exit(1)
print(json.dumps({"exports": sorted(project.exports), "uses": sorted(project.uses)}))
