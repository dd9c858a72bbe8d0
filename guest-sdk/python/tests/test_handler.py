"""The package without a host: tensors, bodies, responses, functions around a model."""

import enum
import math
import unittest
from array import array

from modelhost_guest import (
    Context,
    Event,
    Input,
    InvalidInput,
    Response,
    Sample,
    Tensor,
    Tensors,
    init,
    input_schema,
    post_inference,
    pre_inference,
)



class Color(enum.Enum):
    RED = "red"


NAN, INFINITY = float("nan"), float("inf")

# What makes a tensor; then its datatype, its shape, and what it reads as.
TENSORS = [
    ([[1.0, 2.5], [3.0, 4.0]], None, "FP32", (2, 2), [[1.0, 2.5], [3.0, 4.0]]),
    ([1, 2, 3], None, "INT64", (3,), [1, 2, 3]),
    ([1, 2.5], None, "FP32", (2,), [1.0, 2.5]),
    ([[True], [False]], None, "BOOL", (2, 1), [[True], [False]]),
    (7, "UINT8", "UINT8", (), 7),
    ([-1, 2], "INT16", "INT16", (2,), [-1, 2]),
    ([[[]]], "FP32", "FP32", (1, 1, 0), [[[]]]),
    (["a", "grüß"], None, "BYTES", (2,), ["a", "grüß"]),
    ([[b"a"], [b""]], None, "BYTES", (2, 1), [["a"], [""]]),
    ([1.5, -2.0, 65504.0], "FP16", "FP16", (3,), [1.5, -2.0, 65504.0]),
    ([65519.0, 65520.0, -1e300], "FP16", "FP16", (3,), [65504.0, INFINITY, -INFINITY]),
    ([1.5, -2.0, 1.0078125], "BF16", "BF16", (3,), [1.5, -2.0, 1.0078125]),
    ([0, 1.0, True], "BOOL", "BOOL", (3,), [False, True, True]),
    (array("f", [1.5, 2.5]), None, "FP32", (2,), [1.5, 2.5]),
    (array("d", [1.5]), "FP32", "FP32", (1,), [1.5]),
    (array("q", [1, -1]), None, "INT64", (2,), [1, -1]),
    (memoryview(bytes(6)).cast("B", (2, 3)), None, "UINT8", (2, 3), [[0, 0, 0], [0, 0, 0]]),
]

# What makes none, with a part of what the caller reads.
WRONG = [
    ([[1, 2], [3]], None, "rows are not of one length"),
    ([1, [2]], None, "rows are not of one length"),
    (["a"], "FP32", "the values are no FP32"),
    ([None], None, "the values are no FP32"),
    ([True], "FP32", "a truth value is no FP32"),
    ([1.5], "INT64", "the values are no INT64"),
    ([256], "UINT8", "the values are no UINT8"),
    ([2], "BOOL", "the values are no BOOL: one is neither true nor false"),
    ([NAN], "BOOL", "the values are no BOOL"),
    (["false"], "BOOL", "the values are no BOOL"),
    ([None], "BOOL", "the values are no BOOL"),
    ([1e6, "a"], "FP16", "the values are no FP16"),
    ([1], "BYTES", "the values are no BYTES"),
]


class TensorTest(unittest.TestCase):
    def test_values_become_tensors_and_come_back(self):
        for values, given, datatype, shape, expected in TENSORS:
            with self.subTest(values=values, datatype=given):
                tensor = Tensor(values, given)
                self.assertEqual((tensor.datatype, tensor.shape), (datatype, shape))
                self.assertEqual(tensor.tolist(), expected)
                again = Tensor.raw(tensor.data, datatype, shape)
                self.assertEqual(again, tensor)

    def test_values_that_make_none_are_the_callers(self):
        for values, datatype, text in WRONG:
            with self.subTest(values=values, datatype=datatype), self.assertRaisesRegex(InvalidInput, text):
                Tensor(values, datatype)

    def test_no_number_stays_none(self):
        for pattern in (b"\x00\x00\xc0\x7f", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\xc0\xff"):
            tensor = Tensor(array("f", pattern), "BF16")
            self.assertEqual(tensor.data, b"\xc0\x7f", pattern)

    def test_a_shape_has_as_many_elements(self):
        tensor = Tensor([1, 2, 3, 4, 5, 6])
        self.assertEqual(tensor.reshape(2, -1).tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(Tensor(range_of(6), shape=(3, 2)).shape, (3, 2))
        for shape in [(4,), (4, -1), (-1, -1)]:
            with self.subTest(shape=shape), self.assertRaisesRegex(ValueError, "6 elements do not fit"):
                tensor.reshape(shape)
        with self.assertRaisesRegex(ValueError, "3 bytes are no FP32"):
            Tensor.raw(b"abc", "FP32", [1])

    def test_rows_are_read_where_they_lie(self):
        tensor = Tensor([[1, 2], [3, 4], [5, 6]], "FP32", name="x")
        self.assertEqual(tensor[1].tolist(), [3, 4])
        self.assertEqual(tensor[-1][0], 5)
        self.assertEqual(tensor[1:].tolist(), [[3, 4], [5, 6]])
        self.assertEqual([row.tolist() for row in tensor], [[1, 2], [3, 4], [5, 6]])
        self.assertIs(tensor[1].data.obj, tensor.data)
        self.assertIs(tensor[:1][0].data.obj, tensor.data)
        self.assertIsInstance(Tensor([[1]])[0].data, memoryview)
        truths = memoryview(bytes(2)).cast("?")
        self.assertEqual(Tensor.raw(truths, "BOOL", (2,)).values.tolist(), [False, False])
        self.assertEqual(Tensor([["a"], ["b"]])[1].strings(), ["b"])
        with self.assertRaises(IndexError):
            tensor[3]

    def test_scores(self):
        for values, expected in [
            ([[NAN, 1.0, 3.0, 2.0]], 2),
            ([1.0, NAN, 3.0, 3.0, NAN], 2),
            ([NAN, -INFINITY], 1),
            ([0, -1, 7], 2),
            ([False, True], 1),
        ]:
            self.assertEqual(Tensor(values).argmax(), expected, values)
        for values in [[], [NAN, NAN]]:
            with self.assertRaisesRegex(ValueError, "no element is a number"):
                Tensor(values).argmax()
        scores = Tensor([[NAN, 1.0, 3.0, 2.0]])
        self.assertEqual(scores.top_k(2), [(2, 3.0), (3, 2.0)])
        self.assertEqual([scores.top_k(count) for count in (0, -1)], [[], []])
        rows = Tensor([[0.0, 0.0], [1000.0, 0.0]]).softmax().tolist()
        self.assertEqual(rows, [[0.5, 0.5], [1.0, 0.0]])

    def test_outputs_are_found_by_name(self):
        outputs = Tensors([Tensor([1], name="label"), Tensor([0.5], name="probabilities")])
        self.assertEqual(outputs["probabilities"].tolist(), [0.5])
        self.assertIs(outputs[-1], outputs["probabilities"])
        with self.assertRaisesRegex(KeyError, "there are `label`, `probabilities`"):
            outputs["scores"]


def range_of(count):
    return list(range(count))


class BodyTest(unittest.TestCase):
    def test_bodies_are_read_as_they_say(self):
        self.assertEqual(Sample({"a": [1]}).json, {"a": [1]})
        self.assertEqual(Sample(b'["\\ud83d\\ude00"]').json, ["\U0001f600"])
        for body in ('{"a": [1]}', ' {"a": [1]}', '{"a": [1]}\r\n', '\t{"a": [1]} '):
            self.assertEqual(Sample(body).json, {"a": [1]}, body)
        self.assertEqual([Sample(body).json for body in (" 1 ", '"{"', "null")], [1, "{", None])
        self.assertEqual(Sample("grüß").text, "grüß")
        self.assertEqual(Sample(b"a=1&b=&a=2").form, {"a": "2", "b": ""})

    def test_bodies_that_are_none_are_the_callers(self):
        for body, read, text in [
            (b"{", "json", "malformed json"),
            (b"", "json", "malformed json: the body is empty"),
            (b"\r\n", "json", "malformed json: the body is empty"),
            (b"\xef\xbb\xbf{}", "json", "malformed json: the body begins with a byte order mark"),
            (b"[NaN]", "json", "malformed json: NaN is no number"),
            (b"{} {}", "json", r"malformed json: Extra data: line 1 column 4 \(char 3\)"),
            (b" {,}", "json", r"malformed json: .*line 1 column 3 \(char 2\)"),
            (b'{"a": "\\ud83d"}', "json", "malformed json"),
            (b"\xff", "text", "not UTF-8"),
            (b"\xff", "json", "not UTF-8"),
            (b"[" * 100_000, "json", "malformed json: nested deeper than 128 levels"),
            (b'["]",' * 200 + b"1" + b"]" * 200, "json", "malformed json: nested deeper than 128 levels"),
        ]:
            with self.subTest(body=body[:10]), self.assertRaisesRegex(InvalidInput, text):
                getattr(Sample(body), read)
        with self.assertRaisesRegex(InvalidInput, "missing field `width`"):
            Sample({"box": {}}).json["box"]["width"]

    def test_numbers_are_those_of_an_object(self):
        self.assertEqual(Sample({"a": 1, "b": 2.5, "c": "x"}).numbers("b", "a"), [2.5, 1])
        self.assertEqual(Sample({"a": [1]}).fields("a"), [[1]])
        for body, text in [
            ([], "invalid type: sequence, expected an object"),
            (None, "invalid type: null, expected an object"),
            ({"b": 1}, "missing field `a`"),
            ({"a": "x"}, '`a`: invalid type: string "x", expected f32'),
            ({"a": True}, "`a`: invalid type: boolean `true`, expected f32"),
            ({"a": {}}, "`a`: invalid type: map, expected f32"),
            ({"a": -1e39}, "`a`: number out of range"),
            (b'{"a": 1e999}', "`a`: number out of range"),
        ]:
            with self.subTest(body=body), self.assertRaises(InvalidInput) as raised:
                Sample(body).numbers("a")
            self.assertEqual(str(raised.exception), text)

    def test_responses_are_what_they_are_made_of(self):
        for response, status, content_type, body in [
            (Response({"a": [1, NAN], "t": Tensor([[1.5, NAN]])}), 200, "application/json", '{"a":[1,null],"t":[[1.5,null]]}'),
            (
                Response({"a": NAN, "b": {"c": memoryview(b"a"), "d": array("f", [NAN]), "e": {1}, "f": (Color.RED, NAN)}}),
                200,
                "application/json",
                '{"a":null,"b":{"c":[97],"d":[null],"e":[1],"f":["red",null]}}',
            ),
            (Response("grüß", status=404), 404, "text/plain; charset=utf-8", "grüß"),
            (Response(b"x", content_type="image/png"), 200, "image/png", "x"),
            (Response(json=None), 200, "application/json", "null"),
        ]:
            self.assertEqual((response.status, response.content_type, response.text), (status, content_type, body))

    def test_a_circle_is_an_error(self):
        for circle in ({}, {"a": NAN}):
            circle["circle"] = [circle]
            with self.assertRaises(RecursionError):
                Response(circle)

    def test_events_are_written_as_the_standard_says(self):
        self.assertEqual(bytes(Event("a\r\nb\rc")), b"data: a\ndata: b\ndata: c\n\n")
        self.assertEqual(bytes(Event({"n": 1}, event="x\ny", id="7")), b'event: xy\nid: 7\ndata: {"n":1}\n\n')


class FunctionTest(unittest.TestCase):
    def test_decorated_functions_stay_functions_and_are_exported(self):
        @init
        def load(metadata):
            return metadata["labels"]

        @pre_inference
        def prepare(sample):
            return Tensor([sample.json["features"]])

        @post_inference
        def answer(prediction, context):
            return {"best": prediction[-1].argmax(), "user": context.header("x-user")}

        input_schema(Input("features", shape=(-1,), example=[1.0]))
        self.assertEqual(load({"labels": 1}), 1)
        self.assertEqual(prepare(Sample({"features": [1, 2]})).shape, (1, 2))
        context = Context(headers={"X-User": "7"})
        self.assertEqual(answer([Tensor([0.1, 0.9])], context), {"best": 1, "user": "7"})
        for name in ("Init", "PreInference", "PostInference", "InputSchema"):
            self.assertIn(name, globals())

    def test_a_context_says_what_it_was_made_of(self):
        context = Context(Sample("x"), method="GET", path="/a", query="k=v", metadata=[1], parameters={"p": 2})
        self.assertEqual((context.method, context.path, context.query["k"]), ("GET", "/a", "v"))
        self.assertEqual((context.metadata, context.parameters, context.sample.text), ([1], {"p": 2}, "x"))
        self.assertIsNone(context.header("x-none"))

    def test_a_required_input_has_an_example(self):
        with self.assertRaisesRegex(ValueError, "`a` is required"):
            Input("a")
        self.assertTrue(math.isfinite(Input("a", example=1.0).example))


if __name__ == "__main__":
    unittest.main()
