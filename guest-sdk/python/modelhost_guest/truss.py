"""Truss's `class Model` as an application: `load`, `preprocess`, `predict`, `postprocess`."""

import os

from .app import App
from .handler import adapted
from .messages import Response, response_of

PROJECT = "/mnt/project"


def truss(model):
    """Serves the class by `POST` on every path of the endpoint.

    `__init__` gets those of `config` (the endpoint's metadata), `data_dir` (the project's folder), `secrets` and
    `environment` (the granted variables) that it names. A method takes the input, the request, or both (`request` by its
    name). A generator is a stream.
    """
    app = App(model.__name__)

    def init(metadata):
        given = {"config": metadata or {}, "data_dir": PROJECT, "secrets": os.environ, "environment": os.environ}
        made = model(**{name: value for name, value in given.items() if _takes(model.__init__, name)})
        if hasattr(made, "load"):
            made.load()
        return {"model": made}

    def handler(context, request):
        value = request.json
        for step in ("preprocess", "predict", "postprocess"):
            method = getattr(context["model"], step, None)
            if method is None:
                continue
            if isinstance(value, Response) or hasattr(value, "__next__"):
                raise TypeError(f"`predict` answered with a stream or a response, and there is a `{step}` after it")
            if not _takes(method, "request"):
                value = adapted(method)(value)
            elif method.__code__.co_argcount > 2:
                value = method(value, request=request)
            else:
                value = method(request)
        return response_of(value)

    init.__module__ = handler.__module__ = model.__module__
    app.init(init)
    app.handler("/{*path}")(handler)
    model.app = app
    return model


def _takes(function, name):
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    variables = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in variables or bool(code.co_flags & 0x08)
