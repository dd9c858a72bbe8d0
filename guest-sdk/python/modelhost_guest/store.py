"""Potassium's store: `from modelhost_guest.store import RedisConfig, S3Config, Store`.

The values are in the endpoint's buckets; of the backend `s3`, which is for large ones, they are objects in the endpoint's
containers. No other server is asked by the handler: a program that has an address or keys stays as it is, and they are not
used.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

from . import blobs, kv
from .errors import BlobError, KvError
from .messages import to_json

ENCODINGS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {"json": (to_json, json.loads), "pickle": (pickle.dumps, pickle.loads)}


@dataclasses.dataclass
class RedisConfig:
    """`db` is a bucket, 0 `default` and 1 `db1`; `encoding` is `json` or `pickle`. The rest is not used."""

    host: str = ""
    port: int = 6379
    username: str | None = None
    password: str | None = None
    db: int = 0
    encoding: str = "json"


@dataclasses.dataclass
class S3Config:
    """`encoding` is `json` or `pickle`. The rest is not used: where objects are is the host's to say."""

    keys: object = None
    bucket: str = ""
    encoding: str = "json"


class Store:
    """Values by key. `bucket` names another bucket than that of the configuration, such as `shared/sessions`; of the
    backend `s3` it names a container."""

    def __init__(self, backend: str = "redis", config: RedisConfig | S3Config | None = None, *, bucket: str | None = None) -> None:
        if backend not in ("redis", "s3"):
            raise ValueError(
                f"there is no store `{backend}`; `redis` keeps values in the endpoint's buckets, `s3` in its containers"
            )
        self._is_large = backend == "s3"
        config = config or (S3Config() if self._is_large else RedisConfig())
        if config.encoding not in ENCODINGS:
            raise ValueError(f"there is no encoding `{config.encoding}`; expected json or pickle")
        self._encode, self._decode = ENCODINGS[config.encoding]
        self._place: Any
        if self._is_large:
            self._place = blobs.open(bucket or "default")
        else:
            self._place = kv.open(bucket or (f"db{number}" if (number := getattr(config, "db", 0)) else "default"))

    def get(self, key: str) -> Any:
        """The value, or None."""
        value = self._place.get(key)
        try:
            return None if value is None else self._decode(value)
        except (ValueError, EOFError, pickle.UnpicklingError) as error:
            if self._is_large:
                raise BlobError(f"the object `{key}`: {error}") from None
            raise KvError("invalid", f"the value of `{key}`: {error}") from None

    def set(self, key: str, value: Any, ttl: float = 600) -> None:
        """Sets a value that lives for so many seconds; with None it stays. In `s3` every value stays."""
        if self._is_large:
            self._place.set(key, self._encode(value))
        else:
            self._place.set(key, self._encode(value), ttl)
