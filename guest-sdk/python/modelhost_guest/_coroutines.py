"""`async def` in a call of an export: coroutines run to their end before it returns."""

from __future__ import annotations

import inspect
import sys
from typing import Any


def finisher(*functions: Any) -> Any:
    """`finished`, for a handler with these functions and classes.

    A loop is there if the program may wait: if it has asyncio when its exports are made, or has coroutines. It is imported while the
    component is built, as all is.
    """
    if any(map(is_async, functions)):
        from . import _aio  # noqa: F401
    return finished


def is_async(value: Any) -> bool:
    """Whether a function makes a coroutine or an asynchronous generator, or one of a class does."""
    if isinstance(value, type):
        return any(is_async(getattr(it, "__func__", it)) for one in value.__mro__ for it in vars(one).values() if not isinstance(it, type))
    value = inspect.unwrap(value) if callable(value) else value
    return inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)


def finished(value: Any) -> Any:
    """A coroutine's result, an ordinary generator of an asynchronous one, also of one that a coroutine returns; any other value as it is."""
    while hasattr(type(value), "__await__"):
        value = _run(value)
    if hasattr(type(value), "__anext__"):
        return _pieces(value)
    if hasattr(type(value), "__aiter__"):
        return _pieces(value.__aiter__())
    return value


def _pieces(generator: Any) -> Any:
    try:
        while True:
            try:
                yield _run(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        if hasattr(generator, "aclose"):
            _run(generator.aclose())


def _run(awaited: Any) -> Any:
    if "asyncio" in sys.modules:
        from . import _aio

        return _aio.run(awaited)
    return _at_once(awaited)


def _at_once(awaited: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        next(awaited.__await__())
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine waits for what cannot come: nothing of asyncio is imported")
