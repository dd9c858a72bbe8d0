"""The iris handler as a Python server has it: the same answer as examples/iris-wasm, by ONNX Runtime's own package.

Place in the flow: every server of this folder calls `answer` for a request.
In:  the request's body as JSON, parsed; the model's path in the environment variable `PEER_MODEL`.
Out: what becomes the response's JSON.
"""

import os

import numpy
import onnxruntime

LABELS = ["iris-setosa", "iris-versicolor", "iris-virginica"]
FEATURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def session() -> onnxruntime.InferenceSession:
    """The model, on one thread: it takes microseconds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])


def answer(model: onnxruntime.InferenceSession, flower: dict) -> dict:
    """Pre-processing, a run, post-processing."""
    row = numpy.array([[flower[name] for name in FEATURES]], numpy.float32)
    label, probabilities = model.run(None, {model.get_inputs()[0].name: row})
    index = int(label[0])
    return {"class_label": LABELS[index], "class_index": index, "probabilities": probabilities[0].tolist()}
