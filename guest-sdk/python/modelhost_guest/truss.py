"""Truss's `class Model` as an application: `load`, `preprocess`, `predict`, `postprocess`, and the methods of OpenAI's paths."""

from __future__ import annotations

import functools
import inspect
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _msgpack, typed
from ._coroutines import finished, finisher
from ._tensor import Tensor
from .app import END, App
from .errors import InvalidInput
from .messages import BYTES, EVENTS, PLAIN, Event, Response, as_plain, decoded, dumped, gathered, response_of
from .web import HTTPException, WebSocket, WebSocketDisconnect, WebSocketException
from .web import Request as WebRequest
from .web import Response as WebResponse

if TYPE_CHECKING:
    from .messages import Body
    from .request import Request
    from .sockets import Socket

PROJECT = "/mnt/project"
STATUS = "/v1/models/model"
# The methods of any other path, each with what the one before returned.
STEPS = ("preprocess", "predict", "postprocess")
# The input of the first of them before one asks for it: a body that no method takes is not read, and may be no JSON.
UNREAD = object()
# Paths whose method gets the request as it is, without `preprocess` and `postprocess`.
METHODS = {
    "/v1/chat/completions": "chat_completions",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
}


class SecretNotFound(Exception):
    """A secret that the endpoint's `env` does not grant."""


class Secrets(dict[str, str]):
    """The granted variables `TRUSS_SECRET_NAME`, or `NAME`."""

    def __missing__(self, name: str) -> Any:
        for variable in (f"TRUSS_SECRET_{name}", name):
            if variable in os.environ:
                return os.environ[variable]
        raise SecretNotFound(
            f"Secret '{name}' not found. Please ensure that: `env = [\"TRUSS_SECRET_{name}\"]` is at the endpoint in modelhost.toml"
        )

    def __contains__(self, name: object) -> bool:
        return f"TRUSS_SECRET_{name}" in os.environ or name in os.environ

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


class Data:
    """What stands for a download that Truss makes: files of the project are there before the model is loaded."""

    def block_until_download_complete(self) -> None:
        pass


class Marked(App):
    """An application whose own refusals, such as of another method, are marked as Truss's clients read errors."""

    def respond(self, sample: Body, context: Any, output: Any) -> Any:
        response = super().respond(sample, context, output)
        return response if response is None or response.status < 300 else _marked(response, "700")


def truss(model: Any = None, module: str | None = None) -> Any:
    """Serves the class by `POST` on every path of the endpoint; what `predict` returns is written as JSON.

    `__init__` gets those of `config` (the endpoint's metadata), `data_dir` (the project's folder), `secrets`,
    `environment` (the granted variables) and `lazy_data_resolver` that it names. A method takes the input, the request, or both
    (`request` by its name, or by the annotation `Request`); the input as an object of the class that it is annotated with, one of
    pydantic's or a dataclass, which is what the schema says. A body of `application/octet-stream` is MessagePack, and so is its answer. A generator is a stream, and `async def` works. `websocket` serves
    WebSockets, if the world exports them. The exports go to `module`, by default that of the class.
    """
    if model is None or isinstance(model, str):
        return lambda named: truss(named, module or model)
    app = Marked(model.__name__)
    finisher(model)

    def init(metadata: Any) -> Any:
        given = {
            "config": metadata or {},
            "data_dir": pathlib.Path(PROJECT),
            "secrets": Secrets(),
            "environment": os.environ,
            "lazy_data_resolver": Data(),
        }
        made = model(**{name: value for name, value in given.items() if _takes(model.__init__, name)})
        if hasattr(made, "load"):
            finished(made.load())
        return {"model": made}

    def handler(context: Any, request: Request) -> Any:
        made = context["model"]
        try:
            if request.path in METHODS:
                return _sent(_of_path(made, request), request)
            return _sent(_predicted(made, request), request)
        except HTTPException as error:
            return _failed(error.status_code, error.detail, "600", error.headers)
        except InvalidInput as error:
            return _failed(error.status, str(error), "700")

    def status(context: Any, request: Request) -> Any:
        healthy = getattr(context["model"], "is_healthy", lambda: True)
        if finished(healthy()):
            return {}
        return Response({"error": "Model with name model is not ready."}, status=503)

    def websocket(socket: Socket, request: Request) -> None:
        socket.accept()
        try:
            finished(app.context["model"].websocket(WebSocket(socket, request)))
        except WebSocketDisconnect:
            # The client is gone, as any client may be.
            pass
        except WebSocketException as error:
            socket.close(error.code, error.reason)

    init.__module__ = handler.__module__ = status.__module__ = websocket.__module__ = module or model.__module__
    app.init(init)
    app.get(STATUS)(status)
    app.handler("/{*path}")(handler)
    app.says(**_described(model))
    if hasattr(model, "websocket"):
        app.websocket("/{*path}")(websocket)
    model.app = app
    return model


def _failed(status: int, text: str, code: str, headers: Any = ()) -> Any:
    return _marked(Response({"error": text}, status=status, headers=headers), code)


def _marked(response: Response, code: str) -> Any:
    """With the headers of an error, unless the response has its own."""
    response.headers = {"x-baseten-error-source": "04", "x-baseten-error-code": code, **gathered(response.headers)}
    return response


def _described(model: Any) -> Any:
    """Schemas of what the first method takes and the last one returns."""
    methods = [getattr(model, name) for name in STEPS if hasattr(model, name)]
    # Found out while the component is built, for all requests.
    for method in (*methods, *(getattr(model, name) for name in METHODS.values() if hasattr(model, name))):
        _asks(method, True)
    if not methods:
        return {}
    output, is_stream = typed.described(methods[-1])
    wanted = _asks(methods[0], True).wanted
    return {"input": None if wanted is None else typed.schema(wanted), "output": output, "produces": EVENTS if is_stream else ""}


def _of_path(made: Any, request: Request) -> Any:
    name = METHODS[request.path]
    method = getattr(made, name, None)
    if method is None:
        raise HTTPException(404, f"`{name}` must only be called if model has it.", {"x-baseten-error-code": "700"})
    return finished(_called(method, UNREAD, request))


def _predicted(made: Any, request: Request) -> Any:
    value = UNREAD
    for step in STEPS:
        method = getattr(made, step, None)
        if method is None:
            continue
        if _is_whole(value):
            raise TypeError(f"`predict` answered with a stream or a response, and there is a `{step}` after it")
        value = finished(_called(method, value, request))
    return _read(request) if value is UNREAD else value


def _called(method: Any, value: Any, request: Request) -> Any:
    """Calls a method of the model with what its signature takes: the input, the request, or both."""
    function = getattr(method, "__func__", method)
    asks = _asks(function, function is not method)
    if asks.input is not None:
        value = _read(request) if value is UNREAD else value
        if asks.wanted is not None:
            value = typed.parse(asks.wanted, _lists(value) if _is_binary(request) else value)
    if asks.request is None:
        return method() if asks.input is None else method(value)
    given = {asks.request: WebRequest(request) if asks.is_web else request}
    return method(**given) if asks.input is None else method(**given, **{asks.input: value})


class Asks(NamedTuple):
    """What a method of the model takes: the parameters that get the request, FastAPI's or the SDK's, and the input, with its class."""

    request: str | None
    is_web: bool
    input: str | None
    wanted: type | None


@functools.cache
def _asks(function: Callable[..., Any], is_method: bool) -> Any:
    hints = typed.hints(function)
    parameters = typed.parameters(function)[is_method:]
    request = next((it.name for it in parameters if it.name == "request" or hints.get(it.name) is WebRequest), None)
    if request is None:
        rest = [it.name for it in parameters if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD, it.VAR_POSITIONAL)]
    else:
        own = [it for it in parameters if it.kind is it.POSITIONAL_OR_KEYWORD and it.default is it.empty]
        rest = [it.name for it in own if it.name != request]
    taken = rest[0] if rest else None
    wanted = hints.get(taken or "")
    return Asks(request, hints.get(request or "") is WebRequest, taken, wanted if typed.has_class(wanted) else None)


def _is_binary(request: Request) -> Any:
    """Whether body and answer are MessagePack."""
    return request.content_type.split(";")[0].strip().lower() == BYTES


def _read(request: Request) -> Any:
    """The input: JSON of any content type but that of MessagePack."""
    kind = "MessagePack" if _is_binary(request) else "JSON"
    try:
        return _msgpack.unpacked(request.body) if kind != "JSON" else decoded(request.body)
    except ValueError as error:
        raise InvalidInput(f"Invalid {kind} payload: {error}") from None


def _lists(value: Any) -> Any:
    """A value of MessagePack without arrays: what is annotated has lists."""
    if isinstance(value, dict):
        return {key: _lists(it) for key, it in value.items()}
    return [_lists(it) for it in value] if isinstance(value, list) else value.tolist() if isinstance(value, Tensor) else value


def _sent(value: Any, request: Request) -> Any:
    """What a method returned as a response."""
    if isinstance(value, (WebResponse, Response)):
        response = value.made() if isinstance(value, WebResponse) else value
        return response if response.status < 300 else _marked(response, "700")
    if hasattr(value, "__next__"):
        is_events = request.path in METHODS
        if request.headers.get("accept") == "application/json" and "openai" not in request.headers.get("user-agent", "").lower():
            return Response(json=_gathered(value))
        return _stream(value, EVENTS if is_events else BYTES)
    value = dumped(value)
    if _is_binary(request):
        return Response(_msgpack.packed(value, as_plain), content_type=BYTES)
    return response_of(value) if isinstance(value, (bytes, bytearray)) else Response(json=value)


def _stream(value: Any, content_type: str) -> Any:
    """Text and bytes are pieces of a body of unknown kind, as Truss has it; the rest are events."""
    first = next(value, END)

    def pieces() -> Any:
        if first is not END:
            yield first
            yield from value

    is_plain = first is END or isinstance(first, (str, *PLAIN))
    return Response(stream=pieces(), content_type=content_type if is_plain else None)


def _gathered(pieces: Any) -> Any:
    """A stream for a client that wants JSON: its text, or of events a list of what they say."""
    pieces = list(pieces)
    if all(isinstance(it, (str, *PLAIN)) for it in pieces):
        return b"".join(it.encode() if isinstance(it, str) else it for it in pieces).decode(errors="replace")
    return [it.data if isinstance(it, Event) else it for it in pieces]


def _is_whole(value: Any) -> Any:
    return isinstance(value, (Response, WebResponse)) or hasattr(value, "__next__")


def _takes(function: Callable[..., Any], name: str) -> Any:
    if not inspect.isfunction(function):
        return False
    return any(it.name == name or it.kind is it.VAR_KEYWORD for it in typed.parameters(function))
