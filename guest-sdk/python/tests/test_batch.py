"""Requests that are served together: what is wrong with one is its own error."""

import unittest

from modelhost_guest import App, InvalidInput, cortex, inferless
from modelhost_guest.messages import Body

app = App("tests")
FORM = "application/x-www-form-urlencoded"
calls = []


@app.batch("/read")
def read(requests):
    calls.append(len(requests))
    return [[it.json["n"], it.headers.get("x-a")] for it in requests]


@app.batch("/forms")
def forms(requests):
    return [it.form["n"] if it.content_type == FORM else it.json["inner"][0]["n"] for it in requests]


@app.batch("/fails")
def fails(requests):
    raise InvalidInput("all of you")


class BatchTest(unittest.TestCase):
    def setUp(self):
        calls.clear()

    def answers(self, served, bodies, path="/"):
        return [(it.status, it.json if it.status == 200 else it.json["error"]) for it in served.answer_all(bodies, path)]

    def test_a_body_that_is_no_json_is_its_senders(self):
        bodies = [(b"{", ""), (b"{", FORM), (b'{"n": 2}', FORM), (b'{"m": 3}', ""), (b"\xff", "image/png")]
        given = [{"n": 1}, *(Body(*it) for it in bodies), {"n": 4}]
        self.assertEqual(
            self.answers(app, given, "/read"),
            [
                (200, [1, None]),
                (400, "malformed json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
                (400, "malformed json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
                (200, [2, None]),
                (400, "missing field `n`"),
                (400, "the body is not UTF-8: invalid start byte at byte 0"),
                (200, [4, None]),
            ],
        )
        self.assertEqual(calls, [6, 5, 4, 3], "once more for each that only the function could tell")

    def test_what_the_function_reads_otherwise_is_no_json(self):
        given = [Body(b"n=1", FORM), Body(b"m=1", FORM), {"inner": [{"n": 2}]}, {"inner": [{}]}]
        missing = (400, "missing field `n`")
        self.assertEqual(self.answers(app, given, "/forms"), [(200, 1), missing, (200, 2), missing])

    def test_what_no_request_is_to_blame_for_is_the_error_of_all(self):
        with self.assertRaisesRegex(InvalidInput, "all of you"):
            app.answer_all([1, 2], "/fails")
        self.assertEqual(app.answer(path="/read", json={}).json["error"], "missing field `n`")

    def test_inferless_inputs_are_refused_one_by_one(self):
        class Schema:
            BATCH_SIZE = 4

        class Model:
            def initialize(self):
                pass

            def infer(self, batch):
                return [{"out": it["name"]} for it in batch]

        served = inferless.serve(Model, __name__, Schema)
        Init().init("null")  # noqa: F821
        given = [{"name": "a"}, [1], {"inputs": [{"data": ["b"]}]}, {"name": "c", "inputs": ["d"]}, b"{", {}]
        self.assertEqual(
            self.answers(served, given),
            [
                (200, {"out": "a"}),
                (400, "the inputs are an object"),
                (400, "missing field `name`"),
                (200, {"out": "c"}),
                (400, "malformed json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
                (400, "missing field `name`"),
            ],
        )

    def test_payloads_of_cortex_are_refused_one_by_one(self):
        class Predictor:
            def predict(self, payload):
                return [len(payload) for _ in payload]

        served = cortex.predictor(Predictor, __name__, batch=True)
        served.start({})
        given = ["a", Body(b"\xff", "text/plain"), Body(b"\xff", FORM), {"a": 1}]
        self.assertEqual(
            self.answers(served, given),
            [(200, 2), *[(400, "the body is not UTF-8: invalid start byte at byte 0")] * 2, (200, 2)],
        )


if __name__ == "__main__":
    unittest.main()
