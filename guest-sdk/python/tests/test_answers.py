"""Headers of responses: several of a name, and values that are none; coroutines and their generators in every form of handler."""

import asyncio
import sys
import unittest
from datetime import datetime, timezone
from types import SimpleNamespace
from unittest.mock import patch

from modelhost_guest import App, Event, Response, Tensor, _host, blobs, cortex, inferless, jobs, kv, post_inference, pre_inference, truss
from modelhost_guest.potassium import Potassium, Response as PotassiumResponse
from modelhost_guest.web import HTTPException, JSONResponse, Request, Response as WebResponse, StreamingResponse

COOKIES = [("set-cookie", "a=1"), ("set-cookie", "b=2")]


class HeadersTest(unittest.TestCase):
    def test_each_cookie_is_a_line(self):
        for headers in (COOKIES, {"set-cookie": ["a=1", "b=2"]}, {"set-cookie": ("a=1", "b=2")}, iter(COOKIES)):
            self.assertEqual(Response("x", headers=headers).fields(), COOKIES)
        made = Response("x", headers=[("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("x", "y")])
        self.assertEqual(made.fields(), [("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("x", "y")])
        made.headers["z"] = "1"
        self.assertEqual(made.fields()[-1], ("z", "1"))
        for headers in (COOKIES, {"set-cookie": ["a=1", "b=2"]}, {"Set-Cookie": "a=1", "set-cookie": "b=2"}):
            self.assertEqual(PotassiumResponse(headers=headers).made().fields(), COOKIES)
            self.assertEqual(WebResponse(headers=headers).made().fields(), COOKIES)
            self.assertEqual(HTTPException(401, headers=COOKIES).headers, {"set-cookie": ["a=1", "b=2"]})

    def test_a_stream_has_them_too(self):
        app = App()

        @app.get("/")
        def pieces(request):
            return Response(stream=iter(["a"]), headers=COOKIES)

        self.assertEqual(app.answer("GET").fields(), COOKIES)

    def test_starlettes_cookies_are_set(self):
        made = JSONResponse({}, headers={"Set-Cookie": "a=1"})
        made.set_cookie("b", "2", max_age=3, httponly=True, secure=True)
        made.delete_cookie("c")
        lines = [value for name, value in made.made().fields() if name == "set-cookie"]
        self.assertEqual(lines[0], "a=1")
        self.assertEqual(set(lines[1].split("; ")), {"b=2", "HttpOnly", "Max-Age=3", "Path=/", "SameSite=lax", "Secure"})
        self.assertTrue(lines[2].startswith('c=""; ') and "Max-Age=0" in lines[2], lines)
        made.set_cookie("d", "", expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
        self.assertIn("expires=Wed, 02 Jan 2030 03:04:0", made.made().fields()[-1][1])

    def test_what_is_no_text_is_an_error_where_it_was_made(self):
        for wrong, error in [
            ({"headers": {"x": 1}}, "header 'x' is a text or a list of texts, and not int"),
            ({"headers": {"x": None}}, "header 'x' is a text or a list of texts, and not NoneType"),
            ({"headers": {"x": b"1"}}, "header 'x' is a text or a list of texts, and not bytes"),
            ({"headers": {"x": ["a", 1]}}, "header 'x' is a text or a list of texts, and not int"),
            ({"headers": {1: "x"}}, "header 1 is a text or a list of texts, and not int"),
            ({"status": "200"}, "a status is a whole number, and not str"),
            ({"content_type": b"text/plain"}, "a content type is a text, and not bytes"),
        ]:
            with self.assertRaisesRegex(TypeError, error):
                Response("x", **wrong)
        made = Response("x")
        made.headers["x"] = 1
        with self.assertRaisesRegex(TypeError, "header 'x'"):
            made.fields()


class CheckedTest(unittest.TestCase):
    def test_what_the_host_is_given_is_of_its_type(self):
        bucket, container = kv.open(), blobs.open()
        for call, error in [
            (lambda: kv.open(1), "a bucket's name is a text, and not int"),
            (lambda: bucket.get(1), "a key is a text, and not int"),
            (lambda: bucket.set(None, b""), "a key is a text, and not NoneType"),
            (lambda: bucket.keys(b"a"), "a key is a text, and not bytes"),
            (lambda: bucket.increment("a", 1.5), "what is added is a whole number, and not float"),
            (lambda: blobs.open(1), "a container's name is a text, and not int"),
            (lambda: container.set(1, b""), "an object's name is a text, and not int"),
            (lambda: container.get(1), "an object's name is a text, and not int"),
            (lambda: container.info(1), "an object's name is a text, and not int"),
            (lambda: container.delete(1), "an object's name is a text, and not int"),
            (lambda: jobs.submit(1), "a path is a text, and not int"),
            (lambda: jobs.submit("/", priority="1"), "a priority is a whole number, and not str"),
            (lambda: jobs.submit("/", idempotency_key=1), "an idempotency key is a text, and not int"),
            (lambda: jobs.get(1), "a job's id is a text, and not int"),
            (lambda: jobs.get_answer(1), "a job's id is a text, and not int"),
            (lambda: jobs.cancel(None), "a job's id is a text, and not NoneType"),
        ]:
            with self.assertRaisesRegex(TypeError, error):
                call()


class Asynchronous:
    """A class whose `predict` returns what is given, in every way that a program may write it."""

    def plain(self):
        return (str(n) for n in range(3))

    async def pieces(self):
        for n in range(3):
            await asyncio.sleep(0)
            yield str(n)

    async def inner(self):
        return self.pieces()


class CoroutinesTest(unittest.TestCase):
    def test_what_a_truss_returns_may_be_any_generator(self):
        class Model(Asynchronous):
            async def predict(self, how):
                return {"plain": self.plain, "pieces": self.pieces, "inner": self.inner, "task": self.task}[how]()

            def task(self):
                return asyncio.ensure_future(self.inner())

            async def chat_completions(self, how):
                return {"plain": self.plain, "pieces": self.pieces, "inner": self.inner}[how]()

            def completions(self, how):
                return self.inner() if how == "inner" else self.pieces()

        class Sync(Asynchronous):
            def predict(self, how):
                return {"plain": self.plain, "pieces": self.pieces, "inner": self.inner}[how]()

        for model in (Model, Sync):
            truss(model, __name__)
            model.app.start()
            for how in ("plain", "pieces", "inner") + (("task",) if model is Model else ()):
                self.assertEqual(model.app.answer(json=how).text, "012", f"{model.__name__} {how}")
                asked = {"accept": "application/json"}
                self.assertEqual(model.app.answer(json=how, headers=asked).json, "012", how)
        for path, how in [("chat/completions", it) for it in ("plain", "pieces", "inner")] + [("completions", it) for it in ("inner", "pieces")]:
            self.assertEqual(Model.app.answer(path=f"/v1/{path}", json=how).text, "012", f"{path} {how}")

    def test_an_application_has_coroutines_and_their_generators(self):
        app, done = App(), []

        @app.init
        async def load(metadata):
            await asyncio.sleep(0)
            return {"word": "hello"}

        @app.handler("/value")
        async def value(context, request):
            await asyncio.sleep(0)
            return {"word": context["word"], "json": request.json}

        @app.get("/events")
        async def events(request):
            yield {"n": 1}
            await asyncio.sleep(0)
            yield Event("bye", event="end")

        @app.get("/returned")
        async def returned(request):
            return events(request)

        @app.get("/stream")
        def stream(request):
            return Response(stream=Asynchronous().pieces(), content_type="text/plain")

        @app.get("/sync")
        def sync(request):
            return Asynchronous().inner()

        @app.background("/later")
        async def later(request):
            await asyncio.sleep(0)
            done.append(request.json)

        @app.batch("/batch")
        async def together(requests):
            await asyncio.sleep(0)
            return [it.json for it in requests]

        app.start()
        self.assertEqual(app.answer(path="/value", json=1).json, {"word": "hello", "json": 1})
        for path in ("/events", "/returned"):
            answer = app.answer("GET", path)
            self.assertEqual((answer.content_type, answer.text), ("text/event-stream", 'data: {"n":1}\n\nevent: end\ndata: bye\n\n'))
        self.assertEqual([app.answer("GET", it).text for it in ("/stream", "/sync")], ["012", "012"])
        self.assertEqual((app.answer(path="/later", json=2).json, done), ({"started": True}, [2]))
        self.assertEqual([it.json for it in app.answer_all([1, 2], path="/batch")], [1, 2])

    def test_functions_around_a_model_may_be_coroutines(self):
        context = SimpleNamespace()

        @pre_inference
        async def prepare(sample):
            await asyncio.sleep(0)
            return Tensor([sample.json])

        @post_inference
        async def answer(outputs):
            await asyncio.sleep(0)
            return {"outputs": outputs}

        module = sys.modules[__name__]
        kept = []
        with patch.object(_host, "tensors_out", kept.append), patch.object(_host, "tensors_in", lambda given: given):
            module.PreInference().pre_inference(SimpleNamespace(body=b"1", content_type=""), context)
            with patch.object(_host, "types", SimpleNamespace(Response=lambda *given: given)):
                made = module.PostInference().post_inference([1], context)
        self.assertEqual((kept[0][0].tolist(), made[0], made[3]), ([1], 200, b'{"outputs":[1]}'))

    def test_potassium_inferless_and_cortex_have_them_too(self):
        app = Potassium("own")

        @app.init
        async def init():
            return {"n": 1}

        @app.handler("/value")
        async def value(context, request):
            await asyncio.sleep(0)
            return PotassiumResponse(json=context["n"])

        @app.handler("/stream")
        def stream(context, request):
            return PotassiumResponse(body=Asynchronous().pieces())

        app.start()
        self.assertEqual(app.answer(path="/value", json={}).json, 1)
        self.assertEqual(app.answer(path="/stream", json={}).text, "012")

        class Model(Asynchronous):
            async def initialize(self):
                self.word = "hello"

            async def infer(self, inputs):
                return {"out": self.word}

        served = inferless.serve(Model, __name__, {})
        served.load()
        served.keep({})
        self.assertEqual(served.outputs(), {"out": "hello"})

        class Streaming(Asynchronous):
            async def initialize(self):
                pass

            async def infer(self, inputs, stream_output_handler):
                if inputs["how"] == "handler":
                    stream_output_handler.send_streamed_output({"OUT": "0"})
                    return None
                return ({"OUT": it} async for it in self.pieces())

        app = inferless.serve(Streaming, __name__, SimpleNamespace(INPUT_SCHEMA={}, IS_STREAMING_OUTPUT=True))
        app._served.load()
        events = ['data: {"OUT":"0"}\n\n', 'data: {"OUT":"1"}\n\n', 'data: {"OUT":"2"}\n\n']
        self.assertEqual(app.answer(json={"how": "handler"}).text, events[0])
        self.assertEqual(app.answer(json={"how": "generator"}).text, "".join(events))

        class Predictor:
            async def predict(self, payload):
                return StreamingResponse(Asynchronous().pieces()) if payload else "text"

        app = cortex.predictor(Predictor, __name__)
        app.start()
        self.assertEqual([app.answer(json=it).text for it in (0, 1)], ["text", "012"])


class DisconnectedTest(unittest.TestCase):
    def test_the_host_says_whether_the_client_is_gone(self):
        class Model:
            async def predict(self, request: Request):
                return await request.is_disconnected()

        truss(Model, __name__)
        Model.app.start()
        self.assertEqual(Model.app.answer(json=1).json, False)
        for gone in (True, False):
            with patch.object(_host, "current", SimpleNamespace(is_disconnected=lambda gone=gone: gone)):
                self.assertEqual(Model.app.answer(json=1).json, gone)


if __name__ == "__main__":
    unittest.main()
