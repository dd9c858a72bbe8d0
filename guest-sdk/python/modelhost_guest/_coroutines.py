"""`async def` in a call of an export: coroutines run to their end before it returns."""

import inspect
import sys


def finisher(model):
    """What makes a coroutine's result of it, an ordinary generator of an asynchronous one, and leaves any other value as it is.

    A loop is there if the program may wait: if it has asyncio, or the class, or one that it derives from, has coroutines. It is
    imported while the component is built, as all is.
    """
    functions = [getattr(it, "__func__", it) for one in model.__mro__ for it in vars(one).values()]
    run = _at_once
    if "asyncio" in sys.modules or any(inspect.iscoroutinefunction(it) or inspect.isasyncgenfunction(it) for it in functions):
        from ._aio import run
    return lambda value: _finished(value, run)


def _finished(value, run):
    if hasattr(value, "__anext__"):
        return _pieces(value, run)
    return run(value) if inspect.iscoroutine(value) else value


def _pieces(generator, run):
    try:
        while True:
            try:
                yield run(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        if hasattr(generator, "aclose"):
            run(generator.aclose())


def _at_once(awaited):
    """The result of a coroutine that waits for nothing."""
    try:
        next(awaited.__await__())
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine waits for what cannot come: nothing of asyncio is imported")
