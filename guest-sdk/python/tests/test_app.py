"""Applications without a host: routes, streams, background work, models, Truss's class."""

import unittest
from dataclasses import dataclass
from functools import wraps

from modelhost_guest import App, Answer, Context, Event, InvalidInput, ModelError, Response, Sample, Tensor, models, truss
from modelhost_guest.app import Collected

app = App("tests")
done = []


@app.init
def load(metadata):
    return {"n": 0, "metadata": metadata}


@app.handler("/count")
def count(context, request):
    context["n"] += 1
    return {"n": context["n"], "metadata": context["metadata"], "echo": request.json}


@app.get("/items/{id}")
def item(request):
    return {"id": request.params["id"], "q": request.query.get("q"), "user": request.headers["x-user"]}


@app.get("/files/{*path}")
def file(request):
    return request.params["path"]


@app.get("/events")
def events(request):
    yield {"n": 1}
    yield Event("bye", event="end")


@app.get("/text")
def text(request):
    return Response(stream=iter(["a", "b"]), headers={"x-a": "1"})


@app.get("/teapot")
def teapot(request):
    raise Answer(Response("teapot", status=418))


@app.background("later")
def later(request):
    done.append(request.json)


@dataclass
class Work:
    n: int


@app.background("typed")
def typed_work(context, work: Work):
    done.append(work)


def logged(function):
    @wraps(function)
    def call(*arguments):
        return function(*arguments)

    return call


@app.handler("/logged")
@logged
def logged_request(request):
    return request.json


@app.handler("/logged/both")
@logged
def logged_both(context, request):
    return [context["n"], request.json]


@app.batch("/logged/all")
@logged
def logged_all(requests):
    return [it.json for it in requests]


@app.get("/none")
def none(request):
    yield None
    yield {"n": 1}
    yield None


@app.get("/nothing")
def nothing(request):
    yield from ()


@app.get("/headers")
def headers(request):
    given = request.headers
    return [dict(given), list(given), len(given), list(given.values()), "x-a" in given, given.get("X-A"), bool(given)]


@app.handler("/predict")
def predict(request):
    return models.infer({"input": [request.json["features"]]})["sum"]


@app.handler("/resident")
def resident(request):
    held = models.Resident(Tensor([[1.0], [2.0]]))
    outputs = models.start({"input": held.rows(1, 1)}, "adder", ["sum"]).wait()
    return {name: output.read() for name, output in outputs.items()}


def add(inputs):
    return {"sum": [sum(inputs["input"][0].tolist())], "rest": [0.0]}


def get(path, **arguments):
    return app.answer("GET", path, **arguments)


class AppTest(unittest.TestCase):
    def setUp(self):
        app.start({"word": "hello"})
        models.answer_with({"adder": add})

    def test_the_context_is_kept_from_one_request_to_the_next(self):
        for n in (1, 2):
            answer = app.answer(path="/count", json=[n])
            self.assertEqual(answer.json, {"n": n, "metadata": {"word": "hello"}, "echo": [n]})

    def test_requests_go_to_their_routes(self):
        answer = get("/items/a%20b", query="q=1", headers={"X-User": "7"})
        self.assertEqual(answer.json, {"id": "a b", "q": "1", "user": "7"})
        self.assertEqual(get("/files/a/b.txt").text, "a/b.txt")
        self.assertEqual(get("/files/").text, "")
        for method, path, status in [
            ("GET", "/", 404),
            ("GET", "/items/", 404),
            ("GET", "//items/1", 404),
            ("GET", "/items/%ff", 404),
            ("GET", "/items/1/2", 404),
            ("GET", "/files", 404),
            ("GET", "/count/", 404),
            ("GET", "/count", 405),
            ("POST", "/events", 405),
            ("HEAD", "/events", 200),
            ("GET", "/items/1", 400),
            ("GET", "/teapot", 418),
        ]:
            self.assertEqual(app.answer(method, path).status, status, f"{method} {path}")
        self.assertEqual(app.answer("POST", "/events").headers, {"allow": "GET, HEAD"})
        self.assertEqual(app.answer(path="/count", body=b"{").json["code"], "invalid_input")
        text = '{"error":"there is nothing at this path","code":"not_found","stage":"pre_inference","request_id":"test"}'
        self.assertEqual(get("/").text, text)

    def test_generators_are_streams(self):
        answer = get("/events")
        self.assertEqual(answer.content_type, "text/event-stream")
        self.assertEqual(answer.text, 'data: {"n":1}\n\nevent: end\ndata: bye\n\n')
        answer = get("/text")
        self.assertEqual((answer.content_type, answer.text, answer.headers), ("text/plain; charset=utf-8", "ab", {"x-a": "1"}))

    def test_a_piece_may_be_none(self):
        answer = get("/none")
        self.assertEqual(answer.content_type, "text/event-stream")
        self.assertEqual(answer.text, 'data: null\n\ndata: {"n":1}\n\ndata: null\n\n')
        answer = get("/nothing")
        self.assertEqual((answer.content_type, answer.text), ("application/octet-stream", ""))

    def test_decorated_functions_get_what_they_take(self):
        self.assertEqual(app.answer(path="/logged", json=[1]).json, [1])
        self.assertEqual(app.answer(path="/logged/both", json=[1]).json, [0, [1]])
        self.assertEqual(app.answer(path="/logged/all", json=[1]).json, [1])

    def test_headers_of_usual_names_are_listed(self):
        answer = get("/headers", headers={"X-A": "1", "User-Agent": "u", "Accept": "*/*"})
        usual = {"accept": "*/*", "user-agent": "u"}
        self.assertEqual(answer.json, [usual, list(usual), 2, list(usual.values()), True, "1", True])
        self.assertEqual(get("/headers", headers={"x-a": "1"}).json, [{}, [], 0, [], True, "1", True])

    def test_background_work_is_refused_before_it_begins(self):
        done.clear()
        answer = app.answer(path="/typed", json={"n": "x"})
        self.assertEqual((answer.status, answer.json["code"], done), (400, "invalid_input", []))
        sample, output = Sample({"n": "x"}), Collected()
        with self.assertRaises(InvalidInput):
            app.respond(sample, Context(sample, path="/typed"), output)
        self.assertIsNone(output.response)
        self.assertEqual(app.answer(path="/typed", json={"n": 1}).json, {"started": True})
        self.assertEqual(done, [Work(1)])

    def test_background_work_follows_the_answer(self):
        self.assertEqual(app.answer(path="/later", json=7).json, {"started": True})
        self.assertEqual(done[-1:], [7])

    def test_models_are_called(self):
        self.assertEqual(app.answer(path="/predict", json={"features": [1.5, 2]}).json, [3.5])
        self.assertEqual(app.answer(path="/resident").json, {"sum": [2.0]})
        with self.assertRaisesRegex(ModelError, "no model `other`") as caught:
            models.infer([], "other")
        self.assertEqual(caught.exception.kind, "no-such-model")

    def test_routes_are_told(self):
        told = {(method, path): consumes for method, path, _, consumes, *_ in app.operations()}
        self.assertEqual((told["GET", "/items/{id}"], told["POST", "/count"]), ("", "application/json"))

    def test_a_route_is_there_once(self):
        with self.assertRaisesRegex(ValueError, "`/count` is there already"):
            app.post("count")

    def test_truss_models_are_served(self):
        @truss
        class Model:
            def __init__(self, config):
                self.word = config["word"]

            def load(self):
                self.loaded = True

            def preprocess(self, request):
                return [request.json["text"]]

            def predict(self, texts):
                return [f"{self.word} {text}" for text in texts] if self.loaded else []

            def postprocess(self, output, request):
                return {"output": output, "path": request.path}

        Model.app.start({"word": "hello"})
        answer = Model.app.answer(path="/predict", json={"text": "you"})
        self.assertEqual(answer.json, {"output": ["hello you"], "path": "/predict"})

        @truss
        class Streaming:
            def predict(self, count):
                return (str(n) for n in range(count))

        Streaming.app.start()
        self.assertEqual(Streaming.app.answer(json=3).text, "012")


if __name__ == "__main__":
    unittest.main()
