"""Truss's server around a `class Model` on this host: what its authors know, in the fewest lines that show it.

`__init__` gets those of `config`, `data_dir`, `secrets` and `environment` that it names; `load` runs when the component is
loaded or an instance starts. `preprocess`, `predict` and `postprocess` take nothing, the inputs, the request, or both; a
generator is sent as it yields. `is_healthy` is what readiness says.
"""

import inspect
import json
import os
import pathlib
import traceback
from types import GeneratorType

from host import Err, Error_Internal, Held, Operation, Response as Sent, is_disconnected

PREDICT = "/v1/models/model:predict"
STATUS = "/v1/models/model"
INTERNAL = "Internal Server Error (in model/chainlet)."


class HTTPException(Exception):
    """An answer with another status."""

    def __init__(self, status_code, detail):
        super().__init__(detail)
        self.status_code, self.detail = status_code, detail


class Response:
    """An answer as it is to be sent."""

    def __init__(self, content=b"", status_code=200, headers=None, media_type="application/octet-stream"):
        self.content, self.status_code = content, status_code
        self.headers, self.media_type = dict(headers or {}), media_type


class Request:
    """The request around the inputs."""

    def __init__(self, sample, context):
        self._sample, self._context = sample, context

    def body(self):
        return self._sample.body

    def json(self):
        return json.loads(self._sample.body)

    def header(self, name):
        return self._context.header(name)

    def is_disconnected(self):
        return is_disconnected()


class SecretNotFound(Exception):
    pass


class Secrets:
    """Granted variables, `TRUSS_SECRET_NAME` each."""

    def __getitem__(self, name):
        value = os.environ.get(f"TRUSS_SECRET_{name}")
        if value is None:
            raise SecretNotFound(f"Secret '{name}' not found: grant the variable `TRUSS_SECRET_{name}`")
        return value


class Server:
    def __init__(self, model_class):
        self._class = model_class
        self.model = None

    def prepare(self, metadata):
        known = {
            "config": metadata.get("config", {}),
            "data_dir": pathlib.Path("/mnt/project/data"),
            "secrets": Secrets(),
            "environment": metadata.get("environment"),
        }
        wanted = inspect.signature(self._class.__init__).parameters
        self.model = self._class(**{name: value for name, value in known.items() if name in wanted})
        if hasattr(self.model, "load"):
            self.model.load()

    def operations(self):
        text = json.dumps(self._class.INPUT)
        return [
            Operation("POST", PREDICT, "Predict", "application/json", text, "", None),
            Operation("GET", STATUS, "Whether it is healthy", "", None, "application/json", None),
        ]

    def respond(self, sample, context, output):
        held = Held(output)
        try:
            return self._respond(Request(sample, context), context, held)
        except HTTPException as error:
            return failed(error.status_code, error.detail, "600")
        except Exception:
            traceback.print_exc()
            if held.has_begun:
                # Not ended, it breaks off.
                raise Err(Error_Internal("in the middle of the stream")) from None
            return failed(500, INTERNAL, "600")
        finally:
            held.drop()

    def _respond(self, request, context, held):
        method, path = context.method(), context.path()
        if (method, path) == ("GET", STATUS):
            is_healthy = bool(self.model.is_healthy()) if hasattr(self.model, "is_healthy") else True
            return ok({}) if is_healthy else failed(503, "Model with name model is not ready.", "600")
        if (method, path) == ("GET", f"{STATUS}/loaded"):
            return ok({})
        if (method, path) == ("POST", "/v1/chat/completions"):
            return self._deliver(called(self.model.chat_completions, json.loads(request.body()), request), context, held)
        if path not in (PREDICT, "/"):
            return failed(404, f"there is nothing at `{path}`", "700")
        try:
            inputs = json.loads(request.body())
        except ValueError as error:
            return failed(400, f"Invalid JSON payload: {error}", "700")
        if hasattr(self.model, "preprocess"):
            inputs = called(self.model.preprocess, inputs, request)
        outputs = called(self.model.predict, inputs, request)
        if hasattr(self.model, "postprocess"):
            outputs = called(self.model.postprocess, outputs, request)
        return self._deliver(outputs, context, held)

    @staticmethod
    def _deliver(outputs, context, held):
        if isinstance(outputs, Response):
            headers = list(outputs.headers.items())
            if outputs.status_code >= 300:
                headers += errors("700")
            return Sent(outputs.status_code, outputs.media_type, headers, outputs.content)
        if not isinstance(outputs, GeneratorType):
            return ok(outputs)
        if context.header("accept") == "application/json":
            return ok("".join(outputs))
        is_events = context.path() == "/v1/chat/completions"
        held.begin(200, "text/event-stream" if is_events else "application/octet-stream")
        for piece in outputs:
            if not held.write(piece if isinstance(piece, bytes) else piece.encode()):
                outputs.close()
                break
        held.finish()
        return None


def called(function, inputs, request):
    """Calls a function of the model with what its signature takes."""
    by_type = {Request: request}
    parameters = inspect.signature(function).parameters.values()
    return function(*(by_type.get(parameter.annotation, inputs) for parameter in parameters))


def ok(value):
    return Sent(200, "application/json", [], json.dumps(value).encode())


def errors(code):
    return [("x-baseten-error-source", "04"), ("x-baseten-error-code", code)]


def failed(status, text, code):
    return Sent(status, "application/json", errors(code), json.dumps({"error": text}).encode())
