"""Makes the models of the templates, and the picture of one. Deterministic: the same bytes every time.

    pip install onnx pillow
    python host/templates/make.py

- text/common/sentiment.onnx: each word has a weight; the mean of a text's words, as two probabilities. The words are in
  text/common/vocabulary.json, which is written too: their place is their number, and 0 is every other word.
- image/common/colour.onnx: the mean colour of a picture, `[pictures, 3, rows, columns]` from 0 to 1, as probabilities of red,
  green and blue.
- image/common/sample.jpg, and a copy of it among the cases: a red picture with a blue corner.
"""

import io
import json
import pathlib
import struct

from onnx import TensorProto, checker, helper
from PIL import Image

HERE = pathlib.Path(__file__).parent
WEIGHTS = {
    1: "amazing beautiful best brilliant charming delightful enjoyable excellent fantastic funny good great love loved perfect "
    "superb touching wonderful",
    -1: "annoying awful bad bland boring disappointing dull fails hate hated lazy mess pointless poor slow terrible waste worst",
    0: "a all and at film in is it movie not of the this time to was with",
}


def floats(name, shape, values):
    """An initialiser with raw little-endian data."""
    return helper.make_tensor(name, TensorProto.FLOAT, shape, struct.pack(f"<{len(values)}f", *values), raw=True)


def save(path, nodes, inputs, outputs, initialisers):
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def text():
    words = {word: weight for weight, words in WEIGHTS.items() for word in words.split()}
    vocabulary = ["", *sorted(words)]
    folder = HERE / "text/common"
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary, indent=0) + "\n")
    # Scores before softmax: negative, positive. Words of no weight leave the mean to the others.
    table = [score for word in vocabulary for score in (-10.0 * words.get(word, 0), 10.0 * words.get(word, 0))]
    save(
        folder / "sentiment.onnx",
        [
            helper.make_node("Gather", ["table", "ids"], ["scored"]),
            helper.make_node("ReduceMean", ["scored"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("Softmax", ["mean"], ["scores"], axis=1),
        ],
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "words"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["texts", 2])],
        [floats("table", [len(vocabulary), 2], table)],
    )


def image():
    folder = HERE / "image/common"
    weights = [8.0 if row == column else -4.0 for row in range(3) for column in range(3)]
    save(
        folder / "colour.onnx",
        [
            helper.make_node("GlobalAveragePool", ["pixels"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["mean"]),
            helper.make_node("MatMul", ["mean", "weights"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        ],
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["pictures", 3, "rows", "columns"])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["pictures", 3])],
        [floats("weights", [3, 3], weights)],
    )
    picture = Image.new("RGB", (96, 64), (200, 40, 40))
    picture.paste((40, 40, 200), (72, 40, 96, 64))
    written = io.BytesIO()
    picture.save(written, "JPEG", quality=90)
    for name in ("sample.jpg", "cases/red.jpg"):
        (folder / name).write_bytes(written.getvalue())


if __name__ == "__main__":
    text()
    image()
