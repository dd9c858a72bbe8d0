#!/usr/bin/env python3
"""Writes the SavedModels that the tests load.

Place in the flow: run by hand after a change here, with TensorFlow 2.21 (`pip install tensorflow-cpu==2.21.0` into an
environment of its own); the folders under `savedmodels/` are committed, so tests need no Python.
In: nothing. Out: one folder of versions per model. What TensorFlow 2 writes holds identifiers that differ from run to run.

`_tf2` is what `tf.saved_model.save` writes: variables, a fingerprint, an initialisation signature beside the real ones.
`_tf1` is a graph alone, as small as they get.
"""

import pathlib
import shutil
import tempfile

import tensorflow as tf

from make import IRIS_B, IRIS_W

HERE = pathlib.Path(__file__).parent / "savedmodels"

IDENTITIES = {
    "bool": tf.bool, "uint8": tf.uint8, "uint16": tf.uint16, "uint32": tf.uint32, "uint64": tf.uint64,
    "int8": tf.int8, "int16": tf.int16, "int32": tf.int32, "int64": tf.int64, "fp16": tf.float16,
    "bf16": tf.bfloat16, "fp32": tf.float32, "fp64": tf.float64, "bytes": tf.string,
}


def floats(*shape):
    return tf.TensorSpec(shape, tf.float32)


class Iris(tf.Module):
    """softmax(x · W + b), the same numbers as iris_dyn.onnx; the weights are variables."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.reshape(tf.constant(IRIS_W), [4, 3]))
        self.b = tf.Variable(IRIS_B)

    @tf.function(input_signature=[floats(None, 4)])
    def serve(self, x):
        logits = x @ self.w + self.b
        return {"probabilities": tf.nn.softmax(logits), "label": tf.argmax(logits, 1)}


class MultiSignature(tf.Module):
    """Two functions around one variable: `a` doubles, `predict` adds two."""

    def __init__(self):
        super().__init__()
        self.k = tf.Variable(2.0)

    @tf.function(input_signature=[floats(None)])
    def a(self, x):
        return {"y": x * self.k}

    @tf.function(input_signature=[floats(None)])
    def p(self, x):
        return {"y": x + self.k}


class Vocabulary(tf.Module):
    """The line number of a word in a file that the model brings as an asset; -1 for a word that is not there."""

    def __init__(self, words):
        super().__init__()
        self.words = tf.saved_model.Asset(str(words))
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                self.words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
            default_value=-1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, word):
        return {"index": self.table.lookup(word)}


def fresh(name):
    folder = HERE / name / "1"
    shutil.rmtree(folder.parent, ignore_errors=True)
    return str(folder)


def save_tf2(name, module, **signatures):
    tf.saved_model.save(module, fresh(name), signatures=signatures)


def save_tf1(name, build):
    """`build` makes operations in a fresh graph and returns `{signature: (inputs, outputs)}`, both of them dicts, or the
    signature itself."""
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(fresh(name))
    with v1.Session(graph=tf.Graph()) as session:
        signatures = {
            key: v1.saved_model.predict_signature_def(*made) if isinstance(made, tuple) else made
            for key, made in build(v1.placeholder).items()
        }
        builder.add_meta_graph_and_variables(
            session, [tf.saved_model.SERVING], signatures, strip_default_attrs=True)
    builder.save()


def strings(placeholder):
    x = placeholder(tf.string, [None], "x")
    outputs = {"upper": tf.strings.upper(x), "len": tf.strings.length(x)}
    return {"serving_default": ({"x": x}, outputs)}


def identities(placeholder):
    """One input and one output per datatype: what goes in must come out, bit for bit."""
    inputs = {name: placeholder(dtype, [None], name) for name, dtype in IDENTITIES.items()}
    return {"serving_default": (inputs, {name: tf.identity(x) for name, x in inputs.items()})}


def shapes(placeholder):
    """No signature that is served without being asked for."""
    anything = placeholder(tf.float32, None, "anything")
    scalar = placeholder(tf.float32, [], "scalar")
    index = placeholder(tf.int64, [None], "index")
    table = tf.constant([1.0, 2.0, 3.0])
    return {
        "any": ({"x": anything}, {"y": tf.identity(anything)}),
        "scalar": ({"x": scalar}, {"y": scalar * 2.0}),
        # Fails at run time for an index beyond 2.
        "gather": ({"index": index}, {"y": tf.gather(table, index)}),
    }


def examples(placeholder):
    """What parses examples by itself: `x`, three numbers, and `scale`, one, which is 1 where it is missing."""
    v1 = tf.compat.v1
    serialized = placeholder(tf.string, [None], "serialized")
    parsed = v1.io.parse_example(serialized, {
        "x": tf.io.FixedLenFeature([3], tf.float32),
        "scale": tf.io.FixedLenFeature([], tf.float32, 1.0),
    })
    scores = parsed["x"] * tf.expand_dims(parsed["scale"], 1)
    classes = tf.tile(tf.constant([["low", "mid", "high"]]), tf.stack([tf.shape(scores)[0], 1]))
    return {
        "classify": v1.saved_model.classification_signature_def(serialized, classes, scores),
        "regress": v1.saved_model.regression_signature_def(serialized, tf.reduce_sum(scores, 1)),
    }


def main():
    iris, multi = Iris(), MultiSignature()
    save_tf2("iris_tf2", iris, serving_default=iris.serve)
    save_tf2("multi_signature_tf2", multi, a=multi.a, predict=multi.p)
    with tempfile.TemporaryDirectory() as scratch:
        words = pathlib.Path(scratch) / "words.txt"
        words.write_text("setosa\nversicolor\nvirginica\n")
        vocabulary = Vocabulary(words)
        save_tf2("vocabulary_tf2", vocabulary, serving_default=vocabulary.serve)
    save_tf1("string_tf1", strings)
    save_tf1("identities_tf1", identities)
    save_tf1("shapes_tf1", shapes)
    save_tf1("examples_tf1", examples)


if __name__ == "__main__":
    main()
