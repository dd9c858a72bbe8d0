"""The vectors of texts by the package whose model examples/embeddings-wasm serves, computed with NumPy from its weights.

Arguments: the package's `model.safetensors`, its `tokenizer.json`, and the texts as a list in JSON.
Out: JSON: for each text its vector, and its tokens.
"""

import json
import math
import struct
import sys

import numpy as np
from tokenizers import Tokenizer

LAYERS, HEADS, EPSILON = 6, 12, 1e-12


def weights(file):
    with open(file, "rb") as opened:
        [length] = struct.unpack("<Q", opened.read(8))
        header, data = json.loads(opened.read(length)), opened.read()
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = tensor["data_offsets"]
            yield name, np.frombuffer(data[begin:end], "<f4").astype(np.float64).reshape(tensor["shape"])


class Model:
    def __init__(self, file):
        self.weights = dict(weights(file))

    def dense(self, name, rows):
        return rows @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normalised(self, name, rows):
        rows = rows - rows.mean(-1, keepdims=True)
        rows = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + EPSILON)
        return rows * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def layer(self, name, state):
        def by_head(kind):
            rows = self.dense(f"{name}.attention.self.{kind}", state)
            return rows.reshape(len(state), HEADS, -1).transpose(1, 0, 2)

        query, key, value = map(by_head, ["query", "key", "value"])
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True)) @ value
        seen = self.dense(f"{name}.attention.output.dense", mixed.transpose(1, 0, 2).reshape(state.shape))
        state = self.normalised(f"{name}.attention.output.LayerNorm", seen + state)
        inner = self.dense(f"{name}.intermediate.dense", state)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        return self.normalised(f"{name}.output.LayerNorm", self.dense(f"{name}.output.dense", inner) + state)

    def vector(self, tokens):
        """Of one text, so that nothing is filled up and nothing is masked."""
        table = lambda kind: self.weights[f"embeddings.{kind}_embeddings.weight"]  # noqa: E731
        state = table("word")[tokens] + table("position")[: len(tokens)] + table("token_type")[0]
        state = self.normalised("embeddings.LayerNorm", state)
        for layer in range(LAYERS):
            state = self.layer(f"encoder.layer.{layer}", state)
        mean = state.mean(0)
        return mean / np.linalg.norm(mean)


def main():
    model, tokenizer = Model(sys.argv[1]), Tokenizer.from_file(sys.argv[2])
    tokenizer.no_padding()
    tokenizer.no_truncation()
    found = []
    for text in json.loads(sys.argv[3]):
        tokens = tokenizer.encode(text).ids
        found.append({"vector": model.vector(tokens).tolist(), "tokens": tokens})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
