"""Potassium's names: `from modelhost_guest.potassium import Potassium, Request, Response`.

A program that was written for it stays as it is: `@app.init`, `@app.handler`, `@app.background`, generators as streams.
"""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import _host, outbound
from ._coroutines import finisher
from .app import App
from .handler import adapted
from .messages import BYTES, JSON, Body, gathered, lines
from .messages import Response as Answered
from .store import RedisConfig, S3Config, Store

if TYPE_CHECKING:
    from .context import Context

__all__ = ["Potassium", "RedisConfig", "Request", "Response", "RouteAlreadyInUseException", "S3Config", "Store", "send_webhook"]

RouteAlreadyInUseException = ValueError
MISSING = (
    'it takes `with = ["outbound"]` under [build] in modelhost.toml, `allow_outbound` of the endpoint, and in wit/world.wit '
    "`include modelhost:outbound/imports@0.1.0;`"
)


class Request:
    """What a handler gets; `headers` find a name in any case."""

    def __init__(self, id: str = "test", headers: Mapping[str, str] | None = None, json: Any = None) -> None:
        self.id, self.headers, self.json = id, headers if headers is not None else {}, json


class Response:
    """What a handler returns: `json`, or a `body`, which is bytes or a generator."""

    def __init__(self, status: int = 200, json: Any = None, headers: Any = None, body: Any = None) -> None:
        if json is not None and body is not None:
            raise AssertionError("Potassium Response object cannot have both json and body set")
        self.status, self.json, self.body, self.headers = status, json, body, gathered(headers or {})

    def made(self) -> Any:
        """As the SDK has it."""
        headers = gathered((name.lower(), value) for name, value in lines(self.headers))
        content_type = headers.pop("content-type", None)
        body: dict[str, Any]
        if self.body is None:
            body = {"body": _json.dumps(self.json).encode() if self.json is not None else b""}
            content_type = content_type or JSON
        elif isinstance(self.body, (bytes, bytearray, memoryview, str)):
            body, content_type = {"body": self.body}, content_type or BYTES
        else:
            body, content_type = {"stream": self.body}, content_type or BYTES
        return Answered(status=self.status, content_type=content_type, headers=headers, **body)


class Potassium(App):
    """An application. How many requests it serves at a time is the endpoint's `limits.concurrency`."""

    def __init__(self, name: str = "app", experimental_num_workers: Any = 1) -> None:
        super().__init__(name)
        self._json = None

    def init(self, function: Callable[..., Any]) -> Any:
        """Runs once, when the handler is loaded; it returns the context, a dict."""

        def init(metadata: Any) -> Any:
            made = adapted(function)(0)
            if not isinstance(made, dict):
                raise TypeError("Potassium init() must return a dictionary")
            return made

        init.__module__ = function.__module__
        super().init(init)
        return function

    def handler(self, route: str = "/") -> Any:  # type: ignore[override]  # pyright: ignore
        """Serves `POST` on a route."""
        return self._register(route, super().handler, is_background=False)

    def background(self, route: str = "/") -> Any:  # type: ignore[override]  # pyright: ignore
        """Answers `{"started": true}` at once, and runs the function then."""
        return self._register(route, super().background, is_background=True)

    def serve(self, host: Any = "0.0.0.0", port: int = 8000) -> None:
        """Nothing: the host serves."""

    def respond(self, sample: Body, context: Context, output: Any) -> Any:
        # Before a background's answer: what is no JSON is refused.
        self._json = Body(sample.body, sample.content_type).json if context.method == "POST" else None
        return super().respond(sample, context, output)

    def _register(self, route: str, add: Any, is_background: bool) -> Any:
        def decorator(function: Callable[..., Any]) -> Any:
            finished = finisher(function)

            def call(context: Context, request: Request) -> Any:
                returned = finished(function(context, Request(request.id, request.headers, self._json)))
                if is_background:
                    return None
                if not isinstance(returned, Response):
                    raise TypeError("Potassium Response object not returned")
                return returned.made()

            call.__module__, call.__doc__ = function.__module__, function.__doc__
            add(route)(call)
            return function

        return decorator


def send_webhook(url: str, json: Any) -> None:
    """Sends JSON by `POST`. If that fails, for any reason, it is a line of the log, and the handler goes on."""
    if _host.types is not None and _host.requests is None:
        _say(f"Webhook to {url} was not sent: {MISSING}")
        return
    try:
        outbound.post(url, json=json).close()
    except Exception as error:
        _say(f"Webhook to {url} failed with connection error: {error}")


def _say(line: str) -> None:
    """Prints it, also if half a surrogate pair is in it, which no log takes."""
    print(line.encode(errors="backslashreplace").decode())
