"""What the log is told of an error: a line with the project's own place, then the frames of the project's files.

Nothing of it runs for a request without an error, nor for a mistake of the caller's.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from . import _stdlib

# Where a component has the project.
_PROJECT = "/0/"
_SDK = os.path.dirname(__file__)
_LIBRARY = os.path.dirname(traceback.__file__)
# Most bytes of a line, and of frames: the host keeps 4 KiB of both. Of frames that are too many the first and the last are kept.
_LINE, _FRAMES, _FIRST = 1000, 2800, 800


def line(error: BaseException) -> str:
    """An error on one line: what, and the line of the project's that is nearest to where it was raised."""
    text = _cut(" ".join(_text(error).split()), _LINE)
    own = [it for it in _frames(error) if _is_own(it[0])]
    where = "".join(f" ({_shown(file)}:{number})" for file, number, _ in own[-1:])
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}{_hint(error)}"


def frames(error: BaseException) -> str:
    """The frames of the project's files, also of the errors that led to this one, oldest first; empty if there are none."""
    try:
        return _bounded("".join(_told(error)))
    except Exception:
        # There may be no memory for them. The line is there.
        return ""


def _told(error: BaseException) -> Iterator[str]:
    told = traceback.TracebackException.from_exception(error, lookup_lines=False)
    # Without the lines' text: a component has no sources.
    left, is_any = [told], False
    while left:
        it = left.pop()
        own = [frame for frame in it.stack if _is_shown(frame.filename)]
        is_any = is_any or bool(own)
        shown = [traceback.FrameSummary(_shown(frame.filename), frame.lineno, frame.name, lookup_line=False, line="") for frame in own]
        it.stack = traceback.StackSummary.from_list(shown)
        left += [one for one in (it.__cause__, it.__context__, *(getattr(it, "exceptions", None) or ())) if one is not None]
    return told.format() if is_any else iter(())


def _frames(error: BaseException) -> Iterator[tuple[str, int, str]]:
    """File, line and function of each frame, the one that raised it last."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        yield code.co_filename, trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _is_own(file: str) -> bool:
    """Whether a file is one of the project's; in a test, what is neither the SDK's nor a package's."""
    if sys.platform == "wasi":
        return file.startswith(_PROJECT)
    return _is_shown(file) and "site-packages" not in file


def _is_shown(file: str) -> bool:
    return not file.startswith((_SDK, "<frozen ")) and ("site-packages" in file or not file.startswith(_LIBRARY))


def _shown(file: str) -> str:
    return file.removeprefix(_PROJECT)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "an error that has no text"


def _cut(text: str, longest: int) -> str:
    """The beginning of a text, of so many bytes; half a pair of surrogates is replaced."""
    encoded = text.encode(errors="replace")
    return encoded.decode() if len(encoded) <= longest else encoded[:longest].decode(errors="ignore") + "…"


def _bounded(text: str) -> str:
    lines = [_cut(it, _LINE // 4) for it in text.rstrip().splitlines()]
    sizes = [len(it.encode()) + 1 for it in lines]
    if sum(sizes) <= _FRAMES:
        return "\n".join(lines)
    first = last = 0
    while sum(sizes[: first + 1]) <= _FIRST:
        first += 1
    while sum(sizes[-last - 1 :]) <= _FRAMES - _FIRST:
        last += 1
    return "\n".join([*lines[:first], f"  … {len(lines) - first - last} lines", *lines[-last:]])


def _hint(error: BaseException) -> str:
    """What is to be done about what a component has not: files of modules, and threads."""
    if isinstance(error, ImportError):
        return "; hint: import it at the top of the module"
    if type(error).__name__ == "ZoneInfoNotFoundError" and not _stdlib.has_zones:
        return "; hint: name `tzdata` in requirements.txt, and import `zoneinfo` at the top of the module"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "; hint: there are no threads, so call the function itself, or use `concurrent.futures.ThreadPoolExecutor`"
    return ""
