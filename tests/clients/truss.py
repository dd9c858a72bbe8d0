"""Calls a model as Truss's clients do, in MessagePack with numpy's arrays: truss.py URL MODEL

Checks every answer itself; prints nothing. The packing of arrays is that of msgpack-numpy.
"""

import sys

import msgpack
import numpy
import requests

url, model = sys.argv[1:]


def pack(value):
    if isinstance(value, numpy.ndarray):
        return {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape, b"data": value.tobytes()}
    if isinstance(value, numpy.generic):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.data.tobytes()}
    raise TypeError(type(value))


def call(document, verb="predict"):
    reply = requests.post(
        f"{url}/v1/models/{model}:{verb}",
        data=msgpack.packb(document, default=pack),
        headers={"Content-Type": "application/octet-stream"},
        timeout=60,
    )
    assert reply.status_code == 200, (reply.status_code, reply.text)
    assert reply.headers["content-type"] == "application/octet-stream", reply.headers
    return msgpack.unpackb(reply.content)


assert call({"prompt": "ab", "n": 2}) == {"generated_text": "abab"}
assert call({"prompt": "ab", "n": 2}, "predict_binary") == {"generated_text": "abab"}
for kind in ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"]:
    array = numpy.arange(6).reshape(2, 3).astype(kind)
    assert call({"x": array, "y": [array[1, 2]]}) == {"x": array.tolist(), "y": [array[1, 2].item()]}, kind
assert call({"text": b"bytes", "bytes": b"\xff", "none": None}) == {
    "text": "bytes",
    "bytes": {"b64": "/w=="},
    "none": None,
}
assert call(2**64 - 1) == 2**64 - 1
image = numpy.random.default_rng(7).integers(0, 256, (3, 224, 224), dtype="u1")
assert call(image) == image.tolist()
