"""Names an iris from four measurements.

In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.

The model takes `[rows, 4]` floats; its last output holds a probability for each class.
Imports run when the component is built; what reads files of the project belongs in `init`.
A raised `Err` is the contract's `error`: see types.wit below `wit`.
"""

import array
import json
import math

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")

labels = []


class Init(exports.Init):
    """Runs once, when the handler is loaded."""

    def init(self, metadata):
        """`metadata` is the endpoint's in modelhost.toml, as JSON."""
        settings = json.loads(metadata)
        if not isinstance(settings, dict) or not isinstance(settings.get("labels"), list):
            raise Err("`metadata` has no list `labels`")
        labels[:] = settings["labels"]


class PreInference(exports.PreInference):
    """From the request to the model's inputs."""

    def pre_inference(self, sample, context):
        try:
            flower = json.loads(str(sample.body, "utf-8"))
        except ValueError as error:  # JSON and UTF-8 errors are both ValueErrors.
            raise invalid(f"malformed json: {error}") from None
        if not isinstance(flower, dict):
            raise invalid("expected an object")
        features = array.array("f", (number(flower, name) for name in FEATURES))
        return [types.Tensor("input", types.Datatype.FP32, [1, len(FEATURES)], features.tobytes())]


class PostInference(exports.PostInference):
    """From the model's outputs to the response."""

    def post_inference(self, prediction, context):
        if not prediction or prediction[-1].datatype is not types.Datatype.FP32:
            raise internal("the model's last output is no fp32 tensor")
        probabilities = array.array("f", prediction[-1].data).tolist()
        if not 0 < len(probabilities) <= len(labels):
            raise internal(f"{len(probabilities)} probabilities for {len(labels)} labels")
        index = max(range(len(probabilities)), key=probabilities.__getitem__)
        answer = {
            "class_label": labels[index],
            "class_index": index,
            # JSON has neither NaN nor infinities.
            "probabilities": [p if math.isfinite(p) else None for p in probabilities],
        }
        return types.Response(200, "application/json", [], json.dumps(answer).encode())


def number(flower, name):
    """The finite number under `name`."""
    if name not in flower:
        raise invalid(f"missing field `{name}`")
    value = flower[name]
    # To Python `true` is an int, and an int may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise invalid(f"`{name}` is no finite number")
    return value


def invalid(text):
    """400 to the caller, who reads the text."""
    return Err(types.Error_InvalidInput(text))


def internal(text):
    """500; the text goes to the log."""
    return Err(types.Error_Internal(text))
