#!/usr/bin/env python3
"""Writes the two larger models of the benchmark, a request for each, and the answer to it.

Place in the flow: `scripts/bench-models.sh` runs it in target/venv when its files are missing or older than itself.
In:  the folder to write to. Random weights with a fixed seed: a run costs the same whatever the numbers say.
Out: encoder.onnx, a sentence encoder built like MiniLM: `input_ids` and `attention_mask`, INT64 `[batch, sequence]`, to
     `embedding`, FP32 `[batch, hidden]`, mean-pooled and of length one;
     image.onnx, a classifier built like ResNet-18: `pixels`, FP32 `[batch, 3, 224, 224]`, to `logits`, FP32
     `[batch, 1000]`;
     NAME.body, the request of one row that is sent; NAME.json, the answer that has to come back; oip.body and oip.json, the
     same image and the logits by the Open Inference Protocol, its binary extension in the request.

The nodes are those that exporters write, so that ONNX Runtime finds the patterns that it fuses. Before a file is
written, the encoder's graph is compared with the same encoder in NumPy, and the rows of a batch with the same rows
alone; the answers come from ONNX Runtime's own Python package.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SEED = 20240229
OPSET = 17
IR_VERSION = 10


class Graph:
    """A graph under construction; every method that adds something returns its name."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def node(self, op: str, *inputs: str, output: str = "", **attributes) -> str:
        """One operator with one output."""
        output = output or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name: str, value) -> str:
        """A constant tensor."""
        self.weights[name] = np.asarray(value)
        return name

    def normal(self, name: str, shape: tuple[int, ...], deviation: float, mean: float = 0.0) -> str:
        """Normally distributed FP32 weights."""
        value = self.random.standard_normal(shape, np.float32) * np.float32(deviation) + np.float32(mean)
        return self.weight(name, value)

    def model(self, inputs: list, outputs: list) -> onnx.ModelProto:
        """The finished model; inputs and outputs as `(name, element type, shape)`."""
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        infos = [[helper.make_tensor_value_info(*info) for info in side] for side in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "bench", *infos, weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="bench")
        onnx.checker.check_model(model, full_check=True)
        return model


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Sizes of the encoder; the defaults are MiniLM-L6's."""

    layers: int = 6
    hidden: int = 384
    heads: int = 12
    inner: int = 1536
    vocabulary: int = 30522
    positions: int = 512

    def graph(self) -> Graph:
        """Embeddings, layers of attention and feed-forward, mean over the tokens that the mask keeps."""
        graph = Graph(SEED)
        graph.weight("row_shape", np.array([0, 0, self.hidden], np.int64))
        graph.weight("head_shape", np.array([0, 0, self.heads, self.hidden // self.heads], np.int64))
        graph.weight("scale", np.float32(math.sqrt(self.hidden // self.heads)))
        for name, value in {"zero": [0], "one": [1], "two": [2], "heads_and_queries": [1, 2]}.items():
            graph.weight(name, np.array(value, np.int64))

        words = graph.normal("word_embeddings", (self.vocabulary, self.hidden), 0.05)
        positions = graph.normal("position_embeddings", (self.positions, self.hidden), 0.05)
        length = graph.node("Slice", graph.node("Shape", "input_ids"), "one", "two")
        state = graph.node(
            "Add",
            graph.node("Gather", words, "input_ids"),
            graph.node("Slice", positions, "zero", length, "zero"),
        )
        state = self.norm(graph, "embeddings", state)

        # A token that the mask leaves out gets a score so low that softmax makes nothing of it.
        kept = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        left_out = graph.node("Sub", graph.weight("all", np.float32(1)), kept)
        low = graph.node("Mul", left_out, graph.weight("lowest", np.float32(-10000)))
        mask = graph.node("Unsqueeze", low, "heads_and_queries")
        for index in range(self.layers):
            state = self.layer(graph, f"layer{index}", state, mask)

        column = graph.node("Unsqueeze", kept, "two")
        total = graph.node("ReduceSum", graph.node("Mul", state, column), "one", keepdims=0)
        count = graph.node("ReduceSum", column, "one", keepdims=0)
        least = graph.weight("least", np.float32(1e-9))
        mean = graph.node("Div", total, graph.node("Max", count, least))
        length = graph.node("Max", graph.node("ReduceL2", mean, axes=[1]), least)
        graph.node("Div", mean, length, output="embedding")
        return graph

    def layer(self, graph: Graph, name: str, state: str, mask: str) -> str:
        """Self-attention, then the feed-forward network, each added to what came in and normalised."""

        def heads(role: str, permutation: list[int]) -> str:
            rows = self.linear(graph, f"{name}.{role}", state, self.hidden, self.hidden)
            return graph.node("Transpose", graph.node("Reshape", rows, "head_shape"), perm=permutation)

        query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
        scores = graph.node("Div", graph.node("MatMul", query, key), "scale")
        weights = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)
        context = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[0, 2, 1, 3])
        context = graph.node("Reshape", context, "row_shape")
        attended = self.linear(graph, f"{name}.attention", context, self.hidden, self.hidden)
        state = self.norm(graph, f"{name}.attention", graph.node("Add", attended, state))

        wide = self.linear(graph, f"{name}.inner", state, self.hidden, self.inner)
        # GELU as PyTorch's exporter writes it at this opset.
        half, one = graph.weight("half", np.float32(0.5)), graph.weight("erf_one", np.float32(1))
        erf = graph.node("Erf", graph.node("Div", wide, graph.weight("root", np.float32(math.sqrt(2)))))
        wide = graph.node("Mul", graph.node("Mul", wide, graph.node("Add", erf, one)), half)
        narrow = self.linear(graph, f"{name}.outer", wide, self.inner, self.hidden)
        return self.norm(graph, f"{name}.outer", graph.node("Add", narrow, state))

    def linear(self, graph: Graph, name: str, state: str, before: int, after: int) -> str:
        weight = graph.normal(f"{name}.weight", (before, after), 1 / math.sqrt(before))
        bias = graph.normal(f"{name}.bias", (after,), 0.02)
        return graph.node("Add", graph.node("MatMul", state, weight), bias)

    def norm(self, graph: Graph, name: str, state: str) -> str:
        scale = graph.normal(f"{name}.norm.scale", (self.hidden,), 0.05, 1.0)
        shift = graph.normal(f"{name}.norm.shift", (self.hidden,), 0.05)
        return graph.node("LayerNormalization", state, scale, shift, axis=-1, epsilon=1e-12)

    def model(self, graph: Graph) -> onnx.ModelProto:
        ids = [(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("input_ids", "attention_mask")]
        return graph.model(ids, [("embedding", TensorProto.FLOAT, ["batch", self.hidden])])

    def expected(self, weights: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The same encoder once more, in NumPy and FP64."""
        get = {name: value.astype(np.float64) for name, value in weights.items()}
        rows, length = ids.shape

        def linear(name: str, state: np.ndarray) -> np.ndarray:
            return state @ get[f"{name}.weight"] + get[f"{name}.bias"]

        def norm(name: str, state: np.ndarray) -> np.ndarray:
            centred = state - state.mean(-1, keepdims=True)
            deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
            return centred / deviation * get[f"{name}.norm.scale"] + get[f"{name}.norm.shift"]

        def heads(name: str, state: np.ndarray) -> np.ndarray:
            return linear(name, state).reshape(rows, length, self.heads, -1).swapaxes(1, 2)

        state = norm("embeddings", get["word_embeddings"][ids] + get["position_embeddings"][:length])
        for index in range(self.layers):
            name = f"layer{index}"
            query, key, value = (heads(f"{name}.{role}", state) for role in ("query", "key", "value"))
            scores = query @ key.swapaxes(2, 3) / math.sqrt(self.hidden // self.heads)
            scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            context = weights / weights.sum(-1, keepdims=True) @ value
            context = context.swapaxes(1, 2).reshape(rows, length, self.hidden)
            state = norm(f"{name}.attention", state + linear(f"{name}.attention", context))
            wide = linear(f"{name}.inner", state)
            wide *= 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
            state = norm(f"{name}.outer", state + linear(f"{name}.outer", wide))
        mean = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def image_model() -> onnx.ModelProto:
    """ResNet-18 with its batch normalisation folded into the convolutions."""
    graph = Graph(SEED + 1)

    def convolution(name: str, state: str, before: int, after: int, side: int, stride: int, gain: float) -> str:
        weight = graph.normal(f"{name}.weight", (after, before, side, side), math.sqrt(gain / (before * side * side)))
        bias = graph.normal(f"{name}.bias", (after,), 0.02)
        pad = side // 2
        return graph.node(
            "Conv", state, weight, bias, kernel_shape=[side, side], strides=[stride, stride], pads=[pad] * 4
        )

    # He's initialisation before a ReLU; a branch adds little to its shortcut, so that values stay near one.
    state = graph.node("Relu", convolution("stem", "pixels", 3, 64, 7, 2, 2.0))
    state = graph.node("MaxPool", state, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    before = 64
    for stage, after in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"stage{stage}.block{block}", 2 if stage and not block else 1
            branch = graph.node("Relu", convolution(f"{name}.first", state, before, after, 3, stride, 2.0))
            branch = convolution(f"{name}.second", branch, after, after, 3, 1, 0.5)
            if before != after:
                state = convolution(f"{name}.shortcut", state, before, after, 1, stride, 1.0)
            state = graph.node("Relu", graph.node("Add", branch, state))
            before = after
    state = graph.node("Flatten", graph.node("GlobalAveragePool", state))
    weight, bias = graph.normal("head.weight", (1000, before), 0.1), graph.normal("head.bias", (1000,), 0.1)
    graph.node("Gemm", state, weight, bias, transB=1, output="logits")
    inputs = [("pixels", TensorProto.FLOAT, ["batch", 3, 224, 224])]
    return graph.model(inputs, [("logits", TensorProto.FLOAT, ["batch", 1000])])


def check(what: str, got: np.ndarray, expected: np.ndarray) -> None:
    """Ends the script unless both are the same but for rounding."""
    if got.shape != expected.shape or not np.isfinite(got).all() or not np.allclose(got, expected, atol=1e-4):
        sys.exit(f"error: {what}: expected {expected.ravel()[:4]}…, got {got.ravel()[:4]}…")


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The model's only output; for a batch, after a look at whether each row comes out as it does alone."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (batch,) = session.run(None, inputs)
    alone = [session.run(None, {name: rows[i : i + 1] for name, rows in inputs.items()})[0] for i in range(len(batch))]
    check("a row depends on its batch", batch, np.concatenate(alone))
    return batch


def tokens(encoder: Encoder, rows: int, length: int) -> dict[str, np.ndarray]:
    """Sequences of which each is a token shorter than the one before and filled up, the first one not at all."""
    ids = np.random.default_rng(SEED + 2).integers(1, encoder.vocabulary, (rows, length))
    mask = (np.arange(length)[None, :] < length - np.arange(rows)[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}


def main() -> None:
    """Writes all files into the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: models.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)

    def exchange(name: str, body: bytes, answer: dict | list) -> None:
        (folder / f"{name}.body").write_bytes(body)
        (folder / f"{name}.json").write_text(json.dumps(answer) + "\n")

    def write(name: str, model: onnx.ModelProto, body: bytes, answer: dict) -> None:
        exchange(name, body, answer)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())

    tiny = Encoder(layers=2, hidden=32, heads=4, inner=64, vocabulary=50, positions=16)
    graph, inputs = tiny.graph(), tokens(tiny, 3, 8)
    expected = tiny.expected(graph.weights, inputs["input_ids"], inputs["attention_mask"])
    check("the encoder's graph", run(tiny.model(graph), inputs), expected)

    encoder = Encoder()
    model, inputs = encoder.model(encoder.graph()), tokens(encoder, 3, 32)
    embedding = run(model, inputs)[0]
    body = json.dumps({name: rows[0].tolist() for name, rows in inputs.items()})
    write("encoder", model, body.encode(), {"embedding": embedding.tolist()})

    model = image_model()
    pixels = np.random.default_rng(SEED + 3).standard_normal((2, 3, 224, 224), np.float32)
    # Rows that differ in more than noise, which the mean over all places would take away.
    pixels[1] *= 2
    logits = run(model, {"pixels": pixels})[0].astype(np.float64)
    scores = np.exp(logits - logits.max())
    scores /= scores.sum()
    top = [{"class": int(index), "score": float(scores[index])} for index in np.argsort(-scores)[:5]]
    data = pixels[0].astype("<f4").tobytes()
    tensor = {"name": "pixels", "shape": [1, 3, 224, 224], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": len(data)}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    exchange("oip", header.encode() + data, logits.tolist())
    # Last of all: scripts/bench-models.sh goes by the date of image.onnx.
    write("image", model, data, {"top": top})


if __name__ == "__main__":
    main()
