"""Cortex's handlers: `pre_inference` and `post_inference` around a model (up to 0.11), and the classes of later versions.

    from modelhost_guest import cortex
    cortex.handlers(handler, __name__)                          # a module with the two functions
    cortex.predictor(ONNXPredictor, __name__, client="onnx")    # or `PythonPredictor`, `TensorFlowPredictor`, `Handler`
"""

from __future__ import annotations

import inspect
import logging
import math
from typing import Any

from . import models, typed
from ._arrays import is_array
from ._coroutines import finished, finisher
from ._tensor import Tensor
from .app import App
from .batch import spread
from .errors import InvalidInput
from .forms import MULTIPART, URLENCODED
from .handler import post_inference, pre_inference
from .messages import TEXT, Answer, Response
from .web import HTTPException
from .web import Response as WebResponse

logger = logging.getLogger("cortex")
METHODS = ("get", "post", "put", "patch", "delete")


class Node:
    """An input of the model, as ONNX Runtime describes it."""

    def __init__(self, spec: Any) -> None:
        self.name, self.shape, self.type = spec.name, [it if it >= 0 else None for it in spec.shape], spec.datatype


def handlers(source: Any, module: Any, engine: Any = "onnx", legacy: Any = False) -> Any:
    """Makes the functions of a module the handler in `module`, and returns what is exported. In versions before 0.10 (`legacy`)
    `metadata` is the signature.
    """
    pre, post = getattr(source, "pre_inference", None), getattr(source, "post_inference", None)

    def given(function: Any, first: Any, context: Any) -> Any:
        signature = context.signature.inputs
        signature = [Node(it) for it in signature] if engine == "onnx" else {it.name: Node(it) for it in signature}
        named = {"signature": signature, "metadata": signature if legacy else context.metadata}
        return function(first, *(named[it.name] for it in typed.parameters(function)[1:]))

    def prepare(sample: Any, context: Any) -> Any:
        return _tensors(given(pre, sample.json, context), context.signature.inputs)

    def answer(outputs: Any, context: Any) -> Any:
        return Response(json=given(post, _prediction(outputs, engine), context))

    prepare.__module__ = answer.__module__ = module
    if pre is not None:
        pre_inference(prepare)
    if post is not None:
        post_inference(answer)
    return prepare if pre is not None else None, answer if post is not None else None


def predictor(source: Any, module: Any, client: Any = "python", texts: Any = "text", batch: Any = False) -> Any:
    """Makes a class the application in `module`. `client` is `onnx` or `tensorflow` where it gets one; `texts="json"` writes texts as
    JSON, as versions up to 0.16 did. `source` may be a module with `init` and `predict`. With `batch`, for `server_side_batching`, a
    `POST` to the API's own path gives `predict` lists, of as many requests as there are, and takes a list.
    """
    app = App("cortex")
    finisher(*vars(source).values()) if inspect.ismodule(source) else finisher(source)

    def init(metadata: Any) -> Any:
        return {"made": _made(source, client, metadata or {})}

    init.__module__ = module
    app.init(init)
    for method in METHODS:
        name = f"handle_{method}" if hasattr(source, f"handle_{method}") else "predict"
        if method != "post" and name == "predict":
            continue
        if not hasattr(source, name):
            name = "handle_async" if hasattr(source, "handle_async") else name
        if not hasattr(source, name):
            continue
        if batch and method == "post":
            app.batch("/")(_batch_handler(module, name, texts))
            continue
        app.handler("/{*path}", (method.upper(),))(_handler(module, name, texts))
    return app


def _made(source: Any, client: Any, config: Any) -> Any:
    if inspect.ismodule(source):
        if hasattr(source, "init"):
            source.init(config.get("model_path", "/mnt/project"), config)
        return source
    given = {"config": config, f"{client}_client": Client(client), "model_client": Client("onnx")}
    return source(**{it.name: given[it.name] for it in typed.parameters(source) if it.name in given})


def _handler(module: Any, name: str, texts: Any) -> Any:
    def handler(context: Any, request: Any) -> Any:
        function = getattr(context["made"], name)
        try:
            made = finished(function(**_asked(function, request)))
        except HTTPException as error:
            return Response(str(error.detail), status=error.status_code)
        return _answered(made, texts)

    handler.__module__ = module
    return handler


def _batch_handler(module: Any, name: str, texts: Any) -> Any:
    def handler(context: Any, requests: Any) -> Any:
        function = getattr(context["made"], name)

        def call(given: Any) -> Any:
            try:
                made = finished(function(**{name: [it[name] for it in given] for name in given[0]}))
            except HTTPException as error:
                raise Answer(Response(str(error.detail), status=error.status_code)) from None
            return [_answered(it, texts) for it in made] if isinstance(made, (list, tuple)) else made

        return spread(call, requests, lambda request: _asked(function, request))

    handler.__module__ = module
    return handler


def _asked(function: Any, request: Any) -> Any:
    """The arguments that a function names, of a request."""
    return {it.name: _GIVEN[it.name](request) for it in typed.parameters(function) if it.name in _GIVEN}


def _answered(made: Any, texts: Any) -> Any:
    """What `predict` returned as a response."""
    if isinstance(made, WebResponse):
        return made.made()
    if isinstance(made, (Response, bytes)):
        return made if isinstance(made, Response) else Response(made)
    if isinstance(made, str) and texts == "text":
        return Response(made, content_type=TEXT)
    return Response(json=made)


def _payload(request: Any) -> Any:
    """The body by its content type."""
    kind = (request.content_type or "").split(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return request.json
    if kind in (URLENCODED, MULTIPART):
        return request.form
    return request.text if kind == "text/plain" else bytes(request.body)


# The arguments of `predict` by their names.
_GIVEN = {
    "payload": _payload,
    "sample": _payload,
    "query_params": lambda request: request.query,
    "headers": lambda request: request.headers,
    "metadata": lambda request: request.context.metadata,
    "request_id": lambda request: request.id,
}


class Client:
    """`onnx_client` and `tensorflow_client`: the endpoint's models."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def predict(self, model_input: Any, model_name: Any = "", model_version: Any = "latest") -> Any:
        """Runs a model: of ONNX the list of its outputs, of TensorFlow a dict of lists."""
        inputs = models.describe(model_name or "").inputs
        return _prediction(models.infer(_tensors(model_input, inputs), model_name or ""), self._engine)


def _prediction(outputs: Any, engine: Any) -> Any:
    if engine == "tensorflow":
        return {it.name: it.strings() if it.datatype == "BYTES" else it.values.tolist() for it in outputs}
    return list(outputs)


def _tensors(value: Any, inputs: Any) -> Any:
    """What a function returned as tensors of the declared datatypes and shapes."""
    if not inputs:
        return value if isinstance(value, dict) else Tensor(_plain(value))
    if not isinstance(value, dict):
        if len(inputs) != 1:
            raise InvalidInput(f"expected a dict with keys {', '.join(it.name for it in inputs)}")
        value = {inputs[0].name: value}
    made = []
    for spec in inputs:
        if value.get(spec.name) is None:
            raise InvalidInput(f"missing key `{spec.name}`")
        given = value[spec.name]
        tensor = given if isinstance(given, Tensor) else Tensor(_plain(given), spec.datatype)
        made.append(Tensor.raw(tensor.data, tensor.datatype, _shape(spec, tensor), spec.name))
    return made


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") and not is_array(value) else value


def _shape(spec: Any, tensor: Any) -> Any:
    """The declared shape, if the tensor has another rank: one unknown extent is what is left, others are 1."""
    if len(spec.shape) == len(tensor.shape):
        return tensor.shape
    known = math.prod(it for it in spec.shape if it > 0) or 1
    shape, rest = [], math.prod(tensor.shape) // known
    for extent in spec.shape:
        shape.append(extent if extent > 0 else rest)
        rest = rest if extent > 0 else 1
    if math.prod(shape) != math.prod(tensor.shape):
        raise InvalidInput(f"input `{spec.name}`: {list(tensor.shape)} does not fit {list(spec.shape)}")
    return shape
