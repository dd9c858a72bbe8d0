"""Parameters of a path as arguments: converted, refused, beside the context, a body and a socket."""

import enum
import unittest
from dataclasses import dataclass
from typing import Literal, Optional

from modelhost_guest import App, sockets

app = App("tests")
done = []


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Work:
    n: int


@app.init
def load():
    return {"factor": 2}


@app.get("/count/{to}")
def count(to: int):
    return list(range(to))


@app.get("/texts/{text}/{*rest}")
def texts(rest, text):
    return [text, rest]


@app.get("/sizes/{size}/{kind}/{share}/{on}")
def sizes(size: Size, kind: Literal["a", "b"], share: Optional[float], *, on: bool):
    return [size.name, kind, share, on]


@app.get("/both/{n}")
def both(context, n: "int", request):
    return [context["factor"] * n, request.params["n"], request.query["q"]]


@app.get("/request/{n}")
def with_request(request, n: int, more="default"):
    return [request.path, n, more]


@app.post("/tasks/{n}")
def work(n: int, context, given: Work):
    return n * given.n * context["factor"]


@app.get("/stream/{to}")
async def stream(to: int):
    for number in range(to):
        yield {"number": number}


@app.background("/later/{n}")
def later(n: int):
    done.append(n)


@app.get("/old/{id}")
def old(context, request):
    return request.params["id"]


@app.websocket("/rooms/{room}")
def talk(socket, room: int):
    socket.send(f"room {room + 1}")


class Parameters(unittest.TestCase):
    def setUp(self):
        app.start()

    def test_arguments_are_what_the_annotations_say(self):
        for path, expected in [
            ("/count/3", [0, 1, 2]),
            ("/texts/a%20b/c/d", ["a b", "c/d"]),
            ("/sizes/s/b/0.5/true", ["SMALL", "b", 0.5, True]),
            ("/request/7", ["/request/7", 7, "default"]),
        ]:
            with self.subTest(path):
                response = app.answer("GET", path)
                self.assertEqual((response.status, response.json), (200, expected))
        self.assertEqual(app.answer("GET", "/old/x").text, "x")
        self.assertEqual(app.answer("GET", "/both/4", query="q=1").json, [8, "4", "1"])
        self.assertEqual(app.answer("POST", "/tasks/3", json={"n": 5}).json, 30)
        self.assertIn(b'data: {"number":1}', app.answer("GET", "/stream/2").body)

    def test_what_cannot_be_one_is_the_callers_fault(self):
        for method, path, lines in [
            ("GET", "/count/a", ["`to`: Input should be a valid integer, unable to parse string as an integer."]),
            (
                "GET",
                "/sizes/m/c/x/maybe",
                [
                    "`size`: Input should be 's' or 'l'.",
                    "`kind`: Input should be 'a' or 'b'.",
                    "`share`: Input should be a valid number, unable to parse string as a number.",
                    "`on`: Input should be a valid boolean, unable to interpret input.",
                ],
            ),
            ("POST", "/later/a", ["`n`: Input should be a valid integer, unable to parse string as an integer."]),
        ]:
            with self.subTest(path):
                response = app.answer(method, path, json={})
                self.assertEqual(response.status, 400)
                for line in lines:
                    self.assertIn(line, response.json["error"])
        self.assertEqual(done, [])
        self.assertEqual(app.answer("POST", "/later/8").json, {"started": True})
        self.assertEqual(done, [8])

    def test_a_socket_has_them_too(self):
        self.assertEqual(sockets.converse(app, [], path="/rooms/4").sent, ["room 5"])
        refused = sockets.converse(app, [], path="/rooms/x")
        self.assertEqual(refused.refusal.status, 400)


if __name__ == "__main__":
    unittest.main()
