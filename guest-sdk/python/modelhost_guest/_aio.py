"""`async def` without sockets: asyncio's own loop, whose waits are sleeps. Imported only where a handler has such functions.

A request has an instance to itself, so its coroutines run to their end before the call returns.
"""

import asyncio
import time


class _Clock:
    """In place of a selector: there is nothing to listen to, so it sleeps."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("a coroutine waits for what cannot come: there are no sockets and no threads")
        if timeout > 0:
            time.sleep(timeout)
        return []


class _Loop(asyncio.BaseEventLoop):
    _selector = _Clock()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


_loop = None


def finished(value):
    """A coroutine's result, an asynchronous generator as an ordinary one, anything else as it is."""
    if hasattr(value, "__anext__"):
        return _pieces(value)
    return _run(value) if asyncio.iscoroutine(value) else value


def _pieces(generator):
    try:
        while True:
            try:
                yield _run(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        _run(generator.aclose())


def _run(awaited):
    global _loop
    if _loop is None:
        _loop = _Loop()
    return _loop.run_until_complete(awaited)
