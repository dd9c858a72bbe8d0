"""What a save in a project means for the component that `modelhost dev` keeps: `python -c … FOLDER HAS_INIT` in the
project's folder, with the project's own Python.

In:  the project in the current folder; FOLDER, which is `dev`'s own, with a line in FOLDER/missed for each module that was missing when
     the handler was loaded; whether the project's world has `init`.
Out: FOLDER/sources, the files that the handler may import or read, by `marshal`; FOLDER/modelhost_needs.py, for `runner.py`.
     On stdout `kept` if the component does for them, `new` if it has to be made, `none` if the files are too many for one.
"""

import ast
import importlib.machinery
import importlib.util
import marshal
import os
import pathlib
import sys

# What is no part of a handler: folders at the top, and names anywhere.
OTHERS = {"node_modules", "target", "modelhost-guest", "wit", "cases", "handler.wasm"}
ENDINGS = ("~", ".md", ".onnx", "__pycache__")
# Made with the component: no Python outside knows them.
BINDINGS = {"wit_world", "componentize_py_types", "componentize_py_runtime", "componentize_py_async_support", "poll_loop"}
# Room for sources: the least and the most; and the largest file of data.
LEAST, MOST = 1 << 20, 16 << 20
LARGEST = 4 << 20
HEADER = 24


def files():
    """The project's files that a component would have, by their paths; None if they are too many."""
    found, total = {}, 0
    for folder, folders, names in os.walk("."):
        is_other = lambda name: name.startswith(".") or name.endswith(ENDINGS) or (folder == "." and name in OTHERS)  # noqa: E731
        folders[:] = [name for name in folders if not is_other(name)]
        for name in names:
            path = pathlib.Path(folder, name)
            # A handler that misses a file when it is loaded is built whole.
            if is_other(name) or not path.is_file() or path.suffix != ".py" and path.stat().st_size > LARGEST:
                continue
            found[path.as_posix()] = path.read_bytes()
            total += len(found[path.as_posix()])
            if total > MOST:
                return None
    return found


def statements(body):
    """The statements that run when a module does: not those of functions."""
    for node in body:
        yield node
        for part in ast.iter_child_nodes(node):
            if isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case)) and not isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef)
            ):
                yield from statements([part])


def imported(source, package):
    """The names that a module imports; of `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        # The component's Python says what is wrong with it, or knows more.
        return
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            yield from (it.name for it in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module or ""]))
            yield base
            yield from (f"{base}.{it.name}" for it in node.names if it.name != "*")


def outside(files, missed):
    """The modules outside the project that `app` imports, and the modules that it imports import; and those that were missed."""
    found, seen, ahead = set(), set(), ["app", *missed]
    while ahead:
        name = ahead.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        base = name.replace(".", "/")
        own = next((it for it in (f"{base}/__init__.py", f"{base}.py") if it in files), None)
        if own:
            package = name if own.endswith("__init__.py") else name.rpartition(".")[0]
            parents = name.split(".")
            ahead += [".".join(parents[:n]) for n in range(1, len(parents))]
            ahead += imported(files[own], package)
        elif not any(it.startswith(name.split(".")[0] + end) for it in files for end in (".py", "/")):
            parts = name.split(".")
            found.update(".".join(parts[:number]) for number in range(1, len(parts) + 1))
    return sorted(name for name in found if is_there(name))


def is_there(name):
    """Whether there is such a module, as far as this Python knows. Nothing is imported."""
    parts = name.split(".")
    if parts[0] in BINDINGS or name in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(parts[0])
        for number in range(2, len(parts) + 1):
            if spec is None or spec.submodule_search_locations is None:
                return False
            path = ".".join(parts[:number])
            spec = importlib.machinery.PathFinder.find_spec(path, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return False
    return spec is not None


def main():
    folder, has_init = pathlib.Path(sys.argv[1]), sys.argv[2] == "true"
    try:
        own = files()
    except OSError:
        # A whole build may not need that file, or says what it is.
        own = None
    if own is None:
        return "none"
    contents = marshal.dumps(own, 2)
    (folder / "sources").write_bytes(contents)
    missed = folder / "missed"
    imports = outside(own, missed.read_text().split() if missed.is_file() else [])
    size = len(contents) + HEADER

    needs, component, kept = folder / "modelhost_needs.py", folder / "runner.wasm", {}
    if needs.is_file():
        exec(needs.read_text(), kept)
        if size <= kept["ROOM"] and set(imports) <= set(kept["IMPORTS"]):
            return "kept" if component.is_file() else "new"
    room = LEAST
    while room < 2 * size:
        room *= 2
    component.unlink(missing_ok=True)
    needs.write_text(f"IMPORTS = {imports!r}\nROOM = {room}\nHAS_INIT = {has_init}\n")
    return "new"


print(main())
