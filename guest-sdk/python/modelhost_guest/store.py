"""Potassium's store: `from modelhost_guest.store import RedisConfig, Store`.

The values are in the endpoint's buckets, so no other server is asked: a program that has Redis' address stays as it is, and
the address is not used.
"""

import dataclasses
import json
import pickle

from . import kv
from .errors import KvError
from .messages import to_json

ENCODINGS = {"json": (to_json, json.loads), "pickle": (pickle.dumps, pickle.loads)}


@dataclasses.dataclass
class RedisConfig:
    """`db` is a bucket, 0 `default` and 1 `db1`; `encoding` is `json` or `pickle`. The rest is not used."""

    host: str = ""
    port: int = 6379
    username: str = None
    password: str = None
    db: int = 0
    encoding: str = "json"


class Store:
    """Values by key. `bucket` names another bucket than that of the configuration, such as `shared/sessions`."""

    def __init__(self, backend="redis", config=None, *, bucket=None):
        if backend != "redis":
            raise ValueError(f"there is no store `{backend}`; `redis` keeps values in the endpoint's buckets")
        config = config or RedisConfig()
        if config.encoding not in ENCODINGS:
            raise ValueError(f"there is no encoding `{config.encoding}`; expected json or pickle")
        self._encode, self._decode = ENCODINGS[config.encoding]
        self._bucket = kv.open(bucket or ("default" if config.db == 0 else f"db{config.db}"))

    def get(self, key):
        """The value, or None."""
        value = self._bucket.get(key)
        try:
            return None if value is None else self._decode(value)
        except (ValueError, EOFError, pickle.UnpicklingError) as error:
            raise KvError("invalid", f"the value of `{key}`: {error}") from None

    def set(self, key, value, ttl=600):
        """Sets a value that lives for so many seconds; with None it stays."""
        self._bucket.set(key, self._encode(value), ttl)
