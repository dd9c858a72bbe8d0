"""Containers in memory, for tests, which have no host."""

from __future__ import annotations

import time
from typing import Any

from .errors import BlobError

LONGEST_NAME = 512

_containers: dict[Any, Any] = {}


def container(name: str) -> Any:
    """A container, which is there as soon as it is named."""
    return _containers.setdefault(name, Objects())


def forget() -> None:
    """Removes all containers."""
    _containers.clear()


class Objects:
    """What the host's container does, but for limits."""

    def __init__(self) -> None:
        self._stored: dict[Any, Any] = {}

    def read(self, name: str, first: Any, last: Any) -> Any:
        _check(name)
        if name not in self._stored:
            raise BlobError(f"there is no object `{name}`")
        content = self._stored[name][0][first : last + 1]
        return _Input(content), len(content)

    def write(self, name: str) -> Any:
        _check(name)
        return _Output(self._stored, name)

    def info(self, name: str) -> Any:
        _check(name)
        content, created = self._stored.get(name, (None, 0))
        return None if content is None else (len(content), created)

    def delete(self, name: str) -> None:
        _check(name)
        self._stored.pop(name, None)

    def clear(self) -> None:
        self._stored.clear()

    def names(self, most: Any) -> Any:
        return sorted(self._stored, key=str.encode)[:most]


class _Input:
    def __init__(self, content: Any) -> None:
        self._content = memoryview(content)

    def read(self, size: int) -> Any:
        piece, self._content = self._content[:size], self._content[size:]
        return bytes(piece)

    def close(self) -> None:
        self._content = memoryview(b"")


class _Output:
    def __init__(self, stored: Any, name: str) -> None:
        self._stored = stored
        self._name = name
        self._pieces: list[Any] = []

    def write(self, content: Any) -> None:
        self._pieces.append(content)

    def finish(self) -> None:
        self._stored[self._name] = (b"".join(self._pieces), int(time.time()))

    def give_up(self) -> None:
        self._pieces.clear()


def _check(name: str) -> None:
    length = len(name.encode())
    if not 1 <= length <= LONGEST_NAME:
        raise BlobError(f"a name of {length} bytes, expected 1 to {LONGEST_NAME}")
