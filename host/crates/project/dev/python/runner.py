"""The module that `modelhost dev` makes a component of, once: it runs sources that are written into the component later.

In:  `modelhost_needs`, a module that names what the sources import and how much room they need; the bindings of the world.
Out: every export of the world, which calls the export of the project's `app`. `init` imports `app` first; the host keeps the
     memory that it leaves, so that no request pays for it.
The sources are in `SLOT`, which lies in the component as one piece: a mark, their length, and a dictionary by `marshal`.
"""

import builtins
import importlib
import io
import marshal
import os
import pkgutil
import posixpath
import stat
import sys
import traceback
from importlib.machinery import ModuleSpec

import wit_world
import wit_world.exports
from componentize_py_types import Err
from modelhost_needs import HAS_INIT, IMPORTS, ROOM

# Where a component that is built whole has the project's folder.
FOLDER = "/0"
MODULE = "app"
DECORATORS = {
    "Respond": "@app.handler",
    "RespondAll": "@app.batch",
    "Operations": "@app.handler",
    "InputSchema": "input_schema(…)",
}

# Where the standard library was when the component was made.
LIBRARY = posixpath.dirname(traceback.__file__) + "/"

# In two pieces, so that the whole mark is nowhere but here.
SLOT = bytearray(b"\xa5") * ROOM
SLOT[:8] = b"modelhos"
SLOT[8:16] = b"t-slot-\x01"

for name in IMPORTS:
    try:
        importlib.import_module(name)
    except Exception:
        # The sources may count with that, or the error is theirs to raise.
        pass

# What these import later, when there are no files.
if "modelhost_guest._stdlib" in sys.modules:
    sys.modules["modelhost_guest._stdlib"].bring_in()

# The modules of each package that is there, now that its files are: a name that is none of these is a mistake of the author's.
MODULES = {
    name: {it.name for it in pkgutil.iter_modules(module.__path__)}
    for name, module in list(sys.modules.items())
    if hasattr(module, "__path__")
}

instances = {}


class Sources:
    """The project's files; finds and loads modules, and opens files while they are loaded."""

    def __init__(self, files):
        self.files = files
        self.folders = {FOLDER}
        for name in files:
            while name := posixpath.dirname(name):
                self.folders.add(f"{FOLDER}/{name}")

    def find_spec(self, name, path=None, target=None):
        base = name.replace(".", "/")
        for file in (f"{base}/__init__.py", f"{base}.py"):
            if file in self.files:
                is_package = not file == f"{base}.py"
                spec = ModuleSpec(name, self, origin=f"{FOLDER}/{file}", is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations.append(f"{FOLDER}/{base}")
                return spec
        if f"{FOLDER}/{base}" in self.folders and any(it.startswith(f"{base}/") and it.endswith(".py") for it in self.files):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations.append(f"{FOLDER}/{base}")
            return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        exec(compile(self.get_data(path), path, "exec", dont_inherit=True), vars(module))

    def get_data(self, path):
        return self.files[posixpath.relpath(path, FOLDER)]

    def get_source(self, name):
        spec = self.find_spec(name)
        return None if spec is None or spec.origin is None else self.get_data(spec.origin).decode(errors="replace")

    def _own(self, path):
        """The path below the project's folder, if it is one."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        path = posixpath.normpath(os.fspath(path))
        return path if isinstance(path, str) and (path == FOLDER or path.startswith(f"{FOLDER}/")) else None

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **more):
        own = self._own(file)
        if own is None or own[len(FOLDER) + 1 :] not in self.files or set("wax+") & set(mode):
            return self.system["open"](file, mode, buffering, encoding, errors, newline, *rest, **more)
        contents = io.BytesIO(self.get_data(own))
        return contents if "b" in mode else io.TextIOWrapper(contents, encoding, errors, newline)

    def stat(self, path, *rest, **more):
        own = self._own(path)
        if own is not None and own in self.folders:
            return os.stat_result((stat.S_IFDIR | 0o555, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        if own is not None and own[len(FOLDER) + 1 :] in self.files:
            return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, len(self.get_data(own)), 0, 0, 0))
        return self.system["stat"](path, *rest, **more)

    def listdir(self, path="."):
        own = self._own(path)
        if own not in self.folders:
            return self.system["listdir"](path)
        inside = [it[len(own) + 1 :] for it in [f"{FOLDER}/{name}" for name in self.files] if it.startswith(f"{own}/")]
        return sorted({it.split("/")[0] for it in inside})

    def scandir(self, path="."):
        if self._own(path) in self.folders:
            raise ImportError("`os.scandir` of the project's folder")
        return self.system["scandir"](path)

    def __enter__(self):
        self.system = {"open": io.open, "stat": os.stat, "listdir": os.listdir, "scandir": os.scandir}
        builtins.open = io.open = self.open
        os.stat, os.listdir, os.scandir = self.stat, self.listdir, self.scandir

    def __exit__(self, *_):
        builtins.open = io.open = self.system["open"]
        os.stat, os.listdir, os.scandir = self.system["stat"], self.system["listdir"], self.system["scandir"]


def load():
    """Imports `app`, and makes an instance of each class that the world's exports are."""
    length = int.from_bytes(SLOT[16:24], "little")
    sources = Sources(marshal.loads(memoryview(SLOT)[24 : 24 + length]))
    sys.meta_path.insert(0, sources)
    with sources:
        module = importlib.import_module(MODULE)
    for name in exports:
        if name == "Init" and not HAS_INIT:
            continue
        kind = getattr(module, name, None)
        if kind is None:
            decorator = DECORATORS.get(name) or "@" + "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]
            raise Missing(f"`{decorator}` or class `{name}`")
        made = kind()
        for method in exports[name]:
            if getattr(getattr(made, method, None), "__isabstractmethod__", method not in dir(made)):
                raise Missing(f"method `{name}.{method}`")
        instances[name] = made


class Missing(Exception):
    """An export of the world that `app` does not have."""


def failed(error):
    """What the host is told, on one line; the traceback goes to the log."""
    if isinstance(error, Missing):
        return f"{MODULE}.py has no {error}: write it, or remove what needs it from the world in wit/world.wit"
    told = traceback.TracebackException.from_exception(error)
    left = [told]
    while left:
        one = left.pop()
        one.stack = traceback.StackSummary.from_list(frame for frame in one.stack if is_shown(frame))
        left += filter(None, [one.__cause__, one.__context__])
    print("".join(told.format()).replace(f'"{FOLDER}/', '"').rstrip(), file=sys.stderr)
    if isinstance(error, SyntaxError):
        text, where = error.msg, [(error.filename or "", error.lineno)]
    else:
        own = [(frame.filename, frame.lineno) for frame in told.stack if frame.filename.startswith(f"{FOLDER}/")]
        text, where = str(error), own[-1:]
    text = " ".join(text.split()) + "".join(f" ({file.removeprefix(f'{FOLDER}/')}:{line})" for file, line in where)
    more = ""
    if isinstance(error, ImportError) and error.name:
        if not error.name_from:
            more = f"; without module `{error.name}`, a full build follows"
        elif may_be_module(error.name, error.name_from):
            more = f"; without module `{error.name}.{error.name_from}`, a full build follows"
    elif isinstance(error, (ImportError, OSError)):
        more = "; a full build follows"
    return f"{type(error).__name__}: {text}{more}"


def may_be_module(package, name):
    """Whether a package that is there may have a module of this name; what is no package has none."""
    if package in MODULES:
        return name in MODULES[package]
    return package not in sys.modules or hasattr(sys.modules[package], "__path__")


def is_shown(frame):
    """Whether a frame is one of the project's or of its packages', and not of what is in every component."""
    name = frame.filename
    return name != __file__ and "/modelhost_guest/" not in name and not name.startswith(("<frozen importlib", LIBRARY))


def exported():
    """The methods of each class that the world's exports are, by its name."""
    found = {}
    for name, kind in [*vars(wit_world.exports).items(), ("WitWorld", getattr(wit_world, "WitWorld", object))]:
        if isinstance(kind, type) and kind.__module__ in (wit_world.__name__, wit_world.exports.__name__):
            methods = [method for method, value in vars(kind).items() if getattr(value, "__isabstractmethod__", False)]
            if methods:
                found[name] = methods
    return found


def delegate(name, method):
    return lambda self, *arguments: getattr(instances[name], method)(*arguments)


class Init:
    def init(self, metadata):
        try:
            load()
        except Exception as error:
            raise Err(failed(error)) from None
        if HAS_INIT:
            instances["Init"].init(metadata)


exports = exported()
for name, methods in exports.items():
    if name != "Init":
        globals()[name] = type(name, (), {method: delegate(name, method) for method in methods})
