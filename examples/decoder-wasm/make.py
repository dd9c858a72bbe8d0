"""Makes decoder.onnx, the model that this example serves. Deterministic: the same bytes every time.

    pip install onnx numpy
    python make.py                                      # writes decoder.onnx beside this file
    python make.py large.onnx --layers 6 --hidden 384   # another one, for a measurement

A decoder like GPT-2 with fixed random weights, so its text means nothing. It has 96 tokens: the line feed, then the
printable characters of ASCII in their order.

    tokens     INT64 [batch, new]                       what is appended
    positions  INT64 [batch, new]                       where: 0, 1, … from the beginning of the text
    past.L.K   FP32 [batch, heads, past, hidden/heads]  keys (K = key) and values of layer L for what came before
    logits     FP32 [batch, 96]                         of what follows the last of `tokens`
    present.L.K                                         `past.L.K` with those of `tokens` appended
"""

import argparse
import dataclasses
import hashlib
import pathlib

import numpy as np

SEED = 20260731
VOCABULARY = 96
CONTEXT = 256
EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int = 2
    hidden: int = 32
    heads: int = 4

    @property
    def head(self):
        return self.hidden // self.heads


def weights(sizes):
    """All weights by name, FP32. The stream of `RandomState` is frozen: any NumPy makes the same numbers."""
    random = np.random.RandomState(SEED)

    def normal(deviation, *shape):
        return (random.standard_normal(shape) * deviation).astype(np.float32)

    width = sizes.hidden
    found = {"embedding": normal(1, VOCABULARY, width), "place": normal(1, CONTEXT, width)}
    for layer in range(sizes.layers):
        # Attention looks closely: so the text depends on all that was before.
        found[f"{layer}.query"] = normal(2 * width**-0.5, width, width)
        found[f"{layer}.key"] = normal(2 * width**-0.5, width, width)
        found[f"{layer}.value"] = normal(2 * width**-0.5, width, width)
        found[f"{layer}.out"] = normal(width**-0.5, width, width)
        found[f"{layer}.up"] = normal(width**-0.5, width, 4 * width)
        found[f"{layer}.down"] = normal((4 * width) ** -0.5, 4 * width, width)
    found["head"] = normal(width**-0.5, width, VOCABULARY)
    return found


def model(sizes):
    """The ONNX model."""
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes, constants = [], weights(sizes)
    cache = ["batch", sizes.heads, "past", sizes.head]
    inputs = [("tokens", TensorProto.INT64, ["batch", "new"]), ("positions", TensorProto.INT64, ["batch", "new"])]
    outputs = [("logits", TensorProto.FLOAT, ["batch", VOCABULARY])]

    def node(operator, *names, output="", **attributes):
        output = output or f"{operator}_{len(nodes)}"
        nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def constant(name, value):
        constants[name] = np.asarray(value)
        return name

    def normalised(name):
        return node("LayerNormalization", name, ones, epsilon=EPSILON)

    def split(name, weight):
        """Rows of `hidden` as [batch, heads, new, head]."""
        rows = node("Reshape", node("MatMul", name, weight), by_head)
        return node("Transpose", rows, perm=[0, 2, 1, 3])

    ones = constant("ones", np.ones(sizes.hidden, np.float32))
    by_head = constant("by_head", np.array([0, 0, sizes.heads, sizes.head], np.int64))
    joined = constant("joined", np.array([0, 0, sizes.hidden], np.int64))
    scale = constant("scale", np.float32(sizes.head**-0.5))
    never = constant("never", np.float32(-1e9))
    zero, one, last = (constant(name, np.int64(value)) for name, value in [("zero", 0), ("one", 1), ("last", -1)])
    middle = constant("middle", np.array([1, 3], np.int64))

    # What lies after a token is hidden from it: [batch, 1, new, past + new].
    past = node("Gather", node("Shape", "past.0.key"), constant("axis", np.int64(2)))
    new = node("Gather", node("Shape", "tokens"), one)
    places = node("Range", zero, node("Add", past, new), one)
    visible = node("LessOrEqual", places, node("Unsqueeze", "positions", middle))

    state = node("Add", node("Gather", "embedding", "tokens"), node("Gather", "place", "positions"))
    for layer in range(sizes.layers):
        seen = normalised(state)
        kept = {}
        for kind in ["key", "value"]:
            before, after = f"past.{layer}.{kind}", f"present.{layer}.{kind}"
            inputs.append((before, TensorProto.FLOAT, cache))
            outputs.append((after, TensorProto.FLOAT, [*cache[:2], "total", cache[3]]))
            kept[kind] = node("Concat", before, split(seen, f"{layer}.{kind}"), output=after, axis=2)
        turned = node("Transpose", kept["key"], perm=[0, 1, 3, 2])
        scores = node("Mul", node("MatMul", split(seen, f"{layer}.query"), turned), scale)
        shares = node("Softmax", node("Where", visible, scores, never), axis=-1)
        mixed = node("Transpose", node("MatMul", shares, kept["value"]), perm=[0, 2, 1, 3])
        state = node("Add", state, node("MatMul", node("Reshape", mixed, joined), f"{layer}.out"))
        inner = node("Relu", node("MatMul", normalised(state), f"{layer}.up"))
        state = node("Add", state, node("MatMul", inner, f"{layer}.down"))
    end = node("Gather", normalised(state), last, axis=1)
    node("MatMul", end, "head", output="logits")

    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(made, full_check=True)
    return made.SerializeToString(deterministic=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).with_name("decoder.onnx"))
    for field in dataclasses.fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    options = vars(parser.parse_args())
    file = options.pop("file")
    data = model(Sizes(**options))
    file.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {file.name}")


if __name__ == "__main__":
    main()
