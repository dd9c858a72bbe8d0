"""The functions around a model: decorators that make a function one of the component's exports.

`modelhost build` finds them in the project's sources; each decorator puts the class that the bindings ask for where they look
for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _exports, _held, _host, kv, metrics, typed
from ._arrays import fitted
from ._coroutines import finisher, is_async
from ._tensor import tensors
from .context import Context
from .messages import JSON, Sample, response_of, to_json

if TYPE_CHECKING:
    from .messages import Body

F = TypeVar("F", bound=Callable[..., Any])

# The exports that were made, and those of them that a request may end with.
_made: set[Any] = set()
_LAST = {"PostInference", "PostInferenceTensors"}
# Ends the tasks that a call left; `_aio` puts it here, where a handler has coroutines.
end_tasks: Callable[[bool], None] | None = None


def init(function: F) -> F:
    """Runs once, when the handler is loaded. It may take the endpoint's `metadata`. What it raises refuses the handler."""
    call = adapted(function)

    class Init:
        def init(self, metadata: Any) -> None:
            try:
                call(json.loads(metadata))
            except Exception as error:
                raise _host.Err(_host.init_said(error)) from None
            finally:
                ended(is_init=True)

    return _export(function, Init)


def pre_inference(function: F) -> F:
    """From the request's body to the model's inputs: takes the sample and, if it likes, the context."""
    call = adapted(function)

    class PreInference:
        def pre_inference(self, sample: Body, context: Context) -> Any:
            return _first(context, call, Sample(sample.body, sample.content_type))

    return _export(function, PreInference)


def post_inference(function: F) -> F:
    """From the model's outputs to the response: takes the tensors and, if it likes, the context.

    A response is a `Response`, a text, bytes, or what is written as JSON.
    """
    call = adapted(function)

    class PostInference:
        def post_inference(self, prediction: Any, context: Context) -> Any:
            return _guarded(context, call, _host.tensors_in(prediction), _response)

    return _export(function, PostInference)


def pre_inference_tensors(function: F) -> F:
    """From a request's tensors (Open Inference Protocol) to the model's inputs."""
    call = adapted(function)

    class PreInferenceTensors:
        def pre_inference_tensors(self, sample: Body, context: Context) -> Any:
            return _first(context, call, _host.tensors_in(sample))

    return _export(function, PreInferenceTensors)


def post_inference_tensors(function: F) -> F:
    """From the model's outputs to the tensors that the caller gets."""
    call = adapted(function)

    class PostInferenceTensors:
        def post_inference_tensors(self, prediction: Any, context: Context) -> Any:
            return _guarded(context, call, _host.tensors_in(prediction), _tensors)

    return _export(function, PostInferenceTensors)


class Input:
    """One input that a handler takes. `[1]` is a single value, in JSON the bare one; -1 is any extent.

    A required input needs an example.
    """

    def __init__(self, name: str, datatype: str = "FP32", shape: Sequence[int] = (1,), example: Any = None, required: bool = True, description: str = "") -> None:
        if required and example is None:
            raise ValueError(f"input `{name}` is required and has no example")
        self.name, self.datatype, self.shape = name, datatype, tuple(shape)
        self.example, self.required, self.description = example, required, description


def input_schema(*inputs: Input, module: str | None = None) -> None:
    """Says what the handler takes: the host refuses what does not fit before the handler runs. Stands in the handler's module, or
    names it.
    """

    class InputSchema:
        def input_schema(self) -> Any:
            example = lambda it: None if it.example is None else to_json(it.example).decode()  # noqa: E731
            return [
                _host.DeclaredInput(
                    it.name, _host.types.Datatype[it.datatype], list(it.shape), it.required, example(it), it.description
                )
                for it in inputs
            ]

    _exports.put(module or sys._getframe(1).f_globals["__name__"], InputSchema.__name__, InputSchema)


def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to be called with any number of arguments: it gets as many, in their order, as it takes. A coroutine is awaited."""
    most = taken(function)
    if is_async(function):
        finished = finisher(function)
        return lambda *arguments: finished(function(*arguments[:most]))
    if most == 1:
        # Most functions take one argument.
        return lambda first, *_: function(first)
    return function if most is None else lambda *arguments: function(*arguments[:most])


def taken(function: Callable[..., Any]) -> int | None:
    """How many arguments a function takes by their places, of one with a decorator the decorated one; None is any number."""
    parameters = typed.parameters(function)
    if any(it.kind is it.VAR_POSITIONAL for it in parameters):
        return None
    return sum(it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD) for it in parameters)


def _tensors(value: Any, _: Any) -> Any:
    return _host.tensors_out(tensors(value))


def _response(value: Any, _: Any) -> Any:
    if type(value) is dict:
        # As most are: without a `Response` in between.
        return _host.types.Response(200, JSON, [], to_json(value))
    return _host.response_out(response_of(value))


def _inputs(value: Any, context: Context) -> Any:
    """The model's inputs to the host."""
    return _host.tensors_out(fitted(tensors(value), lambda: context.signature))


def _first(host: Any, call: Callable[..., Any], given: Any) -> Any:
    """`_guarded` for pre-inference. Handles that it holds, of tensors say, are there for post-inference, if that may follow."""
    # A request that ended between the two left its own.
    _held.released()
    return _guarded(host, call, given, _inputs, _LAST.isdisjoint(_made))


def _guarded(host: Any, call: Callable[..., Any], given: Any, result: Any, is_last: bool = True) -> Any:
    """Makes an export's result, says what that raised as the contract does, and gives up what the call held."""
    context = Context._of(host)
    try:
        return result(call(given, context), context)
    except Exception as error:
        is_last = True
        raise _host.error_out(error, context) from None
    finally:
        if is_last:
            if end_tasks is not None:
                end_tasks(False)
            _held.released()
        kv.closed()
        context._end()


def ended(*contexts: Context, is_init: bool = False) -> None:
    """Gives up what the call of an export that serves a whole request held: tasks, handles, buckets, its contexts.

    Tasks of `init` go on.
    """
    if end_tasks is not None:
        end_tasks(is_init)
    _held.released()
    kv.closed()
    if is_init:
        metrics.undescribed()
    for context in contexts:
        context._end()


def _export(function: F, exported: type) -> F:
    _made.add(exported.__name__)
    _exports.put(function.__module__, exported.__name__, exported)
    return function
