#!/usr/bin/env python3
"""Writes the ONNX models that the tests load.

Place in the flow: run by hand (`python3 tests/models/make.py`) after a change here; the `.onnx` files beside
this script are committed, so tests need no Python.
In: nothing. Out: one file per model, byte for byte the same on every run.

The models are small enough to be encoded by hand: `field` below is the whole of protobuf that `onnx.proto`
needs, so that the script runs on any Python 3 without packages.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).parent

# TensorProto.DataType
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(1, 10)
FLOAT16, DOUBLE, UINT32, UINT64 = range(10, 14)
BFLOAT16 = 16

IDENTITIES = {
    "bool": BOOL, "uint8": UINT8, "uint16": UINT16, "uint32": UINT32, "uint64": UINT64, "int8": INT8,
    "int16": INT16, "int32": INT32, "int64": INT64, "fp16": FLOAT16, "bf16": BFLOAT16, "fp32": FLOAT,
    "fp64": DOUBLE, "bytes": STRING,
}

# softmax(x @ W + b), trained on Fisher's iris data.
IRIS_W = [
    -0.4232165813446045, 0.5343352556228638, -0.11111865192651749,
    0.9669225215911865, -0.32159021496772766, -0.6453322768211365,
    -2.5167324542999268, -0.20662058889865875, 2.723353147506714,
    -1.0807734727859497, -0.9436482787132263, 2.0244216918945312,
]
IRIS_B = [9.849278450012207, 2.2380523681640625, -12.08733081817627]


def varint(value):
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(number, value):
    """One protobuf field: an int as a varint, text and nested messages with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, element, shape):
    """`shape`: a list of extents, text for a symbolic one; None for a tensor of unknown rank."""
    tensor = field(1, element)
    if shape is not None:
        dims = [field(1, field(2, e) if isinstance(e, str) else field(1, e)) for e in shape]
        tensor += field(2, b"".join(dims))
    return field(1, name) + field(2, field(1, tensor))


def sequence_info(name, element):
    return field(1, name) + field(2, field(4, field(1, field(1, field(1, element)))))


def attribute(name, value):
    return field(1, name) + field(3, value) + field(20, 2)


def node(op, inputs, outputs, *attributes):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op)
            + b"".join(field(5, a) for a in attributes))


def initializer(name, element, dims, data):
    # `dims` is repeated, not packed, in the files these are compared with.
    return b"".join(field(1, d) for d in dims) + field(2, element) + field(8, name) + field(9, data)


def write(file, name, nodes, inputs, outputs, initializers=()):
    graph = (b"".join(field(1, n) for n in nodes) + field(2, name)
             + b"".join(field(5, i) for i in initializers)
             + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))
    opset = field(1, "") + field(2, 13)
    (HERE / f"{file}.onnx").write_bytes(field(1, 8) + field(7, graph) + field(8, opset))


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def iris(file, rows, label):
    nodes = [
        node("MatMul", ["input", "W"], ["mm"]),
        node("Add", ["mm", "b"], ["logits"]),
        node("Softmax", ["logits"], ["probabilities"], attribute("axis", 1)),
    ]
    outputs = [value_info("probabilities", FLOAT, [rows, 3])]
    if label:
        nodes.append(node("ArgMax", ["logits"], ["label"], attribute("axis", 1), attribute("keepdims", 0)))
        outputs.insert(0, value_info("label", INT64, [rows]))
    weights = [initializer("W", FLOAT, [4, 3], floats(IRIS_W)), initializer("b", FLOAT, [3], floats(IRIS_B))]
    write(file, "iris", nodes, [value_info("input", FLOAT, [rows, 4])], outputs, weights)


def main():
    iris("iris_static", 1, label=False)
    iris("iris_dyn", "N", label=True)
    write("add", "add", [node("Add", ["a", "b"], ["sum"])],
          [value_info("a", FLOAT, [2]), value_info("b", FLOAT, [2])], [value_info("sum", FLOAT, [2])])
    write("strid", "sid", [node("Identity", ["s"], ["o"])],
          [value_info("s", STRING, [1])], [value_info("o", STRING, [1])])

    # One per datatype: what goes in must come out, bit for bit.
    for name, element in IDENTITIES.items():
        write(f"identity_{name}", "identity", [node("Identity", ["x"], ["y"])],
              [value_info("x", element, ["N"])], [value_info("y", element, ["N"])])
    write("scalar", "scalar", [node("Identity", ["x"], ["y"])],
          [value_info("x", FLOAT, [])], [value_info("y", FLOAT, [])])
    write("unknown_rank", "unknown_rank", [node("Identity", ["x"], ["y"])],
          [value_info("x", FLOAT, None)], [value_info("y", FLOAT, None)])

    # Fails at run time for an index beyond 2.
    write("gather", "gather", [node("Gather", ["table", "index"], ["y"])],
          [value_info("index", INT64, ["N"])], [value_info("y", FLOAT, ["N"])],
          [initializer("table", FLOAT, [3], floats([1, 2, 3]))])
    # Returns something that is no tensor, as scikit-learn's ZipMap does.
    write("sequence", "sequence", [node("SequenceConstruct", ["x"], ["list"])],
          [value_info("x", FLOAT, ["N"])], [sequence_info("list", FLOAT)])
    # Takes some milliseconds: eight products of 320 x 320 matrices, which depend on the input and so cannot
    # be folded into constants.
    side, steps = 320, 8
    nodes = [node("Expand", ["x", "shape"], ["m0"])]
    nodes += [node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(steps)]
    nodes += [node("ReduceMax", [f"m{steps}"], ["y"], attribute("keepdims", 0))]
    write("slow", "slow", nodes, [value_info("x", FLOAT, [1])], [value_info("y", FLOAT, [])],
          [initializer("shape", INT64, [2], struct.pack("<2q", side, side))])


if __name__ == "__main__":
    main()
