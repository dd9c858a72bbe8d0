"""What the example examples/decoder-wasm has to answer, by another implementation: NumPy, and no cache.

Arguments: how many tokens, then any number of prompts.
Out: one line for each prompt, JSON: the tokens that follow it. Every one is computed from the whole text before it, with
weights that are drawn anew from the seed in make.py; the ONNX file is not read.
"""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "decoder-wasm"))
sys.dont_write_bytecode = True
import make  # noqa: E402

SIZES = make.Sizes()
WEIGHTS = {name: value.astype(np.float64) for name, value in make.weights(SIZES).items()}
# Two candidates that are closer than this could change places by rounding: then the prompt is no good for a test.
MARGIN = 1e-4


def normalised(rows):
    centred = rows - rows.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + make.EPSILON)


def logits(tokens):
    """Of what follows the last token."""
    state = WEIGHTS["embedding"][tokens] + WEIGHTS["place"][: len(tokens)]
    for layer in range(SIZES.layers):
        seen = normalised(state)
        query, key, value = (seen @ WEIGHTS[f"{layer}.{kind}"] for kind in ["query", "key", "value"])
        heads = []
        for head in range(SIZES.heads):
            part = slice(head * SIZES.head, (head + 1) * SIZES.head)
            scores = query[:, part] @ key[:, part].T / np.sqrt(SIZES.head)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ value[:, part])
        state = state + np.hstack(heads) @ WEIGHTS[f"{layer}.out"]
        state = state + np.maximum(normalised(state) @ WEIGHTS[f"{layer}.up"], 0) @ WEIGHTS[f"{layer}.down"]
    return normalised(state)[-1] @ WEIGHTS["head"]


def main():
    count = int(sys.argv[1])
    for prompt in sys.argv[2:]:
        tokens = [0 if character == "\n" else ord(character) - 31 for character in prompt]
        for _ in range(count):
            found = logits(tokens)
            second, first = np.sort(found)[-2:]
            assert first - second > MARGIN, (prompt, len(tokens), first - second)
            tokens.append(int(found.argmax()))
        print(json.dumps(tokens[len(prompt) :]))


main()
