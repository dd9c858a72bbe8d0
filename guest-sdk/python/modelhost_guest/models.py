"""The endpoint's models, called by the handler: by value, or with tensors that stay with the host.

In a test
`answer_with` says what they answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays, _held, _host
from ._tensor import Tensor, Tensors, tensors
from .context import Signature, signature_of
from .errors import checked

if TYPE_CHECKING:
    Inputs = Tensor | Sequence[Tensor] | Mapping[str, Any]

NAME = "a model's name"

_stand_ins: dict[str, Callable[[Tensors], Any]] | None = None


class ModelError(Exception):
    """`kind` is one of no-such-model, invalid-input, overloaded, timed-out, failed, limit."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


TEXTS = {
    "no-such-model": "the endpoint has no model `{}`",
    "overloaded": "the model has no place for another run",
    "timed-out": "the model has not answered in time",
    "failed": "the model failed: {}",
}


def names() -> list[str]:
    """Names, in the configuration's order. The first is what an empty name means."""
    return list(_stand_ins) if _stand_ins is not None else _host_models().names()


def describe(model: str = "") -> Signature:
    """The model's inputs and outputs."""
    if _stand_ins is not None:
        return Signature([], [])
    return signature_of(_asked(_host_models().describe, checked(model, NAME)))


def infer(inputs: Inputs | None = None, model: str = "", **named: Any) -> Tensors:
    """Runs the model by value: `inputs` is a tensor, several, or a dict of them by name. Outputs are by place and by name.

    A tensor may be an array of numpy's, or lists of numbers in a dict. Inputs may be given by their names as well,
    `infer(input_ids=ids, attention_mask=mask)`.
    """
    if named:
        if inputs is not None and not isinstance(inputs, dict):
            raise TypeError("inputs are given as the first argument, or by their names")
        inputs = {**(inputs or {}), **named}
    given = _arrays.fitted(tensors(inputs), lambda: describe(model))
    if _stand_ins is not None:
        return _stand_in(model, given)
    return _host.tensors_in(_asked(_host_models().infer, checked(model, NAME), _host.tensors_out(given)))


def run(inputs: Mapping[str, Resident], model: str = "", outputs: Iterable[str] = ()) -> dict[str, Resident]:
    """Runs the model with tensors that the host holds: a dict of `Resident` by name, here and as the result.

    `outputs` names those that are wanted; none means all.
    """
    if _stand_ins is not None:
        return _stood_in(model, inputs, outputs)
    given = [(name, resident._host) for name, resident in inputs.items()]
    return _residents(_asked(_host_models().run, checked(model, NAME), given, list(outputs)))


def start(inputs: Mapping[str, Resident], model: str = "", outputs: Iterable[str] = ()) -> Pending:
    """The same without waiting: `wait()` of the result gives the outputs. Runs that are started together go on together."""
    if _stand_ins is not None:
        return Pending(None, _stood_in(model, inputs, outputs))
    given = [(name, resident._host) for name, resident in inputs.items()]
    return Pending(_asked(_host_models().start, checked(model, NAME), given, list(outputs)), None)


class Pending:
    """A run that goes on."""

    def __init__(self, host: Any, outputs: dict[str, Resident] | None) -> None:
        self._host: Any = host
        self._outputs: Any = outputs

    def wait(self) -> dict[str, Resident]:
        """The outputs, once."""
        return _residents(_asked(self._host.wait)) if self._host is not None else self._outputs


class Resident:
    """A tensor that the host holds. What is not read is not copied. It goes with the request, or with `close()`."""

    def __init__(self, tensor: Any) -> None:
        tensor = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
        if _stand_ins is not None:
            self._keep(tensor, None)
            return
        made = _host_models().Resident
        datatype = _host.types.Datatype[tensor.datatype]
        self._hold(_asked(made.make, datatype, list(tensor.shape), bytes(tensor.data)))

    @property
    def datatype(self) -> str:
        """Its element type."""
        return self._tensor.datatype if self._host is None else self._host.datatype().name

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return tuple(self._tensor.shape if self._host is None else self._host.shape())

    def read(self, name: str = "") -> Tensor:
        """A copy of all of it."""
        if self._host is None:
            return self._tensor
        return Tensor.raw(_asked(self._host.read), self.datatype, self.shape, name)

    def reshape(self, *shape: int) -> Resident:
        """The same elements under another shape, without a copy."""
        if self._host is None:
            return Resident(self._tensor.reshape(*shape))
        return _resident(_asked(self._host.reshape, list(shape)))

    def rows(self, start: int, count: int) -> Resident:
        """`count` rows from `start` along the first axis, without a copy."""
        if self._host is None:
            return Resident(self._tensor[start : start + count])
        return _resident(_asked(self._host.rows, start, count))

    def close(self) -> None:
        """Gives it up before the request ends."""
        if self._host is not None:
            _held.release(self._host)

    def _hold(self, host: Any) -> None:
        self._keep(None, _held.hold(host))

    def _keep(self, tensor: Tensor | None, host: Any) -> None:
        self._tensor: Any = tensor
        self._host: Any = host


def answer_with(models: dict[str, Callable[[Tensors], Any]] | None) -> None:
    """For tests: what the models answer, each a function from its inputs to its outputs, as a dict by name.

    The empty name is the first.
    """
    global _stand_ins
    _stand_ins = models


def _host_models() -> Any:
    if _host.models is None:
        raise RuntimeError(
            "the handler imports no models: add `include modelhost:handler/model-imports@0.1.0;` to the world in wit/world.wit, "
            "or in a test call `models.answer_with`"
        )
    return _host.models


def _asked(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _host.Err as error:
        kind = _host.kind(error.value)
        text = getattr(error.value, "value", "")
        raise ModelError(kind, TEXTS.get(kind, "{}").format(text)) from None


def _resident(host: Any) -> Resident:
    resident = Resident.__new__(Resident)
    resident._hold(host)
    return resident


def _residents(outputs: Iterable[tuple[str, Any]]) -> dict[str, Resident]:
    return {name: _resident(host) for name, host in outputs}


def _stand_in(model: str, inputs: list[Tensor]) -> Tensors:
    there = _stand_ins or {}
    function = there.get(model) or (None if model else next(iter(there.values()), None))
    if function is None:
        raise ModelError("no-such-model", TEXTS["no-such-model"].format(model))
    return Tensors(tensors(function(Tensors(inputs))))


def _stood_in(model: str, inputs: Mapping[str, Resident], outputs: Iterable[str]) -> dict[str, Resident]:
    named = {name: resident._tensor for name, resident in inputs.items()}
    answered = _stand_in(model, tensors(named))
    wanted = [answered[name] for name in outputs] if outputs else answered
    return {tensor.name: Resident(tensor) for tensor in wanted}
