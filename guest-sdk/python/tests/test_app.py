"""Applications without a host: routes, streams, background work, models, Truss's class."""

import unittest

from modelhost_guest import App, Answer, Event, ModelError, Response, Tensor, models, truss

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
        for method, path, status in [
            ("GET", "/", 404),
            ("GET", "/items/", 404),
            ("GET", "//items/1", 404),
            ("GET", "/items/%ff", 404),
            ("GET", "/items/1/2", 404),
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

    def test_generators_are_streams(self):
        answer = get("/events")
        self.assertEqual(answer.content_type, "text/event-stream")
        self.assertEqual(answer.text, 'data: {"n":1}\n\nevent: end\ndata: bye\n\n')
        answer = get("/text")
        self.assertEqual((answer.content_type, answer.text, answer.headers), ("text/plain; charset=utf-8", "ab", {"x-a": "1"}))

    def test_background_work_follows_the_answer(self):
        self.assertEqual(app.answer(path="/later", json=7).json, {"started": True})
        self.assertEqual(done, [7])

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
