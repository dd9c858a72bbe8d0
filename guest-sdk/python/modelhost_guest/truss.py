"""Truss's `class Model` as an application: `load`, `preprocess`, `predict`, `postprocess`, and the methods of OpenAI's paths."""

import inspect
import os
import pathlib

from . import typed
from .app import App
from .errors import InvalidInput
from .handler import adapted
from .messages import BYTES, EVENTS, Response, dumped, response_of
from .web import HTTPException, Request as WebRequest, Response as WebResponse, WebSocket, WebSocketDisconnect

PROJECT = "/mnt/project"
STATUS = "/v1/models/model"
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


class Secrets(dict):
    """The granted variables `TRUSS_SECRET_NAME`, or `NAME`."""

    def __missing__(self, name):
        for variable in (f"TRUSS_SECRET_{name}", name):
            if variable in os.environ:
                return os.environ[variable]
        raise SecretNotFound(f"secret `{name}` is not granted: `env = [\"TRUSS_SECRET_{name}\"]` in modelhost.toml")

    def __contains__(self, name):
        return f"TRUSS_SECRET_{name}" in os.environ or name in os.environ

    def get(self, name, default=None):
        return self[name] if name in self else default


class Data:
    """What stands for a download that Truss makes: files of the project are there before the model is loaded."""

    def block_until_download_complete(self):
        pass


def truss(model=None, module=None):
    """Serves the class by `POST` on every path of the endpoint; what `predict` returns is written as JSON.

    `__init__` gets those of `config` (the endpoint's metadata), `data_dir` (the project's folder), `secrets`,
    `environment` (the granted variables) and `lazy_data_resolver` that it names. A method takes the input, the request, or both
    (`request` by its name, or by the annotation `Request`); the input as an object of the class that it is annotated with, one of
    pydantic's or a dataclass, which is what the schema says. A generator is a stream, and `async def` works. `websocket` serves
    WebSockets, if the world exports them. The exports go to `module`, by default that of the class.
    """
    if model is None or isinstance(model, str):
        return lambda named: truss(named, module or model)
    app, finished = App(model.__name__), _finisher(model)

    def init(metadata):
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

    def handler(context, request):
        made = context["model"]
        try:
            if request.path in METHODS:
                return _sent(_of_path(made, request, finished), request, finished)
            return _sent(_predicted(made, request, finished), request, finished)
        except HTTPException as error:
            return _failed(error.status_code, error.detail, "600", error.headers)
        except InvalidInput as error:
            return _failed(400, str(error), "700")

    def status(context, request):
        healthy = getattr(context["model"], "is_healthy", lambda: True)
        if finished(healthy()):
            return {}
        return Response({"error": "Model with name model is not ready."}, status=503)

    def websocket(socket, request):
        socket.accept()
        try:
            finished(app.context["model"].websocket(WebSocket(socket, request)))
        except WebSocketDisconnect:
            # The client is gone, as any client may be.
            pass

    init.__module__ = handler.__module__ = status.__module__ = websocket.__module__ = module or model.__module__
    app.init(init)
    app.get(STATUS)(status)
    app.handler("/{*path}")(handler)
    app.says(**_described(model))
    if hasattr(model, "websocket"):
        app.websocket("/{*path}")(websocket)
    model.app = app
    return model


def _failed(status, text, code, headers=()):
    own = {"x-baseten-error-source": "04", "x-baseten-error-code": code}
    return Response({"error": text}, status=status, headers={**own, **dict(headers)})


def _described(model):
    """Schemas of what the first method takes and the last one returns."""
    methods = [getattr(model, name) for name in ("preprocess", "predict", "postprocess") if hasattr(model, name)]
    if not methods:
        return {}
    wanted = _wanted([it for it in inspect.signature(methods[0]).parameters.values() if not _is_web(it)][1:])
    output, is_stream = typed.described(methods[-1])
    return {"input": _schema(wanted), "output": output, "produces": EVENTS if is_stream else ""}


def _schema(wanted):
    for name in ("model_json_schema", "schema"):
        if hasattr(wanted, name):
            return getattr(wanted, name)()
    return typed.schema(wanted) if typed.is_typed(wanted) else None


def _of_path(made, request, finished):
    name = METHODS[request.path]
    method = getattr(made, name, None)
    if method is None:
        raise HTTPException(404, f"`{name}` must only be called if model has it.")
    return finished(_called(method, request.json, request))


def _predicted(made, request, finished):
    value = request.json
    for step in ("preprocess", "predict", "postprocess"):
        method = getattr(made, step, None)
        if method is None:
            continue
        if _is_whole(value):
            raise TypeError(f"`predict` answered with a stream or a response, and there is a `{step}` after it")
        value = finished(_called(method, value, request))
    return value


def _called(method, value, request):
    """Calls a method of the model with what its signature takes: the input, the request, or both."""
    parameters = list(inspect.signature(method).parameters.values())
    web = [it for it in parameters if _is_web(it)]
    if not web:
        return adapted(method)(_typed(parameters, value))
    is_web = web[0].annotation is WebRequest
    given = {web[0].name: WebRequest(request) if is_web else request}
    rest = [it for it in parameters if it is not web[0] and it.default is it.empty and it.kind is it.POSITIONAL_OR_KEYWORD]
    return method(**given, **{it.name: _typed([it], value) for it in rest[:1]})


def _is_web(parameter):
    return parameter.name == "request" or parameter.annotation is WebRequest


def _wanted(parameters):
    """The class that the input is annotated with."""
    wanted = parameters[0].annotation if parameters else None
    return wanted if isinstance(wanted, type) and wanted is not inspect.Parameter.empty else None


def _typed(parameters, value):
    """The input as the class that it is annotated with, if that is one of pydantic's or a typed one."""
    wanted = _wanted(parameters)
    if typed.is_typed(wanted):
        return typed.parse(wanted, value)
    parse = getattr(wanted, "model_validate", None) or getattr(wanted, "parse_obj", None)
    if parse is None:
        return value
    try:
        return parse(value)
    except ValueError as error:
        told = getattr(error, "errors", lambda: [{"loc": ["input"], "msg": " ".join(str(error).split())}])()
        raise typed.InputErrors([(".".join(map(str, it["loc"])), it["msg"]) for it in told]) from None


def _sent(value, request, finished):
    """What a method returned as a response."""
    if isinstance(value, WebResponse):
        return value.made(finished)
    if isinstance(value, Response):
        return value
    if hasattr(value, "__next__"):
        is_events = request.path in METHODS
        if request.headers.get("accept") == "application/json" and "openai" not in request.headers.get("user-agent", "").lower():
            return Response(json="".join(it if isinstance(it, str) else str(it, "utf-8") for it in value))
        return _stream(value, EVENTS if is_events else BYTES)
    value = dumped(value)
    return response_of(value) if isinstance(value, (bytes, bytearray)) else Response(json=value)


def _stream(value, content_type):
    """Text and bytes are pieces of a body of unknown kind, as Truss has it; the rest are events."""
    first = next(value, None)

    def pieces():
        if first is not None:
            yield first
            yield from value

    is_plain = isinstance(first, (str, bytes, bytearray, memoryview, type(None)))
    return Response(stream=pieces(), content_type=content_type if is_plain else None)


def _is_whole(value):
    return isinstance(value, (Response, WebResponse)) or hasattr(value, "__next__")


def _finisher(model):
    """What makes values of coroutines, if the class has any."""
    methods = [it for it in vars(model).values() if inspect.isfunction(it)]
    if not any(inspect.iscoroutinefunction(it) or inspect.isasyncgenfunction(it) for it in methods):
        return lambda value: value
    from . import _aio

    return _aio.finished


def _takes(function, name):
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    variables = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in variables or bool(code.co_flags & 0x08)
