"""Frees the host's handles: what `weakref.finalize` gives the bindings, and quicker than it.

They make one for each handle, the context of every call among them, and detach it when the call ends. `weakref.finalize`
does that in Python, and sets an attribute of its class each time, which empties the interpreter's caches of it: a twentieth
of a small request. For all but the bindings' handles it stays what it was.
"""

from __future__ import annotations

import weakref
from typing import Any

try:
    from componentize_py_runtime import drop_resource
except ImportError:
    # In a test.
    drop_resource = None


class Finalizer:
    """Belongs to one handle and is referenced by it alone, so it is finalized with it."""

    __slots__ = ("_drop",)

    def __init__(self, *drop: Any) -> None:
        self._drop = drop

    def detach(self) -> Any:
        """Frees nothing any more, and gives the call that would have done it, as `weakref.finalize` does; None if it is done."""
        held, self._drop = self._drop, ()
        return (None, held[0], held[1:], {}) if held else None

    def __del__(self) -> None:
        held, self._drop = self._drop, ()
        if held:
            held[0](*held[1:])

    def __reduce__(self) -> Any:
        # A copy of a handle frees nothing.
        return Finalizer, ()


def _new(cls: Any, *arguments: Any, **named: Any) -> Any:
    if cls is weakref.finalize and len(arguments) > 1 and arguments[1] is drop_resource:
        return Finalizer(*arguments[1:])
    return object.__new__(cls)


if drop_resource is not None:
    # The class itself stays, for those that have it or a class of it.
    weakref.finalize.__new__ = _new  # type: ignore[method-assign]
