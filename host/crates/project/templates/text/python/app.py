"""Says whether a text is friendly.

In:  `{"text": "A great film"}`.
Out: `{"label": "positive", "score": 0.99, "unknown": []}`.

The model takes `[texts, words]` numbers of words and gives `[texts, 2]` scores.
"""

import json
import pathlib
import re

from modelhost_guest import Input, InvalidInput, Tensor, input_schema, post_inference, pre_inference

# Read when the component is built, and part of it.
WORDS = json.loads(pathlib.Path(__file__).with_name("vocabulary.json").read_text())
NUMBERS = {word: number for number, word in enumerate(WORDS)}
LABELS = ("negative", "positive")

# Held against every request before a function here runs; the example is tried when the handler is loaded.
input_schema(Input("text", "BYTES", example="A great film", description="what to judge"))


def words(text):
    """The words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())


@pre_inference
def prepare(sample):
    """From the text to the numbers of its words; 0 is one that the model does not know."""
    numbers = [NUMBERS.get(word, 0) for word in words(sample.json["text"])]
    if not numbers:
        raise InvalidInput("`text` has no words")
    return Tensor([numbers], "INT64")


@post_inference
def answer(outputs, context):
    """From the scores to the label; the request is at hand again."""
    best, score = outputs[0][0].top_k(1)[0]
    unknown = [word for word in words(context.sample.json["text"]) if word not in NUMBERS]
    return {"label": LABELS[best], "score": score, "unknown": unknown}
