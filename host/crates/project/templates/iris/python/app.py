"""Names an iris from four measurements.

In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.

The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.
Imports run when the component is built; what reads files of the project belongs in `init`.
"""

from modelhost_guest import Tensor, init, post_inference, pre_inference

FEATURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")

labels = []


@init
def load(metadata):
    """Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml."""
    labels[:] = metadata["labels"]


@pre_inference
def prepare(sample):
    """From the request to the model's input."""
    return Tensor([sample.numbers(*FEATURES)], "FP32")


@post_inference
def answer(outputs):
    """From the model's outputs to the response."""
    probabilities = outputs["probabilities"][0]
    best = probabilities.argmax()
    return {"class_label": labels[best], "class_index": best, "probabilities": probabilities}
