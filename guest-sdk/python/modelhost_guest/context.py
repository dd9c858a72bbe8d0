"""The request that a function serves, and what it is part of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from .messages import Body, Fields, Sample


class TensorSpec(NamedTuple):
    """What a model takes or returns under one name; -1 in the shape is any extent."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Signature(NamedTuple):
    """The model's inputs and outputs, in its own order."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]


class Context:
    """The request being served. What is not asked for is not fetched.

    A test makes one: `Context(metadata={"labels": ["cat"]}, headers={"x-user": "7"})`.
    """

    def __init__(self, sample: Body | None = None, *, method: str = "POST", path: str = "/", query: str = "", headers: Mapping[str, str] | None = None, metadata: Any = None, parameters: Mapping[str, Any] | None = None,
                 signature: Any = None, request_id: str = "test") -> None:  # fmt: skip
        self._host: Any = _Made(sample or Sample(), method, path, query, headers or {}, metadata, parameters or {}, signature, request_id)

    @classmethod
    def _of(cls, host: Any) -> Context:
        context = cls.__new__(cls)
        context._host = host
        return context

    def _end(self) -> None:
        """The host's context is lent for one call; a function may have kept this one."""
        self._host = None

    @property
    def request_id(self) -> str:
        """From the header `x-request-id`, or made by the host."""
        return self._host.request_id()

    @property
    def method(self) -> str:
        """Upper case."""
        return self._host.method()

    @property
    def path(self) -> str:
        """Without the query."""
        return self._host.path()

    @property
    def query(self) -> Fields:
        """The query's parameters; of a repeated one the last."""
        return Fields(parse_qsl(self._host.query(), keep_blank_values=True))

    def header(self, name: str) -> str | None:
        """The header's value, or None; several lines are one, joined by `, `. Names match in any case."""
        return self._host.header(name)

    @property
    def sample(self) -> Body:
        """The request's body again, for post-inference."""
        sample = self._host.sample()
        return sample if isinstance(sample, Body) else Sample(sample.body, sample.content_type)

    @property
    def metadata(self) -> Any:
        """The endpoint's `metadata`; None if the configuration has none."""
        return json.loads(self._host.metadata())

    @property
    def parameters(self) -> dict[str, Any]:
        """The request's `parameters` of the Open Inference Protocol."""
        return json.loads(self._host.parameters())

    @property
    def signature(self) -> Signature:
        """The model's inputs and outputs."""
        return signature_of(self._host.signature())


def signature_of(signature: Any) -> Signature:
    """Of what the host said."""
    if signature is None or isinstance(signature, Signature):
        return signature or Signature([], [])
    specs = lambda specs: [TensorSpec(it.name, it.datatype.name, tuple(it.shape)) for it in specs]  # noqa: E731
    return Signature(specs(signature.inputs), specs(signature.outputs))


class _Made:
    """A context of a test: the same functions as the host's."""

    def __init__(self, sample: Body | None, method: str, path: str, query: str, headers: Mapping[str, str], metadata: Any, parameters: Mapping[str, Any], signature: Any, request_id: str) -> None:
        self.sample, self.method, self.path, self.query = (lambda: sample), (lambda: method), (lambda: path), (lambda: query)
        self.metadata, self.parameters = (lambda: json.dumps(metadata)), (lambda: json.dumps(parameters))
        self.signature, self.request_id = (lambda: signature), (lambda: request_id)
        self._headers = {name.lower().replace("_", "-"): value for name, value in headers.items()}

    def header(self, name: str) -> str | None:
        return self._headers.get(name.lower().replace("_", "-"))
