"""Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements."""

import json

from modelhost_guest import (
    Answer,
    InvalidInput,
    Response,
    Tensor,
    init,
    post_inference,
    post_inference_tensors,
    pre_inference,
    pre_inference_tensors,
)

prepared = {}


@init
def load(metadata):
    prepared.update(metadata)


@pre_inference
def prepare(sample):
    text = sample.json["do"]
    if text == "invalid":
        raise InvalidInput("as asked")
    if text == "internal":
        raise RuntimeError("as asked")
    if text == "respond":
        raise Answer(Response("teapot", status=418))
    if text == "file":
        with open("/mnt/project/greeting.json") as file:
            text = json.load(file)["greeting"]
    return Tensor([text], name="text")


@post_inference
def answer(outputs):
    return {"answer": outputs["text"].strings()[0], "label": prepared["label"]}


def again(tensors):
    def values(tensor):
        return tensor.strings() if tensor.datatype == "BYTES" else tensor.values

    return [Tensor(values(it), it.datatype, it.shape, it.name) for it in tensors]


@pre_inference_tensors
def prepare_tensors(inputs):
    return again(inputs)


@post_inference_tensors
def answer_tensors(outputs):
    return again(outputs)
