#!/usr/bin/env python3
"""Makes the cases that the tests compute, with NumPy's results (`pip install numpy`), in `cases.json`.

Out: for each case an operation, its tensors and values, and what comes of them. A tensor is `[datatype, shape, values]`.
"""

import json
import pathlib

import numpy

OUT = pathlib.Path(__file__).parent / "cases.json"
NAMES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip


def tensor(array):
    return [NAMES[array.dtype.name], list(array.shape), array.ravel().tolist()]


def softmax(values, axis):
    values = values.astype("float64")
    shares = numpy.exp(values - values.max(axis, keepdims=True))
    return (shares / shares.sum(axis, keepdims=True)).astype("float32")


def normalise(values, axis):
    values = values.astype("float64")
    lengths = numpy.sqrt((values**2).sum(axis, keepdims=True))
    return (values / numpy.maximum(lengths, 1e-12)).astype("float32")


def mean_pool(values, mask):
    counted = (mask != 0)[:, :, None].astype("float64")
    return ((values.astype("float64") * counted).sum(1) / numpy.maximum(counted.sum(1), 1)).astype("float32")


def suppress(boxes, scores, classes, most_overlap, least_score, most):
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order, kept = [at for at in numpy.argsort(-scores, kind="stable") if scores[at] >= least_score], []
    while order and (most == 0 or len(kept) < most):
        best = order.pop(0)
        kept.append(best)

        def stays(at, best=best):
            width, height = numpy.maximum(
                numpy.minimum(boxes[best, 2:], boxes[at, 2:]) - numpy.maximum(boxes[best, :2], boxes[at, :2]), 0
            )
            overlap = width * height / (areas[best] + areas[at] - width * height)
            return overlap <= most_overlap or classes is not None and classes[at] != classes[best]

        order = [at for at in order if stays(at)]
    return numpy.array(kept, "int64")


def cases(dice):
    def of(datatype, *shape):
        if datatype.startswith("float"):
            return (dice.standard_normal(shape) * 3).astype(datatype)
        return dice.integers(0, 2 if datatype == "bool" else 100, shape).astype(datatype)

    for datatype in NAMES:
        values = of(datatype, 2, 5, 3)
        for axis in (0, 1, -1):
            yield "argmax", [values], [axis], [values.argmax(axis)]
            count = min(2, values.shape[axis])
            order = numpy.take(numpy.argsort(-values.astype("float64"), axis, kind="stable"), range(count), axis)
            yield "top_k", [values], [count, axis], [numpy.take_along_axis(values, order, axis), order]
            other = of(datatype, *(4 if at == axis % 3 else extent for at, extent in enumerate(values.shape)))
            yield "concat", [values, other, values], [axis], [numpy.concatenate([values, other, values], axis)]
            places = numpy.array([[-1, 0], [1, 1]], "int64")
            yield "gather", [values, places], [axis], [numpy.take(values, places, axis)]
    large = numpy.array([2**53, 2**53 + 1, 2**53], "int64")
    yield "argmax", [large], [0], [numpy.array(1, "int64")]
    for datatype in ("float16", "float32", "float64"):
        values = of(datatype, 2, 5, 3)
        for axis in (0, 1, 2, -3):
            yield "softmax", [values], [axis], [softmax(values, axis)]
            yield "normalise", [values], [axis], [normalise(values, axis)]
        for mask in ("int64", "bool", "float32"):
            given = numpy.array([[1, 1, 0, 0, 0], [0, 1, 0, 1, 1]], mask)
            yield "mean_pool", [values, given], [], [mean_pool(values, given)]
    zeros = numpy.zeros((2, 3), "float32")
    yield "normalise", [zeros], [1], [zeros]
    yield "mean_pool", [numpy.ones((1, 2, 3), "float32"), numpy.zeros((1, 2), "int64")], [], [numpy.zeros((1, 3), "float32")]
    yield "softmax", [numpy.array([1000, 1001, -1000], "float32")], [0], [softmax(numpy.array([1000.0, 1001, -1000]), 0)]
    corners = dice.uniform(0, 60, (60, 2)).astype("float32")
    boxes = numpy.concatenate([corners, corners + dice.uniform(5, 40, (60, 2)).astype("float32")], 1)
    scores, classes = dice.permutation(60).astype("float32") / 60, dice.integers(0, 3, 60)
    for limits in ((0.5, 0.0, 0), (0.3, 0.2, 0), (0.5, 0.0, 5), (0.1, 0.9, 0), (1.0, 0.0, 0), (0.5, 2.0, 0)):
        yield "suppress", [boxes, scores], list(limits), [suppress(boxes, scores, None, *limits)]
        yield "suppress", [boxes, scores, classes], list(limits), [suppress(boxes, scores, classes, *limits)]


def main():
    lines = []
    for operation, tensors, values, expected in cases(numpy.random.default_rng(7)):
        case = {
            "operation": operation, "tensors": [tensor(it) for it in tensors], "values": values,
            "expected": [tensor(numpy.asarray(it)) for it in expected],
        }  # fmt: skip
        lines.append(json.dumps(case, separators=(",", ":")))
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
