"""Inferless's class: `initialize`, `infer`, `finalize`, and what it says of its inputs.

    from modelhost_guest import inferless
    inferless.serve(InferlessPythonModel, __name__, input_schema)

A request's inputs are the dict that `infer` gets, by the Open Inference Protocol or as JSON; the dict that it returns are the outputs.
A class whose requests are served together, or that streams, is an application: it answers the protocol's paths itself.
"""

from __future__ import annotations

import inspect
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from . import _oip, typed
from ._coroutines import finished, finisher
from ._tensor import Tensor
from .app import App
from .batch import spread
from .errors import InvalidInput
from .handler import Input, adapted, init, input_schema, post_inference, pre_inference
from .messages import EVENTS, Body, Event, Response, dumped, refusal

# Datatypes of annotated classes.
_ANNOTATED = {str: "BYTES", int: "INT32", float: "FP64", bool: "BOOL"}
_EXAMPLES = {"BYTES": "", "INT32": 0, "FP64": 0.0, "BOOL": False}


def request(wanted: Any) -> Any:
    """Marks the class of the inputs."""
    wanted._inferless = "request"
    return wanted


def response(wanted: Any) -> Any:
    """Marks the class of the outputs."""
    return wanted


def config(wanted: Any) -> Any:
    """Marks the class of the settings."""
    return wanted


def method(*arguments: Any, **settings: Any) -> Any:
    """A remote function runs where it is called."""
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


local_entry_point = method


class Cls:
    """Marks the functions of a class: `@app.load`, `@app.infer`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        pass

    def load(self, function: Any) -> Any:
        function._inferless = "load"
        return function

    def infer(self, function: Any) -> Any:
        function._inferless = "infer"
        return function


def serve(model: Any, module: Any, schema: Any = None, name: str | None = None) -> Any:
    """Makes the class the handler in `module`. `schema` is the module `input_schema` or its `INPUT_SCHEMA`; without one the
    class that `@inferless.request` marks says what the inputs are. `name` is that of the endpoint, which is the model's: requests
    that are served together are taken at the model's paths of the Open Inference Protocol as well.
    """
    declared = schema if isinstance(schema, dict) or schema is None else getattr(schema, "INPUT_SCHEMA", None)
    marked = next((it for it in _globals(model).values() if getattr(it, "_inferless", "") == "request"), None)
    is_stream = bool(getattr(schema, "IS_STREAMING_OUTPUT", False))
    is_batched = getattr(schema, "BATCH_SIZE", 0) > 0
    inputs = [_input(key, said) for key, said in declared.items()] if declared is not None else _annotated(marked or object)
    served = Served(model, marked, inputs)
    init(_of(module, lambda: served.load()))
    if is_stream:
        streaming = Streaming(served)
        streaming.handler("/{*path}")(_of(module, lambda context, request: None))
        return streaming
    if is_batched:
        app = App("inferless")
        app.batch("/")(_of(module, lambda requests: spread(served.outputs_of, requests, served.input_of)))
        for path in paths(name) if name else ():
            app.batch(path)(_of(module, lambda requests: served.answers_of(requests)))
        return app
    pre_inference(_of(module, lambda sample: served.keep(sample.json)))
    post_inference(_of(module, lambda outputs: Response(json=served.outputs())))
    if inputs:
        input_schema(*inputs, module=module)
    return served


def paths(name: str) -> Any:
    """Where the Open Inference Protocol's clients call a model that answers once."""
    return [f"/v2/models/{name}{version}/{verb}" for version in ("", "/versions/1") for verb in ("infer", "generate")]


class Served:
    """The class, made once, and the inputs of the request that it serves."""

    def __init__(self, model: Any, marked: Any, declared: Any = ()) -> None:
        self._class, self._marked, self._declared = model, marked, declared
        self._model: Any = None
        self._inputs: Any = None
        named = {getattr(it, "_inferless", ""): name for name, it in vars(model).items()}
        self._load, self._infer = named.get("load", "initialize"), named.get("infer", "infer")
        finisher(model)

    def load(self) -> None:
        self._model = self._class()
        finished(getattr(self._model, self._load, lambda: None)())

    def keep(self, inputs: Any) -> Any:
        """For `post_inference`, which comes from the same instance; there is no model that tensors could go to."""
        self._inputs = dict(_object(inputs))
        return [Tensor([0], name="inputs")]

    def outputs(self, *more: Any) -> Any:
        return dumped(finished(adapted(getattr(self._model, self._infer))(self._marked_of(self._inputs), *more)))

    def input_of(self, request: Any) -> Any:
        """The inputs of one request of a batch."""
        return self._marked_of(self.read(request)[0])

    def outputs_of(self, batch: Any) -> Any:
        """`infer` of a list of inputs, which returns a list."""
        outputs = finished(getattr(self._model, self._infer)(batch))
        return [dumped(it) for it in outputs] if isinstance(outputs, (list, tuple)) else outputs

    def answers_of(self, requests: Any) -> Any:
        """The same for requests of the Open Inference Protocol: each answer in the form of its request."""
        read = {}

        def input_of(request: Any) -> Any:
            inputs, told = self.read(request)
            made = self._marked_of(inputs)
            read[id(request)] = told
            return made

        results = spread(self.outputs_of, requests, input_of)
        if len(results) != len(requests):
            return results
        return [
            it if isinstance(it, (Exception, Response)) else _answered(it, request, read[id(request)])
            for it, request in zip(results, requests)
        ]

    def read(self, request: Any) -> Any:
        """The inputs of a request: an object, or tensors of the Open Inference Protocol; and of these how they are answered."""
        body = request.json
        if not _oip.is_request(body):
            return _oip.checked(_object(body), self._declared), None
        inputs, is_batched = _oip.inputs(body, self._declared)
        return inputs, (is_batched, body.get("id"))

    def _marked_of(self, inputs: Any) -> Any:
        """The inputs as an object of the class that is marked."""
        if self._marked is None:
            return inputs
        try:
            return self._marked(**inputs)
        except ValueError as error:
            raise InvalidInput(" ".join(str(error).split())) from None


class Streaming(App):
    """A class whose `infer` sends its outputs one after another, as events."""

    def __init__(self, served: Any) -> None:
        super().__init__("inferless")
        self._served = served

    def respond(self, sample: Any, context: Any, output: Any) -> None:
        self._served.keep(self._served.read(Body(sample.body, sample.content_type))[0])
        sent = Sent(output)
        returned = self._served.outputs(sent)
        if hasattr(returned, "__next__"):
            for outputs in returned:
                sent.send_streamed_output(outputs)
        sent.end()


def _answered(outputs: Any, request: Any, told: Any) -> Any:
    """What a request of the Open Inference Protocol gets; one of inputs by their names, the outputs by theirs."""
    if told is None:
        return outputs
    is_batched, own = told
    model = request.path.split("/")[3]
    try:
        return Response(json=_oip.answer(model, "1", outputs, is_batched, own))
    except ValueError as error:
        text = f"no tensors can be made of the handler's response: {error}"
        print(text)
        return refusal(request.context, 500, "plugin_bad_output", text)


def _object(inputs: Any) -> Any:
    if not isinstance(inputs, dict):
        raise InvalidInput("the inputs are an object")
    return inputs


class Sent:
    """Inferless's `stream_output_handler`."""

    def __init__(self, output: Any) -> None:
        self._output, self._has_begun, self._is_over = output, False, False

    def send_streamed_output(self, outputs: Any) -> None:
        """Sends an event."""
        self._begin()
        self._output.write(bytes(Event(outputs)))

    def finalise_streamed_output(self) -> None:
        """Ends the stream, which the end of `infer` does as well."""
        self.end()

    def end(self) -> None:
        if not self._is_over:
            self._begin()
            self._is_over = True
            self._output.finish()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._output.begin(200, EVENTS, [])


def _globals(model: Any) -> Any:
    for function in vars(model).values():
        if inspect.isfunction(function):
            return function.__globals__
    return {}


def _of(module: Any, function: Any) -> Any:
    function.__module__ = module
    return function


def _input(name: str, said: Any) -> Any:
    """One input of `INPUT_SCHEMA`."""
    datatype: Any = {"STRING": "BYTES"}.get(said["datatype"], said["datatype"])
    shape, example = said.get("shape", [1]), said.get("example")
    if shape == [1] and isinstance(example, list) and len(example) == 1:
        example = example[0]
    required = said.get("required", True)
    if not required and not _fits(example, datatype):
        example = None
    return Input(name, datatype, shape, example, required)


def _fits(example: Any, datatype: Any) -> Any:
    """Whether integers of an example are in their datatype's range, which Inferless does not ask."""
    try:
        Tensor(example, datatype)
    except InvalidInput:
        return False
    return True


def _annotated(marked: Any) -> Any:
    """The inputs of an annotated class."""
    inputs, hints = [], typed.hints(marked)
    for name in typed.written(marked):
        wanted, default = hints[name], _default(marked, name)
        is_optional = get_origin(wanted) in (Union, UnionType) and NoneType in get_args(wanted)
        if is_optional:
            wanted = next(it for it in get_args(wanted) if it is not NoneType)
        is_list = (get_origin(wanted) or wanted) is list
        inner = str if wanted is list else wanted
        while get_args(inner):
            inner = get_args(inner)[0]
        datatype = _ANNOTATED.get(inner, "BYTES")
        example = default if default is not None else ([_EXAMPLES[datatype]] if is_list else _EXAMPLES[datatype])
        inputs.append(Input(name, datatype, [-1] if is_list else [1], example, not is_optional))
    return inputs


def _default(marked: Any, name: str) -> Any:
    field = getattr(marked, "__fields__", {}).get(name)
    return getattr(field, "default", None)
