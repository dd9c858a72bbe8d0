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

# The operators of classical models.
ML = "ai.onnx.ml"

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


def map_info(name, key, value):
    """A sequence of maps."""
    tensor = field(1, field(1, value))
    return field(1, name) + field(2, field(4, field(1, field(5, field(1, key) + field(2, tensor)))))


def attribute(name, value):
    """An int, or a list of ints or texts."""
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    texts = isinstance(value[0], str)
    return field(1, name) + b"".join(field(9 if texts else 8, v) for v in value) + field(20, 8 if texts else 7)


def node(op, inputs, outputs, *attributes, domain=""):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op)
            + b"".join(field(5, a) for a in attributes) + (field(7, domain) if domain else b""))


def initializer(name, element, dims, data):
    # `dims` is repeated, not packed, in the files these are compared with.
    return b"".join(field(1, d) for d in dims) + field(2, element) + field(8, name) + field(9, data)


def external(name, element, dims, location):
    entry = field(1, "location") + field(2, location)
    return (b"".join(field(1, d) for d in dims) + field(2, element) + field(8, name) + field(13, entry)
            + field(14, 1))


def write(file, name, nodes, inputs, outputs, initializers=()):
    graph = (b"".join(field(1, n) for n in nodes) + field(2, name)
             + b"".join(field(5, i) for i in initializers)
             + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))
    opset = field(8, field(1, "") + field(2, 13))
    if any(ML.encode() in n for n in nodes):
        opset += field(8, field(1, ML) + field(2, 1))
    (HERE / f"{file}.onnx").write_bytes(field(1, 8) + field(7, graph) + opset)


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


def work(x, y, side, steps):
    """Products of matrices with `side` rows, filled with the one value of `x`: they depend on an input, so they cannot be
    folded into constants. The largest element of the last is `y`."""
    nodes = [node("Expand", [x, f"{y}.shape"], [f"{y}0"])]
    nodes += [node("MatMul", [f"{y}{i}", f"{y}0"], [f"{y}{i + 1}"]) for i in range(steps)]
    nodes += [node("ReduceMax", [f"{y}{steps}"], [y], attribute("keepdims", 0))]
    return nodes, initializer(f"{y}.shape", INT64, [2], struct.pack("<2q", side, side))


def batches():
    """Models with a free first extent, for batching."""
    rows, floats_in = [value_info("rows", INT64, ["N"])], [value_info("x", FLOAT, ["N"])]
    # Says to each row how many rows its run had.
    write("batch_size", "batch_size",
          [node("Shape", ["x"], ["shape"]), node("Expand", ["shape", "shape"], ["rows"])], floats_in, rows)
    # The same for one row and for two, but of three it returns two.
    one = initializer("one", INT64, [1], struct.pack("<q", 1))
    nodes = [node("Shape", ["x"], ["shape"]), node("Equal", ["shape", "three"], ["is_three"]),
             node("Cast", ["is_three"], ["less"], attribute("to", INT64)),
             node("Sub", ["shape", "less"], ["left"]), node("Expand", ["left", "left"], ["rows"])]
    write("drops_a_row", "drops_a_row", nodes, floats_in, rows,
          [initializer("three", INT64, [1], struct.pack("<q", 3))])
    # One output is not by row.
    write("sum", "sum", [node("ReduceSum", ["x"], ["total"], attribute("keepdims", 0))], floats_in,
          [value_info("total", FLOAT, [])])
    # By name it is by row, but it never has more than one.
    write("first_row", "first_row", [node("Slice", ["x", "zero", "one"], ["y"])], floats_in,
          [value_info("y", FLOAT, ["N"])], [initializer("zero", INT64, [1], struct.pack("<q", 0)), one])
    # By row, but each row is the sum of all before it.
    write("running_sum", "running_sum", [node("CumSum", ["x", "axis"], ["y"])], floats_in,
          [value_info("y", FLOAT, ["N"])], [initializer("axis", INT64, [1], struct.pack("<q", 0))])
    # Each row by itself, in about a millisecond: y = 2 * x, picked = table[index], which fails beyond 2, and text.
    nodes, shape = work("none", "zero", 192, 6)
    nodes = [node("ReduceMax", ["x"], ["most"], attribute("keepdims", 0)), node("Sub", ["most", "most"], ["none"]),
             *nodes, node("Add", ["x", "x"], ["twice"]), node("Add", ["twice", "zero"], ["y"]),
             node("Gather", ["table", "index"], ["picked"]), node("Identity", ["text"], ["same"])]
    write("rows", "rows", nodes,
          [value_info("x", FLOAT, ["N", "K"]), value_info("index", INT64, ["N"]), value_info("text", STRING, ["N"])],
          [value_info("y", FLOAT, ["N", "K"]), value_info("picked", FLOAT, ["N"]), value_info("same", STRING, ["N"])],
          [shape, initializer("table", FLOAT, [3], floats([1, 2, 3]))])


def lists():
    """Models with something that is no tensor."""
    x = [value_info("x", FLOAT, ["N"])]
    # A list of two tensors: the input, and its first element alone.
    zero = initializer("zero", INT64, [1], struct.pack("<q", 0))
    write("sequence", "sequence", [node("Gather", ["x", "zero"], ["first"]),
                                   node("SequenceConstruct", ["x", "first"], ["list"])],
          x, [sequence_info("list", FLOAT)], [zero])
    write("takes_a_list", "takes_a_list", [node("SequenceLength", ["list"], ["length"])],
          [sequence_info("list", FLOAT)], [value_info("length", INT64, [])])
    # As scikit-learn's classifiers are exported: a label, and maps from label to probability.
    weights = [initializer("W", FLOAT, [4, 3], floats(IRIS_W)), initializer("b", FLOAT, [3], floats(IRIS_B))]
    for file, key, labels in [("zipmap", INT64, attribute("classlabels_int64s", [0, 1, 2])),
                              ("zipmap_text", STRING, attribute("classlabels_strings", ["setosa", "versicolor", "virginica"]))]:
        nodes = [
            node("MatMul", ["float_input", "W"], ["mm"]),
            node("Add", ["mm", "b"], ["logits"]),
            node("Softmax", ["logits"], ["probabilities"], attribute("axis", 1)),
            node("ArgMax", ["logits"], ["output_label"], attribute("axis", 1), attribute("keepdims", 0)),
            node("ZipMap", ["probabilities"], ["output_probability"], labels, domain=ML),
        ]
        write(file, file, nodes, [value_info("float_input", FLOAT, ["N", 4])],
              [value_info("output_label", INT64, ["N"]), map_info("output_probability", key, FLOAT)], weights)


def main():
    iris("iris_static", 1, label=False)
    iris("iris_dyn", "N", label=True)
    write("add", "add", [node("Add", ["a", "b"], ["sum"])],
          [value_info("a", FLOAT, [2]), value_info("b", FLOAT, [2])], [value_info("sum", FLOAT, [2])])
    write("strid", "sid", [node("Identity", ["s"], ["o"])],
          [value_info("s", STRING, [1])], [value_info("o", STRING, [1])])

    # Of a sequence: half of the state and what comes; how many there were.
    write("accumulator", "accumulator",
          [node("Mul", ["state_in", "half"], ["halved"]), node("Add", ["halved", "x"], ["state_out"]),
           node("Identity", ["state_out"], ["y"]), node("Add", ["count_in", "one"], ["count_out"]),
           node("Identity", ["count_out"], ["n"])],
          [value_info("x", FLOAT, ["N", 2]), value_info("state_in", FLOAT, ["N", 2]), value_info("count_in", INT64, [1])],
          [value_info("y", FLOAT, ["N", 2]), value_info("n", INT64, [1]), value_info("state_out", FLOAT, ["N", 2]),
           value_info("count_out", INT64, [1])],
          [initializer("half", FLOAT, [1], floats([0.5])), initializer("one", INT64, [1], struct.pack("<q", 1))])

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
    # Lengths that are not the same fail the run.
    write("broadcast", "broadcast", [node("Add", ["a", "b"], ["y"])],
          [value_info("a", FLOAT, ["N"]), value_info("b", FLOAT, ["M"])], [value_info("y", FLOAT, ["K"])])
    # The same, of extents that have one name.
    write("add_rows", "add_rows", [node("Add", ["a", "b"], ["y"])],
          [value_info("a", FLOAT, ["N"]), value_info("b", FLOAT, ["N"])], [value_info("y", FLOAT, ["N"])])
    # Two inputs have defaults, and one of them comes before the input that has to be given: y = x * scale + offset.
    write("defaults", "defaults", [node("Mul", ["x", "scale"], ["scaled"]), node("Add", ["scaled", "offset"], ["y"])],
          [value_info("scale", FLOAT, [1]), value_info("x", FLOAT, ["N", 2]), value_info("offset", FLOAT, [2])],
          [value_info("y", FLOAT, ["N", 2])],
          [initializer("scale", FLOAT, [1], floats([2])), initializer("offset", FLOAT, [2], floats([0, 10]))])
    # 16 MiB of weights, in the file `weights.bin` beside it.
    write("weights", "weights", [node("MatMul", ["x", "W"], ["y"])], [value_info("x", FLOAT, ["N", 2048])],
          [value_info("y", FLOAT, ["N", 2048])], [external("W", FLOAT, [2048, 2048], "weights.bin")])
    lists()
    # The first output is the input itself: no operator makes it.
    write("passes_through", "passes_through", [node("Neg", ["x"], ["y"])], [value_info("x", FLOAT, ["N"])],
          [value_info("x", FLOAT, ["N"]), value_info("y", FLOAT, ["N"])])
    # The output is a constant of the model, whatever goes in.
    write("constant", "constant", [node("Neg", ["x"], ["unused"])], [value_info("x", FLOAT, ["N"])],
          [value_info("c", FLOAT, [1000]), value_info("unused", FLOAT, ["N"])],
          [initializer("c", FLOAT, [1000], floats(range(1000)))])
    # Takes some milliseconds.
    nodes, shape = work("x", "y", 320, 8)
    write("slow", "slow", nodes, [value_info("x", FLOAT, [1])], [value_info("y", FLOAT, [])], [shape])
    # Takes about two seconds.
    nodes, shape = work("x", "y", 2048, 12)
    write("seconds", "seconds", nodes, [value_info("x", FLOAT, [1])], [value_info("y", FLOAT, [])], [shape])
    batches()


if __name__ == "__main__":
    main()
