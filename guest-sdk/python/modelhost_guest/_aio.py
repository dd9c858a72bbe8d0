"""`async def` without sockets: asyncio's own loop, whose waits are sleeps. Imported only where a handler has such functions.

A request has an instance to itself, so its coroutines run to their end before the call returns.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from . import handler


class _Clock:
    """In place of a selector: there is nothing to listen to, so it sleeps."""

    def select(self, timeout: Any) -> Any:
        if timeout is None:
            raise RuntimeError("a coroutine waits for what cannot come: there are no sockets and no threads")
        if timeout > 0:
            time.sleep(timeout)
        return []


class _Loop(asyncio.BaseEventLoop):
    _selector = _Clock()

    def _process_events(self, events: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: Any = None) -> None:
        # That would be a thread, which waits for others.
        self._executor_shutdown_called = True


_loop = None
# Tasks that `init` began: they go on whenever a request waits.
_lasting: set[Any] = set()
# Seconds that a task has to end when it is cancelled.
PATIENCE = 1


def run(awaited: Any) -> Any:
    """Runs a coroutine to its end."""
    global _loop
    if _loop is None:
        _loop = _Loop()
    return _loop.run_until_complete(awaited)


def _end(is_init: bool) -> None:
    """Cancels the tasks that a request began and did not wait for: another request is not theirs."""
    if _loop is None:
        return
    left = asyncio.all_tasks(_loop)
    if is_init:
        _lasting.update(left)
    elif left := left - _lasting:
        for task in left:
            task.cancel()
        run(asyncio.wait(left, timeout=PATIENCE))


handler.end_tasks = _end
if sys.platform == "wasi":
    # For `asyncio.run` in a function that is not asynchronous: the loops of others have sockets.
    asyncio.new_event_loop = asyncio.events.new_event_loop = _Loop
