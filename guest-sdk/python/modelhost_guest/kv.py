"""Values that outlive a request: in the buckets that the endpoint grants, `kv = ["default"]`.

In a test the values are in memory, in any bucket, and `forget()` begins anew.
"""

from __future__ import annotations

import json
import math
from typing import Any

from . import _host, _values
from .errors import KvError, checked
from .messages import to_json

TEXTS = {
    "no-such-bucket": "the endpoint grants no bucket `{}`",
    "unavailable": "the store cannot be used: {}",
}
# Most keys of one page of a listing.
PAGE = 1000

_opened: dict[Any, Any] = {}


def open(name: str = "default") -> Bucket:
    """A bucket: `default`, or `shared/sessions` for one that several endpoints are granted.

    The host is asked at its first use in each request, so that a bucket may be a variable of the module.
    """
    return Bucket(name)


class Bucket:
    """Keys and their values, which are bytes. A `ttl` is in seconds; without one a value stays until it is deleted.

    Every function may raise `KvError`.
    """

    def __init__(self, name: str) -> None:
        self.name = checked(name, "a bucket's name")

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        value = self._asked("get", key)
        return None if value is None else bytes(value)

    def get_json(self, key: str) -> Any:
        """A value that was set as JSON, or None."""
        value = self.get(key)
        try:
            return None if value is None else json.loads(value)
        except ValueError as error:
            raise KvError("invalid", f"the value of `{key}`: {error}") from None

    def set(self, key: str, value: str | bytes, ttl: float | None = None) -> None:
        """Sets a value: bytes, or a text."""
        self._asked("set", key, _bytes(value), _milliseconds(ttl))

    def set_json(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Sets a value as JSON."""
        self._asked("set", key, to_json(value), _milliseconds(ttl))

    def add(self, key: str, value: str | bytes, ttl: float | None = None) -> bool:
        """Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is being done."""
        return self._asked("add", key, _bytes(value), _milliseconds(ttl))

    def increment(self, key: str, by: int = 1, ttl: float | None = None) -> int:
        """Adds to a number and gives the sum. A key that is not there counts as 0, and `ttl` is for it alone."""
        if not -(2**63) <= checked(by, "what is added", int) < 2**63:
            raise KvError("invalid", "a number beyond 64 bits")
        return self._asked("increment", key, by, _milliseconds(ttl))

    def swap(self, key: str, current: str | bytes | None, value: str | bytes) -> bool:
        """Sets a value if the present one is `current`, None for no value, and says whether it did. Its end stays."""
        return self._asked("swap", key, None if current is None else _bytes(current), _bytes(value))

    def delete(self, key: str) -> None:
        """Removes a key, whether it is there or not."""
        self._asked("delete", key)

    def keys(self, prefix: str = "") -> list[str]:
        """All keys that begin with `prefix`, in the order of their bytes."""
        found, cursor = self.page(prefix)
        while cursor is not None:
            page, cursor = self.page(prefix, cursor)
            found += page
        return found

    def page(self, prefix: str = "", cursor: str | None = None, limit: int = PAGE) -> tuple[list[str], str | None]:
        """At most so many keys behind the cursor, and the next one, or None if there are no more."""
        keys, cursor = self._asked("keys", prefix, cursor, limit)
        return list(keys), cursor

    def _asked(self, operation: str, key: str, *arguments: Any) -> Any:
        arguments = (checked(key, "a key"), *arguments)
        if _host.types is None:
            return getattr(_values.bucket(self.name), operation)(*arguments)
        if _host.kv is None:
            raise RuntimeError(
                "the handler imports no kv: add `include modelhost:handler/kv-imports@0.1.0;` to the world in wit/world.wit"
            )
        try:
            if self.name not in _opened:
                _opened[self.name] = _host.kv.open(self.name)
            return getattr(_opened[self.name], operation)(*arguments)
        except _host.Err as error:
            kind = _host.kind(error.value)
            raise KvError(kind, TEXTS.get(kind, "{}").format(error.value.value)) from None


def forget() -> None:
    """For tests: forgets all values."""
    _values.forget()


def closed() -> None:
    """Closes what the call of an export opened; memory that `init` leaves is copied only if no handle is in it."""
    while _opened:
        _opened.popitem()[1].__exit__(None, None, None)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a value is bytes or a text, and not {type(value).__name__}; `set_json` keeps others")


def _milliseconds(ttl: float | None) -> int | None:
    if ttl is None:
        return None
    milliseconds = ttl * 1000
    if not 0 < milliseconds < 2**63:
        raise KvError("invalid", f"a time to live of {ttl} seconds")
    return math.ceil(milliseconds)
