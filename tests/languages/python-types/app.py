"""What an author's checker of types sees of the SDK: the types of results, and an error at each line that says so."""

from array import array
from typing import Any, assert_type

from modelhost_guest import (
    App,
    Context,
    Request,
    Response,
    Sample,
    Socket,
    Tensor,
    Tensors,
    blobs,
    image,
    init,
    jobs,
    kv,
    metrics,
    models,
    outbound,
    post_inference,
    pre_inference,
    sockets,
    tensor,
    tokenizer,
)

app = App()


@init
def load(metadata: Any) -> None: ...


@pre_inference
def prepare(sample: Sample, context: Context) -> Tensor:
    assert_type(sample.text, str)
    assert_type(context.header("x-user"), str | None)
    assert_type(sample.numbers("a", "b"), list[float])
    return Tensor(array("f", [1.0]), shape=(1, 1))


@post_inference
def answer(outputs: Tensors) -> Response:
    assert_type(outputs[0], Tensor)
    assert_type(outputs["probabilities"], Tensor)
    assert_type(outputs[0].shape, tuple[int, ...])
    return Response({"best": outputs[0].argmax()}, status=201, headers={"x-a": "b"})


# A decorated function keeps its own type.
assert_type(prepare(Sample({}), Context()), Tensor)


@app.get("/count/{to}")
def count(to: int, request: Request) -> dict[str, int]:
    bucket = kv.open()
    assert_type(bucket.get("a"), bytes | None)
    assert_type(bucket.increment("n", ttl=1.5), int)
    assert_type(bucket.page(), tuple[list[str], str | None])
    return {"n": to}


@app.websocket("/rooms/{room}")
def talk(socket: Socket, room: str) -> None:
    assert_type(socket.send("a"), bool)


assert_type(count(1, Request()), dict[str, int])
assert_type(app.answer("GET", "/count/1"), Response)
assert_type(sockets.converse(app, ["a"]).protocol, str | None)
assert_type(models.infer(Tensor([1.0])), Tensors)
assert_type(models.infer({"x": Tensor([1.0])}, "name"), Tensors)
assert_type(models.run({"x": models.Resident(Tensor([1.0]))}), dict[str, models.Resident])
assert_type(blobs.open("a").get("b"), bytes | None)
assert_type(jobs.submit("/fit", json={}), jobs.Job)
assert_type(image.prepare(b"", 224).tensor, Tensor)
assert_type(outbound.get("https://a.example").text(), str)
assert_type(tensor.top_k(Tensor([1.0]), 1), tuple[Tensor, Tensor])
assert_type(tokenizer.load("a").encode(["a"]).ids, Tensor)

flowers = metrics.Counter("flowers", "Flowers by species", ["species"])
assert_type(flowers.labels("setosa"), metrics.Counter)
assert_type(metrics.value("flowers_total", {"species": "setosa"}), float | None)


@metrics.Histogram("seconds", "", buckets=(0.1, 1)).time()
def timed(number: int) -> str:
    return str(number)


assert_type(timed(1), str)

kv.open().set("a", 1)  # wrong
flowers.labels("setosa").inc("1")  # wrong
flowers.observe(1)  # wrong
kv.open(3)  # wrong
Response("a", status="200")  # wrong
models.infer("text")  # wrong
app.get()  # wrong
image.prepare(b"", colour="rgb")  # wrong
Tensor([1.0]).argmaxx()  # wrong
