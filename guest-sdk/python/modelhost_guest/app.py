"""Applications: routes to functions, whose results become responses, in one piece or as a stream.

A component that exports `respond` serves every method and path below its endpoint's. `App` is that export: of the module
that its functions are defined in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from . import _exports, _host, batch, sockets, typed
from ._coroutines import finished
from ._parameters import ByPath
from .context import Context
from .errors import InvalidInput
from .handler import adapted, ended, taken
from .messages import BYTES, EVENTS, PLAIN, TEXT, Answer, Body, Event, Response, answer_to, refusal, response_of, to_json
from .request import Request

F = TypeVar("F", bound=Callable[..., Any])

# What comes after the last piece of a stream: None is one, an event of `null`.
END = object()


class Route(NamedTuple):
    """One path, and what serves it."""

    methods: tuple[str, ...]
    path: str
    function: object
    # What the function takes of a request; None: the request itself.
    read: object = None
    is_background: bool = False
    # Of a batch: called with a list of requests.
    together: object = None
    summary: str = ""
    input: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    produces: str = ""


class App:
    """An application.

    Functions take what Potassium's do, the context (what `init` returned) and the request, or only the request. Annotated with a
    dataclass, or a class of annotations, a function gets one of that in place of the request. They return
    a `Response`, a text, bytes, what is written as JSON, or a generator, whose pieces are a stream: text, bytes, or events.
    """

    def __init__(self, name: str = "app") -> None:
        self.name = name
        self.context: dict[Any, Any] = {}
        self._init: Callable[..., Any] | None = None
        self._routes: list[Any] = []
        self._talks: list[Any] = []

    def init(self, function: F) -> F:
        """Runs once, when the handler is loaded; it may take the endpoint's `metadata`. What it returns is the context."""
        self._init = adapted(function)
        self._export(function, "Init", lambda: _Init(self))
        return function

    def handler(self, route: str = "/", methods: Iterable[str] = ("POST",)) -> Callable[[F], F]:
        """Serves a path. `/items/{id}` has a parameter, which is one segment; `/files/{*path}` has one that is all the rest.

        A function that takes `id` gets it, as its annotation wants it; `request.params` has all.
        """
        return self._serves(route, methods, background=False)

    def get(self, route: str) -> Callable[[F], F]:
        """Serves `GET` and `HEAD`."""
        return self._serves(route, ("GET",), background=False)

    def post(self, route: str) -> Callable[[F], F]:
        """Serves `POST`."""
        return self._serves(route, ("POST",), background=False)

    def background(self, route: str = "/", methods: Iterable[str] = ("POST",)) -> Callable[[F], F]:
        """Answers `{"started": true}` at once, and runs the function then: at most `limits.background_timeout`."""
        return self._serves(route, methods, background=True)

    def websocket(self, route: str = "/") -> Callable[[F], F]:
        """Serves WebSockets at a path: the function takes the socket (`sockets.Socket`) and, if it likes, the request."""
        route = route if route.startswith("/") else f"/{route}"

        def decorator(function: F) -> F:
            by_path = ByPath.of(function, route)
            talk = adapted(function) if by_path is None else lambda socket, it: by_path.talk(socket, it, by_path.read(it.params))
            self._talks.append((route, talk))
            sockets.exported(function, self._talk)
            return function

        return decorator

    def batch(self, route: str = "/") -> Callable[[F], F]:
        """Serves `POST`s together: the function gets a list of requests, as many as have come when the host calls, and returns a list
        with a result for each; one may be an `InvalidInput`. Annotated `list[Prompt]`, it gets a list of that class's objects.

        The endpoint says how many requests may be in a batch (`batching.max_requests`); without, each is one of its own. The path
        has no parameters.
        """

        def decorator(function: F) -> F:
            call, only_requests = adapted(function), taken(function) == 1
            item = batch.item(typed.argument(function))

            def together(context: Context, requests: Iterable[Any]) -> Any:
                return batch.together(lambda given: call(given) if only_requests else call(context, given), list(requests), item)

            def alone(context: Context, request: Request) -> Any:
                return batch.only(together(context, [request]))

            self._add(function, route, ("POST",), alone, item, together=together)
            self._export(function, "RespondAll", lambda: _RespondAll(self))
            return function

        return decorator

    def answer_all(self, requests: Iterable[Any], path: str = "/", metadata: Any = None) -> list[Response]:
        """What the requests of one batch get, without a host: for tests. A request is a body, as `Sample` takes it."""
        samples = [it if isinstance(it, Body) else Body(it) for it in requests]
        made = [(it, Context(it, method="POST", path=path, metadata=metadata)) for it in samples]
        try:
            return [batch.told(it, made[0][1]) for it in self.respond_all(made)]
        finally:
            ended()

    def answer(self, method: str = "POST", path: str = "/", body: Any = b"", *, json: Any = None, content_type: str | None = None, headers: Mapping[str, str] | None = None, query: str = "", metadata: Any = None) -> Response:
        """What a request gets, whole, without a host: for tests. Background work is done when it returns."""
        if json is not None:
            body = to_json(json)
            content_type = content_type or "application/json"
        sample = Body(body, content_type)
        context = Context(sample, method=method, path=path, query=query, headers=headers, metadata=metadata)
        output = Collected()
        try:
            response = self.respond(sample, context, output)
        except (InvalidInput, Answer) as error:
            response = answer_to(error, context)
        finally:
            ended()
        return output.response if response is None else response

    def start(self, metadata: Any = None) -> None:
        """Runs what `init` decorates, as the host does when it loads the handler; a test calls it first."""
        if self._init is None:
            return
        try:
            made = self._init(metadata)
        finally:
            ended(is_init=True)
        if made is not None and not isinstance(made, dict):
            raise TypeError(f"init returned {type(made).__name__}; the context is a dict")
        self.context = made or {}

    def respond(self, sample: Body, context: Context, output: Output | Collected) -> Response | None:
        """Serves one request: a response, or None if it was sent by `output`."""
        method, path, allowed = context.method, context.path, []
        for route in self._routes:
            params = parameters(route.path, path)
            if params is None:
                continue
            if method not in route.methods and not (method == "HEAD" and "GET" in route.methods):
                allowed += route.methods
                continue
            request = Request(sample.body, sample.content_type, context, params)
            given = request if route.read is None else route.read(request)
            if route.is_background:
                output.send(Response({"started": True}))
                route.function(self.context, given)
                return None
            response = response_of(route.function(self.context, given))
            if response.stream is None:
                return response
            _streamed(response, output)
            return None
        if not allowed:
            return _nothing_there(context)
        allowed += ["HEAD"] if "GET" in allowed else []
        headers = {"allow": ", ".join(dict.fromkeys(allowed))}
        return refusal(context, 405, "method_not_allowed", "the path is there for other methods", headers)

    def _talk(self, socket: sockets.Socket, context: Context) -> Any:
        """Serves one socket: the handshake of a path that has no function is answered as any request is."""
        for route, talk in self._talks:
            params = parameters(route, context.path)
            if params is not None:
                return talk(socket, Request(context=context, params=params))
        raise Answer(_nothing_there(context))

    def respond_all(self, members: list[tuple[Body, Context]]) -> list[Any]:
        """Serves the requests of a batch, samples with their contexts: a list with a response or an error for each."""
        path = members[0][1].path
        together = next(it.together for it in self._routes if it.together is not None and it.path == path)
        return together(self.context, [Request(sample.body, sample.content_type, context) for sample, context in members])

    def batched_paths(self) -> list[str]:
        """The paths whose requests are served together."""
        return [route.path for route in self._routes if route.together is not None]

    def says(self, **described: Any) -> None:
        """Says of the last route what its function does not: `summary`, JSON Schema of `input` and `output`, what it `produces`."""
        self._routes[-1] = self._routes[-1]._replace(**described)

    def operations(self) -> list[tuple[Any, ...]]:
        """Of every route: method, path, what its function says of itself, media types and schemas of body and response."""
        return [
            (method, it.path, it.summary, "" if method == "GET" else "application/json", *_schemas(it))
            for it in self._routes
            for method in it.methods
        ]

    def _serves(self, route: str, methods: Iterable[str], background: bool) -> Callable[[F], F]:
        def decorator(function: F) -> F:
            by_path = ByPath.of(function, route)
            if by_path is not None:
                wanted = by_path.body(function)
                body = lambda request: request if wanted is None else typed.parse(wanted, request.json)  # noqa: E731
                read = lambda request: (by_path.read(request.params), body(request))  # noqa: E731
                take = lambda context, given: by_path(context, given[1], given[0])  # noqa: E731
                self._add(function, route, methods, take, wanted, read=read, is_background=background)
                return function
            call, wanted = adapted(function), typed.argument(function)
            take = (lambda context, given: call(given)) if taken(function) == 1 else call
            reads = None if wanted is None else lambda request: typed.parse(wanted, request.json)
            self._add(function, route, methods, take, wanted, read=reads, is_background=background)
            return function

        self._free(route, methods)
        return decorator

    def _add(self, function: Callable[..., Any], route: str, methods: Iterable[str], take: Callable[..., Any], wanted: Any, **how: Any) -> None:
        """Adds a route, with what the function says of itself, and exports what serves it."""
        path, methods = self._free(route, methods)
        summary = (function.__doc__ or "").strip().split("\n")[0]
        output, is_stream = typed.described(function)
        said = None if wanted is None else typed.schema(wanted)
        produces = EVENTS if is_stream else "application/json" if output else ""
        self._routes.append(Route(methods, path, take, summary=summary, input=said, output=output, produces=produces, **how))
        self._export(function, "Respond", lambda: _Respond(self))
        self._export(function, "Operations", lambda: _Operations(self))

    def _free(self, route: str, methods: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """The path and the methods as they are kept, if no route has them yet."""
        path, methods = route if route.startswith("/") else f"/{route}", tuple(method.upper() for method in methods)
        if any(it.path == path and set(it.methods) & set(methods) for it in self._routes):
            raise ValueError(f"route `{path}` is there already")
        return path, methods

    def _export(self, function: Callable[..., Any], name: str, exported: Callable[[], Any]) -> None:
        _exports.put(function.__module__, name, exported)


class _Init:
    """The export `init`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def init(self, metadata: str) -> None:
        try:
            self._app.start(json.loads(metadata))
        except Exception as error:
            raise _host.Err(_host.init_said(error)) from None


class _Respond:
    """The export `respond`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def respond(self, sample: Any, context: Any, output: Any) -> Any:
        own = Context._of(context)
        try:
            response = self._app.respond(sample, own, Output(output))
            return None if response is None else _host.response_out(response)
        except Exception as error:
            raise _host.error_out(error, own) from None
        finally:
            ended(own)


class _RespondAll:
    """The export `respond-all`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def paths(self) -> Any:
        return self._app.batched_paths()

    def respond_all(self, members: Any) -> Any:
        contexts = [Context._of(it.context) for it in members]
        try:
            given = [(it.sample, context) for it, context in zip(members, contexts)]
            results = self._app.respond_all(given)
            # As many as there are: another number is the host's to tell.
            return [_host.result_out(it, context) for it, context in zip_longest(results, contexts[: len(results)])]
        except Exception as error:
            raise _host.error_out(error) from None
        finally:
            ended(*contexts)


class _Operations:
    """The export `operations`: the routes, for `/openapi.json`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def operations(self) -> Any:
        return [_host.Operation(*described) for described in self._app.operations()]


class Output:
    """The host's way to send a response."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def begin(self, status: int, content_type: str, headers: list[tuple[str, str]]) -> None:
        self._host.begin(status, content_type, headers)

    def write(self, piece: Any) -> bool:
        """False: the client is gone."""
        return self._host.write(piece)

    def finish(self) -> None:
        type(self._host).finish(self._host)

    def send(self, response: Response) -> None:
        type(self._host).send(self._host, _host.response_out(response))


class Collected:
    """The same in a test; keeps what was sent."""

    response: Any = None

    def begin(self, status: int, content_type: str, headers: Any) -> None:
        self.response = Response(b"", status, content_type, headers)

    def write(self, piece: Any) -> bool:
        self.response.body += piece
        return True

    def finish(self) -> None:
        pass

    def send(self, response: Response) -> None:
        self.response = response


def parameters(pattern: str, path: str) -> dict[str, str] | None:
    """The parameters of a path, decoded, if it fits the pattern; else None."""
    own, asked = pattern[1:].split("/"), path.removeprefix("/").split("/")
    try:
        return _fitted(own, asked)
    except UnicodeDecodeError:
        # No characters: there is nothing of this name.
        return None


def _fitted(own: list[str], asked: list[str]) -> dict[str, str] | None:
    found = {}
    for at, segment in enumerate(own):
        if at >= len(asked):
            return None
        if segment.startswith("{*") and segment.endswith("}"):
            found[segment[2:-1]] = unquote("/".join(asked[at:]), errors="strict")
            return found
        if segment.startswith("{") and segment.endswith("}"):
            if not asked[at]:
                return None
            found[segment[1:-1]] = unquote(asked[at], errors="strict")
        elif segment != asked[at]:
            return None
    return found if len(own) == len(asked) else None


def _nothing_there(context: Context) -> Response:
    return refusal(context, 404, "not_found", "there is nothing at this path")


def _streamed(response: Response, output: Output | Collected) -> None:
    """Sends the pieces of a stream while they come. The first one says what it is, unless the response does."""
    pieces = iter(finished(response.stream))
    piece = next(pieces, END)
    content_type = response.content_type or _content_type(piece)
    output.begin(response.status, content_type, response.fields())
    while piece is not END and output.write(_bytes(piece)):
        piece = next(pieces, END)
    # The client may be gone: what the generator holds is let go.
    getattr(pieces, "close", lambda: None)()
    output.finish()


def _schemas(route: Route) -> tuple[str | None, str, str | None]:
    """What is said of a route's body and response."""
    text = lambda said: None if said is None else json.dumps(said)  # noqa: E731
    return text(route.input), route.produces, text(route.output)


def _content_type(piece: Any) -> str:
    if isinstance(piece, str):
        return TEXT
    return BYTES if piece is END or isinstance(piece, PLAIN) else EVENTS


def _bytes(piece: Any) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    return bytes(piece if isinstance(piece, (*PLAIN, Event)) else Event(piece))
