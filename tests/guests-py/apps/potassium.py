"""Potassium's decorators on this host: what its authors know, in the fewest lines that show it.

`@app.init` runs when the component is loaded or an instance starts; what it returns is the context of every request of the
instance. `@app.handler` answers; bytes, or a generator of bytes, which is sent as it yields. `@app.background` is answered
with `{"started": true}` and runs afterwards.
"""

import json as _json
import traceback
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any

from host import Err, Error_Internal, Error_InvalidInput, Held, Operation, Response as Sent, post


class RouteAlreadyInUse(Exception):
    """Two handlers want one route."""


class Headers:
    """Of a request; names in any case, `-` and `_` alike."""

    def __init__(self, context):
        self._context = context

    def get(self, name, default=None):
        value = self._context.header(name)
        return default if value is None else value

    def __getitem__(self, name):
        value = self._context.header(name)
        if value is None:
            raise KeyError(name)
        return value


@dataclass
class Request:
    id: str
    headers: Headers
    json: Any


@dataclass
class Response:
    status: int = 200
    json: Any = None
    body: Any = None
    headers: dict = field(default_factory=dict)


def send_webhook(url, json):
    """Posts JSON. What does not arrive is a line of the log, and the handler goes on."""
    try:
        return post(url, _json.dumps(json).encode())
    except OSError as error:
        print(f"webhook to {url} failed: {error}")
        return None


class Potassium:
    def __init__(self, name):
        self.name = name
        self._init = lambda: {}
        self._routes = {}
        self.context = None

    def init(self, function):
        self._init = function
        return function

    def handler(self, route="/"):
        return self._register(route, is_background=False)

    def background(self, route="/"):
        return self._register(route, is_background=True)

    def _register(self, route, is_background):
        route = route if route.startswith("/") else f"/{route}"
        if route in self._routes:
            raise RouteAlreadyInUse(route)

        def register(function):
            self._routes[route] = (function, is_background)
            return function

        return register

    # From here on, what the host calls.

    def prepare(self, metadata):
        context = self._init()
        if not isinstance(context, dict):
            raise TypeError("Potassium init() must return a dictionary")
        self.context = context

    def operations(self):
        return [Operation("POST", route, "", "application/json", None, "", None) for route in self._routes]

    def respond(self, sample, context, output):
        held = Held(output)
        try:
            return self._respond(sample, context, held)
        except Err:
            raise
        except Exception as error:
            traceback.print_exc()
            raise Err(Error_Internal(f"{type(error).__name__}: {error}")) from None
        finally:
            held.drop()

    def _respond(self, sample, context, held):
        if context.path() not in self._routes:
            return answer(404, {"error": "there is nothing at this path", "code": "not_found"})
        if context.method() != "POST":
            body = {"error": "the path answers `POST`", "code": "method_not_allowed"}
            return answer(405, body, [("allow", "OPTIONS, POST")])
        try:
            body = _json.loads(sample.body)
        except ValueError as error:
            raise Err(Error_InvalidInput(f"malformed json: {error}")) from None
        request = Request(context.request_id(), Headers(context), body)
        function, is_background = self._routes[context.path()]
        if is_background:
            held.send(answer(200, {"started": True}))
            function(self.context, request)
            return None
        response = function(self.context, request)
        if not isinstance(response, Response):
            raise TypeError("Potassium Response object not returned")
        return deliver(response, held)


def answer(status, body, headers=()):
    return Sent(status, "application/json", list(headers), _json.dumps(body).encode())


def deliver(response, held):
    """The response at once, or none if it has been sent in pieces."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    content_type = headers.pop("content-type", None)
    if isinstance(response.body, GeneratorType):
        held.begin(response.status, content_type or "application/octet-stream", list(headers.items()))
        for piece in response.body:
            if not held.write(piece):
                response.body.close()
                break
        held.finish()
        return None
    if response.body is None:
        body, content_type = _json.dumps(response.json).encode(), content_type or "application/json"
    else:
        body, content_type = response.body, content_type or "application/octet-stream"
    return Sent(response.status, content_type, list(headers.items()), body)
