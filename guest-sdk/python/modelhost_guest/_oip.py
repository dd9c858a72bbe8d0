"""The JSON of the Open Inference Protocol, for an application that its clients call at the protocol's own paths.

The rules and the words are the host's, which does the same for a handler that is none.
"""

from __future__ import annotations

import math
from typing import Any

from ._tensor import Tensor
from .errors import InvalidInput
from .messages import to_json


def is_request(body: Any) -> Any:
    """Whether a body has tensors as its `inputs`, and not a value of that name."""
    tensors = body.get("inputs") if isinstance(body, dict) else None
    return isinstance(tensors, list) and all(isinstance(it, dict) and isinstance(it.get("data"), list) for it in tensors)


def inputs(body: Any, declared: Any) -> Any:
    """What the tensors of a request say, by their names, and whether they have the axis of a batch in front, of one row.

    `declared` are the inputs that there are; without them nothing is held against anything.
    """
    given, problems, is_batched = {}, [], False
    for tensor in body["inputs"]:
        name = tensor.get("name")
        if not isinstance(name, str) or name in given:
            problems.append("missing field `name`" if not isinstance(name, str) else f"input `{name}`: given twice")
            continue
        try:
            given[name], has_axis = _input(tensor, next((it for it in declared if it.name == name), None), bool(declared))
            is_batched |= has_axis
        except InvalidInput as error:
            given[name] = None
            problems.append(f"input `{name}`: {error}")
    checked(given, declared, problems)
    return given, is_batched


def checked(given: Any, declared: Any, problems: Any = ()) -> Any:
    """The inputs, if all that are required are among them."""
    missing = [f"input `{it.name}`: missing, expected {_shown(it)}" for it in declared if it.required and it.name not in given]
    if problems or missing:
        raise InvalidInput("; ".join([*problems, *missing]), asked=given)
    return given


def _input(tensor: Any, declared: Any, is_declared: Any) -> Any:
    """The value of a tensor, a bare one where the shape is `[1]`, and whether it has the axis of a batch."""
    datatype = {"STRING": "BYTES"}.get(tensor.get("datatype"), tensor.get("datatype"))
    shape, data = tensor.get("shape"), tensor["data"]
    if declared is None:
        if is_declared:
            raise InvalidInput("unknown")
        return (data[0] if len(data) == 1 else data), False
    flat = _flat(data)
    shape = [len(flat)] if shape is None else shape
    if not isinstance(shape, list) or not all(type(it) is int and it >= 0 for it in shape):
        raise InvalidInput("the shape is no list of extents")
    has_axis = len(shape) == len(declared.shape) + 1 and shape[0] == 1
    own = shape[1:] if has_axis else shape
    fits = len(own) == len(declared.shape) and all(extent in (-1, it) for extent, it in zip(declared.shape, own))
    if not fits or datatype not in (None, declared.datatype):
        raise InvalidInput(f"expected {_shown(declared)}, got {datatype or declared.datatype} {shape}")
    if math.prod(own) != len(flat):
        raise InvalidInput(f"{len(flat)} elements do not fit {shape}")
    read = Tensor(flat, declared.datatype, own).tolist() if flat else []
    return (read[0] if declared.shape == (1,) else read), has_axis


def answer(model: Any, version: Any, outputs: Any, is_batched: Any, name: str | None = None) -> Any:
    """The answer to a request: outputs typed by their values, and each with the axis of a batch in front if the inputs had it."""
    outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
    front = [1] if is_batched else []
    tensors = []
    for key, value in outputs.items():
        if value is not None:
            datatype, shape, data = _output(key, value)
            tensors.append({"name": str(key), "datatype": datatype, "shape": front + shape, "data": data})
    return {"model_name": model, "model_version": version, **({} if name is None else {"id": name}), "outputs": tensors}


def _output(name: str, value: Any) -> Any:
    """Datatype, shape and elements of a value: an object, or a list with one or None in it, is a text of JSON."""
    if isinstance(value, Tensor):
        return value.datatype, list(value.shape) or [1], _flat(value.tolist()) if value.shape else [value.tolist()]
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    value = list(value) if isinstance(value, (tuple, set, frozenset)) else value
    if not isinstance(value, list):
        return (_datatype(name, [value]), [1], [value]) if _is_bare(value) else ("BYTES", [1], [to_json(value).decode()])
    flat = _flat(value)
    if not all(map(_is_bare, flat)):
        return "BYTES", [1], [to_json(value).decode()]
    shape: list[int] = []
    level: Any = value
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        level = level[0] if level else None
    if not _is_regular(value, shape):
        raise ValueError(f"output `{name}`: rows are not of one length")
    return _datatype(name, flat), shape, flat


def _is_regular(value: Any, shape: Any) -> Any:
    """Whether lists in lists have the extents of the first of each."""
    if not shape:
        return not isinstance(value, (list, tuple))
    return isinstance(value, (list, tuple)) and len(value) == shape[0] and all(_is_regular(it, shape[1:]) for it in value)


def _datatype(name: str, values: Any) -> Any:
    kinds = set(map(type, values))
    if not kinds:
        raise ValueError(f"output `{name}`: an empty list has no datatype")
    if kinds in ({bool}, {str}):
        return "BOOL" if kinds == {bool} else "BYTES"
    if kinds == {int}:
        return "INT64" if all(-(2**63) <= it < 2**63 for it in values) else "UINT64"
    if kinds <= {int, float}:
        return "FP64"
    raise ValueError(f"output `{name}`: its values are of several kinds: {', '.join(sorted(it.__name__ for it in kinds))}")


def _is_bare(value: Any) -> Any:
    return isinstance(value, (bool, int, float, str))


def _flat(values: Any) -> Any:
    """The elements of lists in lists, in a row."""
    flat = []
    for value in values:
        if isinstance(value, (list, tuple)):
            flat += _flat(value)
        else:
            flat.append(value)
    return flat


def _shown(declared: Any) -> Any:
    return f"{declared.datatype} [{', '.join(map(str, declared.shape))}]"
