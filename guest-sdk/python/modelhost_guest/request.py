"""One request of an application: its body and its head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _host
from .context import Context
from .errors import InvalidInput
from .messages import Body, Fields

# The host gives a header by its name, and does not list them; these are what `Headers` lists.
USUAL = (
    "accept", "accept-encoding", "accept-language", "authorization", "content-type", "cookie", "host", "if-none-match",
    "last-event-id", "origin", "referer", "user-agent", "x-forwarded-prefix", "x-request-id",
)  # fmt: skip


class Request(Body):
    """One request: its body (`body`, `text`, `json`, `form`) and its head."""

    def __init__(self, body: Any = b"", content_type: str | None = None, context: Context | None = None, params: Mapping[str, str] | None = None) -> None:
        super().__init__(body, content_type)
        self.context = context or Context()
        self.params = Fields(params or {})
        self.headers = Headers(self.context)

    id = property(lambda self: self.context.request_id)
    method = property(lambda self: self.context.method)
    path = property(lambda self: self.context.path)
    query = property(lambda self: self.context.query)

    def is_disconnected(self) -> bool:
        """Whether the client went away before it had all of the response. False where the world does not import `request`."""
        return _host.current is not None and _host.current.is_disconnected()


class Headers(Mapping):
    """A request's headers, each by its name in any case. Listed are those of usual names, in lower case."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def get(self, name: str, default: Any = None) -> Any:
        """The first value, or `default`."""
        value = self._context.header(name)
        return default if value is None else value

    def __getitem__(self, name: str) -> str:
        value = self._context.header(name)
        if value is None:
            raise InvalidInput(f"missing header `{name}`", asked=self)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._context.header(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (name for name in USUAL if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        # Of names that are not usual ones there may be some.
        return True
