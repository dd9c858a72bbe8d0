"""What projects of other systems are served by: Truss's class, Potassium's names, Inferless's class, Cortex's handlers; native packages."""

import asyncio
import os
import types
import unittest

from functools import wraps
from types import SimpleNamespace
from typing import List, Optional

from modelhost_guest import Context, Event, NotPorted, Sample, Signature, Tensor, Tensors, TensorSpec, cortex, inferless, models, porting, truss, unported
from modelhost_guest.potassium import Potassium, Response
from modelhost_guest.web import HTTPException, JSONResponse, Request, StreamingResponse

app = Potassium("tests")
done = []


@app.init
def init(worker):
    return {"n": worker}


@app.handler()
def root(context, request):
    context["n"] += 1
    return Response(json={"n": context["n"], "echo": request.json, "a": request.headers.get("A")}, status=201, headers={"X": "y"})


@app.handler("/stream")
def stream(context, request):
    return Response(body=(piece for piece in (b"a", b"b")), headers={"Content-Type": "text/plain"})


@app.handler("/none")
def none(context, request):
    return {}


@app.background("/later")
def later(context, request):
    done.append(request.json)


class PotassiumTest(unittest.TestCase):
    def setUp(self):
        app.start()

    def test_a_handler_gets_context_json_and_headers(self):
        answer = app.answer(json=[1], headers={"a": "b"})
        self.assertEqual((answer.status, answer.headers), (201, {"x": "y"}))
        self.assertEqual(answer.json, {"n": 1, "echo": [1], "a": "b"})

    def test_generators_are_bodies(self):
        answer = app.answer(path="/stream", json={})
        self.assertEqual((answer.text, answer.content_type), ("ab", "text/plain"))

    def test_background_work_follows_the_answer(self):
        self.assertEqual(app.answer(path="/later", json=7).json, {"started": True})
        self.assertEqual(done, [7])
        self.assertEqual(app.answer(path="/later", body=b"{").status, 400)
        self.assertEqual(done, [7])

    def test_a_decorated_init_gets_its_worker(self):
        own = Potassium("own")

        def logged(function):
            return wraps(function)(lambda *arguments: function(*arguments))

        @own.init
        @logged
        def init(worker):
            return {"worker": worker}

        own.start()
        self.assertEqual(own.context, {"worker": 0})

    def test_what_is_no_response_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "Potassium Response object not returned"):
            app.answer(path="/none", json={})


def served(model, config=None):
    truss(model, __name__)
    model.app.start(config)
    return lambda path="/", **arguments: model.app.answer(path=path, **arguments)


class TrussTest(unittest.TestCase):
    def test_a_model_has_what_it_names_and_secrets_are_variables(self):
        class Model:
            def __init__(self, **kwargs):
                self.given, self.secrets = kwargs["config"], kwargs["secrets"]
                kwargs["lazy_data_resolver"].block_until_download_complete()

            def predict(self, value):
                return [self.given, self.secrets["key"], self.secrets.get("other"), value]

        os.environ["TRUSS_SECRET_key"] = "s"
        self.assertEqual(served(Model, {"a": 1})(json="x").json, [{"a": 1}, "s", None, "x"])

    def test_coroutines_and_their_generators_are_awaited(self):
        class Model:
            async def load(self):
                await asyncio.sleep(0.001)
                self.loaded = True

            async def preprocess(self, value):
                both = await asyncio.gather(self.one(value), self.one(value))
                return sum(both)

            async def one(self, value):
                await asyncio.sleep(0.001)
                return value

            async def predict(self, count):
                for number in range(count):
                    yield str(number)

        call = served(Model)
        self.assertEqual((call(json=2).text, call(json=2).content_type), ("0123", "application/octet-stream"))
        self.assertEqual(call(json=2, headers={"accept": "application/json"}).json, "0123")

    def test_texts_are_json_and_errors_have_their_status(self):
        class Model:
            def predict(self, request: Request):
                if request.headers.get("x-fail"):
                    raise HTTPException(status_code=418, detail="teapot")
                return "text"

            async def chat_completions(self, body, request: Request):
                if body["stream"]:
                    return StreamingResponse(self.pieces(), media_type="text/event-stream")
                return JSONResponse({"same": (await request.json()) == body}, status_code=202)

            async def pieces(self):
                yield "data: 1\n\n"

        call = served(Model)
        self.assertEqual(call(json=1).json, "text")
        refused = call(json=1, headers={"x-fail": "1"})
        self.assertEqual((refused.status, refused.json), (418, {"error": "teapot"}))
        chat = call("/v1/chat/completions", json={"stream": False})
        self.assertEqual((chat.status, chat.json), (202, {"same": True}))
        self.assertEqual(call("/v1/chat/completions", json={"stream": True}).text, "data: 1\n\n")
        self.assertEqual(call("/v1/embeddings", json={}).status, 404)

    def test_a_body_that_no_method_takes_is_not_read(self):
        class Whole:
            def predict(self, request: Request):
                return request.headers["content-type"]

            def embeddings(self, request):
                return len(request.body)

        call = served(Whole)
        self.assertEqual(call(body=b"\x89PNG", content_type="image/png", headers={"content-type": "image/png"}).json, "image/png")
        self.assertEqual(call("/v1/embeddings", body=b"{").json, 1)

        class Nothing:
            def predict(self):
                return "nothing"

        self.assertEqual(served(Nothing)(body=b"{").json, "nothing")

        class Read:
            def preprocess(self, value, request: Request):
                return value

        self.assertEqual([served(Read)(body=it).status for it in (b"{", b"{}")], [400, 200])

    def test_coroutines_of_a_parent_and_of_a_response_are_awaited(self):
        class Parent:
            async def predict(self, value):
                await asyncio.sleep(0)
                return value

        class Model(Parent):
            pass

        self.assertEqual(served(Model)(json=1).json, 1)

        async def pieces():
            yield "a"
            yield "b"

        class Sync:
            def predict(self, value):
                return StreamingResponse(pieces()) if value else pieces()

        self.assertEqual([served(Sync)(json=it).text for it in (0, 1)], ["ab", "ab"])

    def test_streams_are_gathered_for_clients_that_want_json(self):
        class Model:
            def predict(self, value):
                if value == "bytes":
                    yield from ("grüß"[:3].encode()[:3], "grüß".encode()[3:])
                elif value == "none":
                    yield None
                else:
                    yield {"n": 1}
                    yield Event("b", event="end")
                    yield "c"

        call = served(Model)
        asked = {"accept": "application/json"}
        self.assertEqual(call(json="bytes", headers=asked).json, "grüß")
        self.assertEqual(call(json="events", headers=asked).json, [{"n": 1}, "b", "c"])
        self.assertEqual(call(json="none", headers=asked).json, [None])
        self.assertEqual(call(json="none").text, "data: null\n\n")

    def test_readiness_is_what_the_class_says(self):
        class Model:
            healthy = True

            def is_healthy(self):
                return self.healthy

            def predict(self, value):
                return value

        served(Model)
        get = lambda: Model.app.answer("GET", "/v1/models/model").status  # noqa: E731
        self.assertEqual(get(), 200)
        Model.healthy = False
        self.assertEqual(get(), 503)


class InferlessTest(unittest.TestCase):
    def test_infer_gets_a_dict_and_gives_one(self):
        class Model:
            def initialize(self):
                self.word = "hello"

            def infer(self, inputs):
                return {"out": f"{self.word} {inputs['prompt']}"}

        served = inferless.serve(Model, __name__, {})
        served.load()
        served.keep({"prompt": "you"})
        self.assertEqual(served.outputs(), {"out": "hello you"})

    def test_inputs_are_those_of_the_schema_or_of_the_annotated_class(self):
        made = inferless._input("prompt", {"datatype": "STRING", "shape": [1], "required": True, "example": ["hi"]})
        self.assertEqual((made.datatype, made.shape, made.example, made.required), ("BYTES", (1,), "hi", True))

        class Wanted:
            n: int
            words: list[str]
            is_on: bool | None
            few: Optional[list[int]]
            many: Optional[List[float]]
            written: "Optional[list[bool]]"
            unknown: "NotThere"  # noqa: F821

        made = [(it.name, it.datatype, it.shape, it.required) for it in inferless._annotated(Wanted)]
        self.assertEqual(
            made,
            [
                ("n", "INT32", (1,), True),
                ("words", "BYTES", (-1,), True),
                ("is_on", "BOOL", (1,), False),
                ("few", "INT32", (-1,), False),
                ("many", "FP64", (-1,), False),
                ("written", "BOOL", (-1,), False),
                ("unknown", "BYTES", (1,), True),
            ],
        )

    def test_a_streaming_class_sends_events(self):
        class Model:
            def initialize(self):
                pass

            def infer(self, inputs, stream_output_handler):
                for word in inputs["prompt"].split():
                    stream_output_handler.send_streamed_output({"OUT": word})
                stream_output_handler.finalise_streamed_output()

        app = inferless.serve(Model, __name__, SimpleNamespace(INPUT_SCHEMA={}, IS_STREAMING_OUTPUT=True))
        app._served.load()
        for body in ({"prompt": "a b"}, {"inputs": [{"name": "prompt", "data": ["a b"]}]}):
            answer = app.answer(path="/generate_stream", json=body)
            self.assertEqual(answer.text, 'data: {"OUT":"a"}\n\ndata: {"OUT":"b"}\n\n')


class CortexTest(unittest.TestCase):
    SIGNATURE = Signature([TensorSpec("input", "FP32", (-1, 4))], [])

    def test_functions_around_a_model_get_signature_and_metadata(self):
        source = SimpleNamespace(
            pre_inference=lambda sample, signature, metadata: {signature[0].name: [sample["a"]] * 4},
            post_inference=lambda prediction, signature, metadata: metadata["labels"][prediction[0][0]],
        )
        prepare, answer = cortex.handlers(source, __name__)
        context = Context(signature=self.SIGNATURE, metadata={"labels": ["x", "y"]})
        [tensor] = prepare(Sample({"a": 2}), context)
        self.assertEqual((tensor.name, tensor.datatype, tensor.shape, tensor.tolist()), ("input", "FP32", (1, 4), [[2.0] * 4]))
        self.assertEqual(answer(Tensors([Tensor([1], "INT64")]), context).json, "y")

        legacy = SimpleNamespace(pre_inference=lambda sample, metadata: {metadata[0].name: sample})
        prepare, answer = cortex.handlers(legacy, __name__, legacy=True)
        self.assertEqual((prepare(Sample([1, 2, 3, 4]), context)[0].shape, answer), ((1, 4), None))

    def test_classes_get_what_they_name(self):
        class ONNXPredictor:
            def __init__(self, onnx_client, config):
                self.client, self.labels = onnx_client, config["labels"]

            def predict(self, payload, query_params):
                prediction = self.client.predict(payload["x"])
                return self.labels[prediction[0][0]] + query_params.get("q", "")

        app = cortex.predictor(ONNXPredictor, __name__, client="onnx")
        app.start({"labels": ["a", "b"]})
        models.answer_with({"": lambda inputs: [Tensor([int(inputs[0].tolist()[0])], "INT64")]})
        answer = app.answer(path="/", json={"x": [1.0]}, query="q=!")
        self.assertEqual((answer.text, answer.content_type), ("b!", "text/plain; charset=utf-8"))

        class Handler:
            def handle_get(self, headers):
                return {"x": headers["x-a"]}

            def handle_post(self, payload):
                return payload

        app = cortex.predictor(Handler, __name__)
        app.start()
        self.assertEqual(app.answer("GET", headers={"x-a": "1"}).json, {"x": "1"})
        self.assertEqual(app.answer(body=b"raw", content_type="image/png").body, b"raw")
        self.assertEqual(app.answer("PUT").status, 405)

    def test_modules_with_init_and_predict_are_served(self):
        source = type(os)("source")
        source.predict = lambda sample, metadata: [sample, metadata]
        app = cortex.predictor(source, __name__, texts="json")
        app.start({"a": 1})
        self.assertEqual(app.answer(json=2, metadata={"a": 1}).json, [2, {"a": 1}])


class PortingTest(unittest.TestCase):
    def test_a_module_can_be_imported_and_its_calls_say_what_is_missing(self):
        torch = unported("torch")
        device = "cuda" if torch.cuda.is_available() else "cpu"

        class Net(torch.nn.Module):
            @torch.no_grad()
            def forward(self, x: torch.Tensor | None) -> list[torch.Tensor]:
                return x

        self.assertEqual((device, Net.__bases__[0].__name__), ("cpu", "Module"))
        with torch.no_grad():
            mean, pairs = 2 * torch.tensor([1]) / 255, [it for it in torch.x]
        errors, timeout = torch.OutOfMemoryError, unported("requests.exceptions.Timeout", "needs sockets")
        sessions = unported("requests", "needs sockets").sessions
        self.assertEqual((pairs, bool(mean < 1), torch.__version__), ([], False, "0.0.0"))
        self.assertFalse(isinstance([], torch.Tensor) or isinstance(1, (str, torch.Tensor)) or issubclass(Net, torch.nn.Module))
        for raised, expected in ((timeout("x"), timeout), (ValueError(), ValueError), (torch.OutOfMemoryError(), errors)):
            try:
                raise raised
            except (errors, unported("requests.exceptions.Timeout", "needs sockets"), ValueError) as error:
                self.assertIsInstance(error, expected)
        porting.imported()
        try:
            for call in (lambda: torch.load("x"), lambda: Net(), lambda: list(torch.x), lambda: mean + 1, lambda: torch.x.__enter__()):
                with self.assertRaisesRegex(NotPorted, "`torch.* is native code"):
                    call()
            for call in (lambda: sessions.Session().get("x"), lambda: timeout("x"), lambda: types.new_class("Own", (sessions.Session,))()):
                with self.assertRaisesRegex(NotPorted, "^`requests.* needs sockets: MIGRATION.md"):
                    call()
        finally:
            porting._is_imported = False


if __name__ == "__main__":
    unittest.main()
