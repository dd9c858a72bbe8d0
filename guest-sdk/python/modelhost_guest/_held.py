"""Handles of the host's, or of a library's, that a request holds: given up at its end, since garbage is collected late."""

from __future__ import annotations

from typing import Any

_own: list[Any] = []


def hold(handle: Any) -> Any:
    """Keeps it until the request ends, or `release`."""
    _own.append(handle)
    return handle


def release(handle: Any) -> None:
    """Gives it up, once."""
    if handle in _own:
        _own.remove(handle)
        handle.__exit__(None, None, None)


def is_held(handle: Any) -> Any:
    """Whether it has not been given up."""
    return any(it is handle for it in _own)


def released() -> None:
    """Gives all of them up."""
    while _own:
        _own.pop().__exit__(None, None, None)
