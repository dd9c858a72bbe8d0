"""numpy and other packages in a handler, for tests/it/numpy.rs: what handlers do with them, and what hostile arrays try."""

import copy
import io
import unittest

import markupsafe
import msgpack
import numpy as np
import numpy_arrays
import pictures
import regex
import yaml
from modelhost_guest import App, Response, Tensor, models

app = App()


@app.init
def load(metadata):
    return {}


@app.handler("/tests")
def tests(context, request):
    """The SDK's own tests of arrays, where whole numbers are int32."""
    printed = io.StringIO()
    done = unittest.TextTestRunner(printed).run(unittest.defaultTestLoader.loadTestsFromModule(numpy_arrays))
    return {"ran": done.testsRun, "failed": len(done.failures) + len(done.errors), "printed": printed.getvalue()[-4000:]}


@app.handler("/softmax")
def softmax(context, request):
    rows = np.array(request.json, np.float32)
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return {"shares": powers / powers.sum(axis=-1, keepdims=True), "best": rows.argmax(axis=-1)}


@app.handler("/normalise")
def normalise(context, request):
    """Bytes of a picture, 3 wide, to planes of floats."""
    image = np.frombuffer(request.body, np.uint8).reshape(-1, 3, 3)
    scaled = (image.astype(np.float32) / 255 - np.array([0.485, 0.456, 0.406], np.float32)) / np.float32(0.25)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


@app.handler("/through/{model}")
def through(context, request):
    """An array through a model that gives back what it gets, backwards."""
    array = np.array(request.json)[::-1]
    back = models.infer(x=array, model=request.params["model"])["y"]
    return {"sent": str(array.dtype), "back": str(back.numpy().dtype), "values": back.numpy()}


@app.handler("/parts")
def parts(context, request):
    """What numpy and others import when they are first used."""
    saved = io.BytesIO()
    np.savez_compressed(saved, a=np.arange(3))
    saved.seek(0)
    return {
        "saved": np.load(saved)["a"],
        "unique": np.unique(np.array([3, 1, 3])),
        "upper": np.char.upper(np.array(["ab"])).tolist(),
        "svd": bool(np.allclose(np.linalg.svd(np.eye(3) * 2)[1], 2)),
        "fft": bool(np.allclose(np.fft.ifft(np.fft.fft(np.arange(8.0))).real, np.arange(8.0))),
        "random": int(np.random.RandomState(0).randint(10)),
        "masked": int(np.ma.array([1, 2], mask=[0, 1]).sum()),
        "copies": [float(copy.copy(np.float64(1.5))), float(copy.deepcopy(np.float32(2.5)))],
        "others": [
            regex.findall(r"\p{Lu}\w", "Äb cd"), msgpack.unpackb(msgpack.packb({"a": [1, 2.5]})), yaml.safe_load("a: [1, b]"),
            str(markupsafe.escape("<")), msgpack.Packer.__module__,
        ],
    }  # fmt: skip


@app.handler("/pictures")
def of_pillow(context, request):
    return pictures.answer({name: bytes.fromhex(content) for name, content in request.json.items()})


@app.handler("/hostile/{what}")
def hostile(context, request):
    try:
        match request.params["what"]:
            case "2-gib":
                np.zeros(1 << 31, np.uint8)
            case "1-gib":
                np.ones(1 << 30, np.uint8)
            case "shape":
                np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 28, 8)).copy()
            case "pickle":
                np.load(io.BytesIO(request.body))
            case "object":
                Tensor(np.array([{}]))
            case "masked":
                Tensor(np.ma.array([1.0], mask=[1]))
            case "twice-32-mib":
                [np.ones(1 << 22, np.float64) for _ in range(2)]
    except Exception as error:
        return Response(json={"error": type(error).__name__, "text": str(error)})
    return "done"
