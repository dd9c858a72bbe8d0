"""Frees the host's handles: a quicker `weakref.finalize`, which the bindings take when the component is built.

They make one for each handle, the context of every call among them, and detach it when the call ends. `weakref.finalize`
does that in Python, and sets an attribute of its class each time, which empties the interpreter's caches of it: a twentieth
of a small request. For all but the bindings' handles it stays what it was.
"""

import weakref

try:
    from componentize_py_runtime import drop_resource
except ImportError:
    # In a test.
    drop_resource = None


class Finalizer:
    """Of one handle, which alone has it, so that both end together."""

    __slots__ = ("_drop",)

    def __init__(self, drop, arguments):
        self._drop = drop, arguments

    def detach(self):
        """Frees nothing any more, and gives the call that would have done it, as `weakref.finalize` does; None if it is done."""
        held, self._drop = self._drop, None
        return held and (None, *held, {})

    def __del__(self):
        if self._drop is not None:
            drop, arguments = self._drop
            drop(*arguments)


class Finalize(weakref.finalize):
    """Makes either."""

    __slots__ = ()

    def __new__(cls, owner, function, /, *arguments, **named):
        return Finalizer(function, arguments) if function is drop_resource else super().__new__(cls)


if drop_resource is not None:
    weakref.finalize = Finalize
