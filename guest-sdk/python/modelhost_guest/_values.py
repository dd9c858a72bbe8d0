"""Buckets in memory, for tests, which have no host."""

from __future__ import annotations

import time
from typing import Any

from .errors import KvError

LONGEST_KEY = 1024
MOST_KEYS = 1000

_buckets: dict[Any, Any] = {}


def bucket(name: str) -> Any:
    """A bucket, which is there as soon as it is named."""
    return _buckets.setdefault(name, Values())


def forget() -> None:
    """Removes all buckets."""
    _buckets.clear()


class Values:
    """What the host's bucket does, but for limits."""

    def __init__(self) -> None:
        self._stored: dict[Any, Any] = {}

    def get(self, key: str) -> Any:
        return self._found(key)[0]

    def set(self, key: str, value: bytes | int, ttl: int | None) -> None:
        _check(key)
        self._stored[key] = (value, _end(ttl))

    def add(self, key: str, value: bytes | int, ttl: int | None) -> Any:
        is_new = self.get(key) is None
        if is_new:
            self.set(key, value, ttl)
        return is_new

    def increment(self, key: str, by: int, ttl: int | None) -> Any:
        value, end = self._found(key)
        if value is None:
            value, end = b"0", _end(ttl)
        digits = value[1:] if value[:1] in (b"+", b"-") else value
        if not digits.isdigit() or not -(2**63) <= int(value) < 2**63:
            raise KvError("invalid", "the value is not a whole number of 64 bits")
        total = int(value) + by
        if not -(2**63) <= total < 2**63:
            raise KvError("invalid", "the sum is beyond 64 bits")
        self._stored[key] = (str(total).encode(), end)
        return total

    def swap(self, key: str, current: bytes | None, value: bytes | int) -> Any:
        found, end = self._found(key)
        if found != current:
            return False
        self._stored[key] = (value, end)
        return True

    def delete(self, key: str) -> None:
        _check(key)
        self._stored.pop(key, None)

    def keys(self, prefix: str, cursor: str | None, limit: int) -> Any:
        found = sorted((key for key in self._stored if key.startswith(prefix)), key=str.encode)
        found = [key for key in found if self._found(key)[0] is not None]
        behind = [key for key in found if cursor is None or key.encode() > cursor.encode()]
        page = behind[: min(max(limit, 1), MOST_KEYS)]
        return page, page[-1] if len(page) < len(behind) else None

    def _found(self, key: str) -> Any:
        _check(key)
        value, end = self._stored.get(key, (None, None))
        return (None, None) if end is not None and end <= time.monotonic() else (value, end)


def _check(key: str) -> None:
    length = len(key.encode())
    if not 1 <= length <= LONGEST_KEY:
        raise KvError("invalid", f"a key of {length} bytes, expected 1 to {LONGEST_KEY}")


def _end(ttl: int | None) -> Any:
    return None if ttl is None else time.monotonic() + ttl / 1000
