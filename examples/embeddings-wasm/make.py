"""Makes model.onnx, the graph of the sentence model that this example serves. Deterministic: the same bytes every time.

    pip install onnx numpy
    python make.py model.safetensors      # writes model.onnx beside this file

The weights stay where they are: each constant of the graph names its place in `model.safetensors`, which has to lie beside
`model.onnx` where it is served. The model is BERT with six layers of 384, sentence-transformers/all-MiniLM-L6-v2, whose
vectors are the mean over a text's tokens, of length 1.

    input_ids           INT64 [texts, tokens]
    attention_mask      INT64 [texts, tokens]     1 for a token of the text, 0 for one that only fills up
    sentence_embedding  FP32 [texts, 384]
"""

import argparse
import hashlib
import json
import pathlib
import struct

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LAYERS, HIDDEN, HEADS, EPSILON = 6, 384, 12, 1e-12


def weights(file):
    """Every tensor of a safetensors file: its shape, where its bytes begin, and how many they are."""
    with open(file, "rb") as opened:
        [length] = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        yield name, (tensor["dtype"], tensor["shape"], 8 + length + begin, end - begin)


def model(file):
    """The ONNX model."""
    places = dict(weights(file))
    nodes, constants = [], {}

    def node(operator, *names, output="", **attributes):
        output = output or f"{operator}_{len(nodes)}"
        nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def constant(name, value):
        constants.setdefault(name, numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(name):
        datatype, shape, offset, length = places[name]
        assert datatype == "F32", (name, datatype)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in [("location", "model.safetensors"), ("offset", offset), ("length", length)]:
            tensor.external_data.add(key=key, value=str(value))
        constants.setdefault(name, tensor)
        return name

    def dense(name, rows):
        return node("Gemm", rows, weight(f"{name}.weight"), weight(f"{name}.bias"), transB=1)

    def normalised(name, rows):
        return node("LayerNormalization", rows, weight(f"{name}.weight"), weight(f"{name}.bias"), epsilon=EPSILON)

    def by_head(rows, order):
        return node("Transpose", node("Reshape", rows, split), perm=order)

    zero, one = (constant(name, np.int64(value)) for name, value in [("zero", 0), ("one", 1)])
    flat = constant("flat", np.array([-1, HIDDEN], np.int64))
    extents = node("Shape", "input_ids")
    tail = constant("tail", np.array([HEADS, HIDDEN // HEADS], np.int64))
    split = node("Concat", extents, tail, axis=0)
    whole = node("Concat", extents, constant("width", np.array([HIDDEN], np.int64)), axis=0)

    places_of_tokens = node("Range", zero, node("Gather", extents, one), one)
    words = node("Gather", weight("embeddings.word_embeddings.weight"), "input_ids")
    positions = node("Gather", weight("embeddings.position_embeddings.weight"), places_of_tokens)
    kind = node("Gather", weight("embeddings.token_type_embeddings.weight"), zero)
    state = node("Reshape", node("Add", node("Add", words, positions), kind), flat)
    state = normalised("embeddings.LayerNorm", state)

    # Tokens that only fill up are seen by none: [texts, 1, 1, tokens].
    mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = node("Sub", constant("all", np.float32(1)), node("Unsqueeze", mask, constant("axes", np.array([1, 2], np.int64))))
    hidden = node("Mul", hidden, constant("never", np.float32(-1e9)))
    scale = constant("scale", np.float32((HIDDEN // HEADS) ** -0.5))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, value = (by_head(dense(f"{name}.attention.self.{kind}", state), [0, 2, 1, 3]) for kind in ["query", "value"])
        key = by_head(dense(f"{name}.attention.self.key", state), [0, 2, 3, 1])
        scores = node("Add", node("Mul", node("MatMul", query, key), scale), hidden)
        mixed = node("Transpose", node("MatMul", node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        seen = dense(f"{name}.attention.output.dense", node("Reshape", mixed, flat))
        state = normalised(f"{name}.attention.output.LayerNorm", node("Add", seen, state))
        inner = node("Gelu", dense(f"{name}.intermediate.dense", state))
        state = normalised(f"{name}.output.LayerNorm", node("Add", dense(f"{name}.output.dense", inner), state))

    column = node("Unsqueeze", mask, constant("last", np.array([-1], np.int64)))
    axis = constant("of_tokens", np.array([1], np.int64))
    total = node("ReduceSum", node("Mul", node("Reshape", state, whole), column), axis, keepdims=0)
    mean = node("Div", total, node("ReduceSum", column, axis, keepdims=0))
    node("LpNormalization", mean, output="sentence_embedding", axis=-1, p=2)

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "all-MiniLM-L6-v2",
        [value(name, TensorProto.INT64, ["texts", "tokens"]) for name in ["input_ids", "attention_mask"]],
        [value("sentence_embedding", TensorProto.FLOAT, ["texts", HIDDEN])],
        list(constants.values()),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return made.SerializeToString(deterministic=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=pathlib.Path)
    file = pathlib.Path(__file__).with_name("model.onnx")
    data = model(parser.parse_args().weights)
    file.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {file.name}")


if __name__ == "__main__":
    main()
