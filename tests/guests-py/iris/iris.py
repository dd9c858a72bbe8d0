"""The iris handler in Python: what examples/iris-wasm does, on the same WIT world, to prove that the contract carries over.

Built by scripts/build-guests-py.sh with componentize-py to target/components/tests/iris_py.wasm.

In: `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`.
To the model: the tensor `input`, FP32 [1, 4].
From the model: its last output, FP32 [1, classes], the probability of each class.
Out: `{"class_label": …, "class_index": …, "probabilities": […]}`.

The labels come from the endpoint's metadata (`labels`), else from the project's file `labels.json`, else from LABELS.
This module is imported at build time and the interpreter is snapshotted: nothing here may touch the project before
the first call.
"""

import array
import json
import math
import pathlib

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
LABELS = ("iris-setosa", "iris-versicolor", "iris-virginica")
PROJECT_LABELS = pathlib.Path("/mnt/project/labels.json")


class PreInference(exports.PreInference):
    """From the request to the model's input."""

    def pre_inference(self, sample, context):
        flower = parse(sample.body)
        features = array.array("f", (number(flower, name) for name in FEATURES))
        return [types.Tensor("input", types.Datatype.FP32, [1, len(FEATURES)], features.tobytes())]


class PostInference(exports.PostInference):
    """From the model's outputs to the response."""

    def post_inference(self, prediction, context):
        if not prediction or prediction[-1].datatype is not types.Datatype.FP32:
            raise internal("the model's last output is no fp32 tensor")
        probabilities = array.array("f", prediction[-1].data).tolist()
        names = labels(context)
        if not 0 < len(probabilities) <= len(names):
            raise internal(f"{len(probabilities)} probabilities for {len(names)} labels")
        index = max(range(len(probabilities)), key=probabilities.__getitem__)
        answer = {
            "class_label": names[index],
            "class_index": index,
            # JSON has neither NaN nor infinities.
            "probabilities": [p if math.isfinite(p) else None for p in probabilities],
        }
        return types.Response(200, "application/json", [], json.dumps(answer).encode())


def parse(body):
    """The request's JSON object."""
    try:
        flower = json.loads(str(body, "utf-8"))
    except ValueError as error:  # JSON and UTF-8 errors are both ValueErrors.
        raise invalid(f"malformed json: {error}") from None
    if not isinstance(flower, dict):
        raise invalid(f"invalid type: {kind(flower)}, expected an object")
    return flower


def number(flower, name):
    """The finite number under `name`."""
    if name not in flower:
        raise invalid(f"missing field `{name}`")
    value = flower[name]
    # To Python, `true` is an int.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid(f"`{name}`: invalid type: {kind(value)}, expected f32")
    # An int may be too large for a float, and `1e999` and, to Python's parser, `NaN` are no finite floats.
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise invalid(f"`{name}`: number out of range")
    return value


def kind(value):
    """How JSON calls what Python parsed, with the value if it is short."""
    names = {dict: "map", list: "sequence", str: "string", bool: "boolean", type(None): "null"}
    name = names.get(type(value), "number")
    return name if isinstance(value, (dict, list)) or value is None else f"{name} {json.dumps(value)[:40]}"


def labels(context):
    """The class names, most specific source first."""
    metadata = json.loads(context.metadata())
    if isinstance(metadata, dict) and "labels" in metadata:
        return metadata["labels"]
    try:
        return json.loads(PROJECT_LABELS.read_text())
    except FileNotFoundError:
        return LABELS
    except (OSError, ValueError) as error:
        raise internal(f"{PROJECT_LABELS.name}: {error}") from None


def invalid(text):
    """400 to the caller, who reads the text."""
    return Err(types.Error_InvalidInput(text))


def internal(text):
    """500; the text goes to the log."""
    return Err(types.Error_Internal(text))
