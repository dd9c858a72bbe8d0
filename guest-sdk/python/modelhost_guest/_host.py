"""The way to the host: the bindings that componentize-py makes for the project's world. In a test there are none.

Everything is imported when the component is built: at run time there are no modules to find.
"""

# pyright: reportPossiblyUnboundVariable=false, reportOptionalMemberAccess=false

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import _finalizer, _stdlib, _traces  # noqa: F401 (for the handles of the bindings)
from ._tensor import Tensor, Tensors
from .errors import InvalidInput
from .messages import Answer, Response, answer_to, response_of

if TYPE_CHECKING:
    from .context import Context

try:
    from componentize_py_types import Err, Ok
    from wit_world.imports import types
except ImportError:
    # In a world that has types of others, such as wasi:http's, they have a longer name.
    try:
        from wit_world.imports import modelhost_handler_types as types
    except ImportError:
        types = None

try:
    from wit_world.imports import models
except ImportError:
    models = None

try:
    from wit_world.imports import kv
except ImportError:
    kv = None

try:
    from wit_world.imports import metrics
except ImportError:
    metrics = None

try:
    from wit_world.imports import jobs
except ImportError:
    jobs = None

try:
    from wit_world.imports import blobstore
    from wit_world.imports import wasi_blobstore_types as blob_types
except ImportError:
    blobstore = blob_types = None

try:
    from wit_world.imports import websockets
except ImportError:
    websockets = None

try:
    from wit_world.imports import request as current
except ImportError:
    current = None

try:
    from wit_world.imports import images
except ImportError:
    images = None

try:
    from wit_world.imports import arithmetic
except ImportError:
    arithmetic = None

try:
    from wit_world.imports import tokenizers
except ImportError:
    tokenizers = None

try:
    from wit_world.imports import requests
except ImportError:
    requests = None

try:
    from wit_world.exports.operations import Operation
except ImportError:
    Operation = None

try:
    from wit_world.exports.input_schema import Input as DeclaredInput
except ImportError:
    DeclaredInput = None

# By name. A look into an enum is code in Python.
DATATYPES = dict(types.Datatype.__members__) if types else {}


def tensors_in(tensors: Any) -> Tensors:
    """From the host."""
    # `_name_` is the name without the property of it, which is code in Python.
    return Tensors([Tensor._of(it.data, it.datatype._name_, tuple(it.shape), it.name) for it in tensors])


def tensors_out(tensors: Any) -> Any:
    """To the host."""
    return [types.Tensor(it.name, DATATYPES[it.datatype], list(it.shape), bytes(it.data)) for it in tensors]


def response_out(response: Response) -> Any:
    """To the host; a response in pieces is none here."""
    if response.stream is not None:
        raise TypeError("only an application answers with a stream")
    return types.Response(response.status, response.content_type, response.fields(), response.body)


def result_out(result: Any, context: Context | None = None) -> Any:
    """One of a batch to the host: a response, or an error of its own."""
    try:
        if isinstance(result, Exception):
            raise result
        return Ok(response_out(response_of(result)))
    except Exception as error:
        return error_out(error, context)


def error_out(error: Any, context: Context | None = None) -> Any:
    """What the host is told when a function raised, for the request of a context."""
    if isinstance(error, InvalidInput) and error.status != InvalidInput.status and context is not None:
        return Err(types.Error_Respond(response_out(answer_to(error, context))))
    if isinstance(error, InvalidInput):
        return Err(types.Error_InvalidInput(str(error)))
    if isinstance(error, Answer):
        return Err(types.Error_Respond(response_out(error.response)))
    overloaded = getattr(error, "kind", None) == "overloaded"
    if overloaded:
        return Err(types.Error_Respond(response_out(Response("overloaded", status=503))))
    return Err(types.Error_Internal(said(error)))


def kind(error: Any) -> str:
    """Of one of the contract's errors: `Error_NoSuchModel` is no-such-model."""
    name = type(error).__name__.removeprefix("Error_")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


def said(error: Any) -> str:
    """An error for the log: a line with the project's own place, then the frames of the project's files."""
    told = _traces.line(error), _traces.frames(error)
    return "\n".join(filter(None, told))


def init_said(error: Any) -> str:
    """The line of an error of `init`, whose frames are printed: they are no part of why a handler is refused."""
    if frames := _traces.frames(error):
        print(frames, file=sys.stderr)
    return _traces.line(error)
