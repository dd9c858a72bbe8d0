"""Makes iris.onnx, the model that this example serves. Deterministic: the same bytes every time.

    pip install onnx
    python train.py            # writes iris.onnx beside this file and prints its SHA-256

The classifier is a multinomial logistic regression: probabilities = softmax(x @ W + b) over the four
measurements in centimetres. W and b were trained with scikit-learn on all 150 flowers of the iris data set,

    LogisticRegression(max_iter=1000).fit(*sklearn.datasets.load_iris(return_X_y=True))

which is an L2 penalty with C = 1 and the lbfgs solver; another version of it agrees to two or three digits.
They stand here as numbers, rounded to float32, so that making the file needs neither scikit-learn nor the data
and no solver can change the model.
"""

import hashlib
import pathlib
import struct

from onnx import TensorProto, checker, helper

# One row a measurement (sepal length, sepal width, petal length, petal width), one column a class.
W = [
    [-0.4232165813446045, 0.5343352556228638, -0.11111865192651749],
    [0.9669225215911865, -0.32159021496772766, -0.6453322768211365],
    [-2.5167324542999268, -0.20662058889865875, 2.723353147506714],
    [-1.0807734727859497, -0.9436482787132263, 2.0244216918945312],
]
B = [9.849278450012207, 2.2380523681640625, -12.08733081817627]


def floats(name, shape, values):
    """An initialiser with raw little-endian data."""
    return helper.make_tensor(name, TensorProto.FLOAT, shape, struct.pack(f"<{len(values)}f", *values), raw=True)


graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["input", "W"], ["mm"]),
        helper.make_node("Add", ["mm", "b"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ],
    "iris",
    inputs=[helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 4])],
    # The order is part of the example: the handler reads the probabilities from the last output.
    outputs=[
        helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 3]),
    ],
    initializer=[floats("W", [4, 3], [weight for row in W for weight in row]), floats("b", [3], B)],
)
# Old format versions on purpose: every runtime of the last years reads them.
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
checker.check_model(model, full_check=True)

data = model.SerializeToString(deterministic=True)
path = pathlib.Path(__file__).with_name("iris.onnx")
path.write_bytes(data)
print(f"{hashlib.sha256(data).hexdigest()}  {path.name}")
