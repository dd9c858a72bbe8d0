"""What the standard library imports only when it is used: brought in while the component is built, since there are no files later.

Each export does that when it is made, which is after the handler's module. In a test nothing is done.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

# Modules that another one imports when one of its functions is called. What a Python has not is left out.
LATER = {
    "collections": ("copy", "heapq"),
    "datetime": ("_strptime",),
    "time": ("_strptime",),
    "argparse": ("gettext", "shutil", "textwrap"),
    "asyncio": ("concurrent.futures.thread",),
    "concurrent.futures": ("concurrent.futures.thread",),
    "email": ("email.charset", "email.generator", "email.message", "email.parser", "email.policy", "email.utils"),
    "fractions": ("decimal",),
    "http.client": ("email.parser",),
    "importlib.metadata": ("csv",),
    "importlib.resources": ("importlib.readers",),
    "logging": ("pickle",),
    "logging.config": ("configparser",),
    "pkgutil": ("inspect",),
    "random": ("hashlib",),
    "shutil": ("tarfile", "zipfile"),
    "tarfile": ("gzip",),
    "urllib.request": ("email.utils", "http.cookiejar", "mimetypes"),
    "uuid": ("hashlib", "random"),
    "warnings": ("linecache",),
    "xml.dom.minidom": ("xml.dom.expatbuilder", "xml.dom.pulldom"),
    "xml.etree.ElementTree": ("xml.parsers.expat",),
    "xml.sax": ("xml.sax.expatreader",),
    "zoneinfo": ("importlib.readers", "importlib.resources"),
}

_is_done = False
# Whether the data of time zones are there.
has_zones = False


def whole(export: Callable[[], Any]) -> Any:
    """What makes an export, of a module that is whole by then."""

    def made() -> Any:
        if sys.platform == "wasi":
            bring_in()
        return export()

    return made


def bring_in() -> None:
    """Imports what the modules that are there may import later; the data of time zones; threads' pools that need no threads."""
    global _is_done
    if _is_done:
        return
    _is_done = True
    names = [f"encodings.{it.name}" for it in pkgutil.iter_modules(sys.modules["encodings"].__path__)]
    while names:
        for name in names:
            _import(name)
        names = [it for module, later in LATER.items() if module in sys.modules for it in later if it not in _asked]
    if "asyncio" in sys.modules:
        _import(f"{__package__}._aio")
    if "zoneinfo" in sys.modules and _import("tzdata"):
        _keep_zones()
    if "concurrent.futures.thread" in sys.modules:
        _run_at_once(sys.modules["concurrent.futures.thread"].ThreadPoolExecutor)


_asked: set[Any] = set()


def _import(name: str) -> Any:
    _asked.add(name)
    try:
        return importlib.import_module(name)
    except ImportError:
        # Of another system, or of another Python.
        return None


def _keep_zones() -> Any:
    """Reads the package `tzdata` whole, for `ZoneInfo` and `available_timezones`."""
    global has_zones
    import zoneinfo
    from importlib import resources
    from zoneinfo import _common

    package = resources.files("tzdata")
    names = package.joinpath("zones").read_text().split()
    # Many zones are others by another name.
    same: dict[Any, Any] = {}
    zones = {name: same.setdefault(data, data) for name in names for data in [package.joinpath("zoneinfo").joinpath(name).read_bytes()]}
    missing = _common.ZoneInfoNotFoundError if hasattr(_common, "ZoneInfoNotFoundError") else zoneinfo.ZoneInfoNotFoundError

    def load_tzdata(key: Any) -> Any:
        if key not in zones:
            raise missing(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    has_zones = True
    _common.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)


def _run_at_once(pool: Any) -> Any:
    """There are no threads: what a pool is given runs before `submit` returns."""
    from concurrent.futures import Future

    def submit(self: Any, function: Any, /, *arguments: Any, **named: Any) -> Any:
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        begin = self.__dict__.pop("_begin", None)
        future: Any = Future()
        future.set_running_or_notify_cancel()
        try:
            if begin is not None:
                begin()
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    created = pool.__init__

    def __init__(self: Any, max_workers: Any = None, thread_name_prefix: Any = "", initializer: Any = None, initargs: Any = (), **more: Any) -> None:
        created(self, max_workers, thread_name_prefix, initializer, initargs, **more)
        if initializer is not None:
            self._begin = lambda: initializer(*initargs)

    pool.__init__, pool.submit = __init__, submit
