"""Typed inputs, and requests that are served together, without a host."""

import enum
import json
import unittest
from dataclasses import dataclass, field
from typing import Iterator, Literal, Optional

from modelhost_guest import App, InvalidInput, Response, cortex, inferless, truss, typed

app = App("tests")


class Prompt:
    prompt: str
    n: int = 1


@dataclass
class Generated:
    generated_text: str


@dataclass
class Deep:
    a: list[int]
    b: Optional[float] = None
    c: Literal["x", "y"] = "x"
    d: dict[str, bool] = field(default_factory=dict)
    e: Prompt | None = None


class Color(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Chosen:
    color: Color = Color.RED
    level: Level = Level.LOW
    pair: tuple[int, int] = (1, 2)
    many: tuple[int, ...] = ()
    some: set[int] = field(default_factory=set)
    one: Literal[1] = 1
    named: dict[int, int] = field(default_factory=dict)
    other: object = object()


@dataclass
class Node:
    n: int
    inner: "list[Node]" = field(default_factory=list)


@dataclass
class Even:
    n: int

    def __post_init__(self):
        assert self.n != 7, "no seven"
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


@app.post("/generate")
def generate(context, prompt: Prompt) -> Generated:
    return Generated(prompt.prompt * prompt.n)


@app.batch("/sums")
def sums(requests):
    values = [it.json for it in requests]
    if "dict" in values:
        return {}
    return [InvalidInput("not this one") if it == "refuse" else [len(values), it] for it in values if it != "short"]


@app.batch("/typed")
def typed_batch(context, prompts: list[Prompt]):
    return [{"of": len(prompts), "prompt": it.prompt} for it in prompts]


class TypedTest(unittest.TestCase):
    def test_values_are_those_of_pydantic(self):
        made = typed.parse(Deep, {"a": ["1", 2.0], "b": 3, "d": {"q": "yes"}, "e": {"prompt": "p"}})
        self.assertEqual((made.a, made.b, made.c, made.d, made.e.n), ([1, 2], 3.0, "x", {"q": True}, 1))
        for given, expected in [
            ({}, "Input Parsing Error:\n  `a`: Field required."),
            (
                {"a": ["q", 1.5], "b": "z", "c": "r", "d": {"m": 7}, "e": {}},
                "Input Parsing Errors:\n"
                "  `a.0`: Input should be a valid integer, unable to parse string as an integer.\n"
                "  `a.1`: Input should be a valid integer, got a number with a fractional part.\n"
                "  `b`: Input should be a valid number, unable to parse string as a number.\n"
                "  `c`: Input should be 'x' or 'y'.\n"
                "  `d.m`: Input should be a valid boolean, unable to interpret input.\n"
                "  `e.prompt`: Field required.",
            ),
            ([1], "Input Parsing Error:\n  `input`: Input should be a valid dictionary or instance of Deep."),
        ]:
            with self.assertRaises(typed.InputErrors) as caught:
                typed.parse(Deep, given)
            self.assertEqual(str(caught.exception), expected)

    def test_enums_tuples_and_sets_are_those_of_pydantic(self):
        made = typed.parse(
            Chosen,
            {"color": True, "level": "2", "pair": ["3", 4], "many": ["5"], "some": [1, 1], "one": 1.0, "named": {"1": "2"}},
        )
        self.assertEqual((made.color, made.level, made.pair, made.many), (Color.ONE, Level.HIGH, (3, 4), (5,)))
        self.assertEqual((made.some, made.named, type(made.one)), ({1}, {1: 2}, int))
        for given, expected in [
            ({"color": "blue"}, "`color`: Input should be 'red' or 1."),
            ({"level": 2.5}, "`level`: Input should be 1 or 2."),
            ({"pair": [1]}, "`pair.1`: Field required."),
            ({"pair": [1, 2, 3]}, "`pair`: Tuple should have at most 2 items after validation, not 3."),
            ({"pair": "ab"}, "`pair`: Input should be a valid tuple."),
            ({"many": [1, "x"]}, "`many.1`: Input should be a valid integer, unable to parse string as an integer."),
            ({"some": 1}, "`some`: Input should be a valid set."),
            ({"one": "1"}, "`one`: Input should be 1."),
            ({"named": {"x": 1}}, "`named.x.[key]`: Input should be a valid integer, unable to parse string as an integer."),
        ]:
            with self.assertRaises(typed.InputErrors) as caught:
                typed.parse(Chosen, given)
            self.assertEqual(str(caught.exception), f"Input Parsing Error:\n  {expected}")
        choice = Literal["a", None, 2]
        self.assertIs(typed.parse(choice, None), None)
        with self.assertRaisesRegex(InvalidInput, "should be 'a', None or 2"):
            typed.parse(choice, "b")
        with self.assertRaisesRegex(InvalidInput, "Set items should be hashable"):
            typed.parse(set, [[1]])

    def test_numbers_are_read_as_pydantic_reads_them(self):
        for wanted, given, expected in [
            (int, "2.0", 2), (int, " -3.00 ", -3), (int, "1_000", 1000), (int, True, 1), (bool, 1.0, True), (bool, 0, False),
            (int, "2.", None), (int, ".0", None), (int, "2e0", None), (int, "2.0.0", None), (bool, " true", None), (bool, 2.0, None),
            (bool, None, None),
        ]:  # fmt: skip
            with self.subTest(wanted=wanted, given=given):
                if expected is None:
                    self.assertRaises(InvalidInput, typed.parse, wanted, given)
                else:
                    self.assertIs(type(typed.parse(wanted, given)), wanted)
                    self.assertEqual(typed.parse(wanted, given), expected)

    def test_what_a_class_itself_refuses_is_the_callers(self):
        @dataclass
        class Outer:
            even: Even

        for given, expected in [(1, "`even`: Value error, 1 is odd."), (7, "`even`: Assertion failed, no seven.")]:
            with self.assertRaises(typed.InputErrors) as caught:
                typed.parse(Outer, {"even": {"n": given}})
            self.assertEqual(str(caught.exception), f"Input Parsing Error:\n  {expected}")

    def test_schemas_are_json(self):
        said = typed.schema(Chosen)
        json.dumps(said)
        properties = said["properties"]
        self.assertEqual(properties["color"], {"default": "red", "title": "Color", "enum": ["red", 1]})
        self.assertEqual(properties["pair"]["default"], [1, 2])
        pair = properties["pair"]
        self.assertEqual((pair["prefixItems"], pair["minItems"], pair["maxItems"]), ([{"type": "integer"}] * 2, 2, 2))
        self.assertEqual((properties["some"]["uniqueItems"], properties["other"]), (True, {"title": "Other"}))
        answer = Response(Chosen(other=None)).json
        self.assertEqual((answer["color"], answer["level"], answer["pair"], answer["some"]), ("red", 1, [1, 2], []))

    def test_a_class_may_have_itself(self):
        self.assertEqual(typed.parse(Node, {"n": 1, "inner": [{"n": "2"}]}), Node(1, [Node(2)]))
        inner = {"title": "Inner", "type": "array", "items": {"$ref": "#/$defs/Node"}}
        node = {
            "properties": {"n": {"title": "N", "type": "integer"}, "inner": inner},
            "required": ["n"],
            "title": "Node",
            "type": "object",
        }
        self.assertEqual(typed.schema(Node), {"$defs": {"Node": node}, "$ref": "#/$defs/Node"})
        self.assertEqual(typed.schema(list[Node])["items"], {"$ref": "#/$defs/Node"})

    def test_defaults_are_not_shared(self):
        class Listed:
            items: list = []

        typed.parse(Listed, {}).items.append(1)
        self.assertEqual(typed.parse(Listed, {}).items, [])

    def test_an_application_takes_and_tells_types(self):
        self.assertEqual(app.answer(path="/generate", json={"prompt": "ab", "n": 2}).json, {"generated_text": "abab"})
        refused = app.answer(path="/generate", json={})
        self.assertEqual((refused.status, refused.json["error"]), (400, "Input Parsing Error:\n  `prompt`: Field required."))
        told = next(it for it in app.operations() if it[1] == "/generate")
        self.assertIn('"n": {"default": 1, "title": "N", "type": "integer"}', told[4])
        self.assertIn('"required": ["generated_text"], "title": "Generated"', told[6])

    def test_a_truss_is_typed(self):
        """T17, T18."""

        @truss
        class Model:
            def predict(self, inputs: Prompt) -> Generated:
                return Generated(inputs.prompt * inputs.n)

        Model.app.start()
        for given, status, code, expected in [
            ({"prompt": "ab", "n": 2}, 200, None, {"generated_text": "abab"}),
            ({}, 400, "700", {"error": "Input Parsing Error:\n  `prompt`: Field required."}),
        ]:
            answer = Model.app.answer(json=given)
            self.assertEqual((answer.status, answer.headers.get("x-baseten-error-code"), answer.json), (status, code, expected))
        told = next(it for it in Model.app.operations() if it[0] == "POST")
        self.assertIn('"title": "Prompt"', told[4])

        @truss
        class Stream:
            def predict(self, inputs: Prompt) -> Iterator[str]:
                yield inputs.prompt

        self.assertEqual(next(it for it in Stream.app.operations() if it[0] == "POST")[5], "text/event-stream")


class BatchTest(unittest.TestCase):
    def test_requests_are_served_together(self):
        self.assertEqual([it.json for it in app.answer_all([1, 2], "/sums")], [[2, 1], [2, 2]])
        first, unread, refused = app.answer_all([1, b"{", "\"refuse\""], "/sums")
        self.assertEqual((first.json, unread.status, refused.json["error"]), ([2, 1], 400, "not this one"))
        self.assertEqual(app.answer(path="/sums", json=7).json, [1, 7])
        prompts = app.answer_all([{"prompt": "a"}, {}], "/typed")
        self.assertEqual((prompts[0].json, prompts[1].status), ({"of": 1, "prompt": "a"}, 400))

    def test_no_list_is_an_error_that_says_so(self):
        answer = app.answer(path="/sums", json="dict")
        self.assertEqual(answer.status, 500)
        self.assertRegex(answer.json["error"], "returns a list, with one result for each of its 1 requests; this one returned dict")
        self.assertEqual(len(app.answer_all([1, "\"short\""], "/sums")), 1, "the host tells both of it")

    def test_batches_of_cortex_and_inferless(self):
        class Predictor:
            def predict(self, payload, headers):
                return [[len(payload), sum(it)] for it in payload]

        served = cortex.predictor(Predictor, __name__, batch=True)
        served.start({})
        self.assertEqual([it.json for it in served.answer_all([[1, 2], [3]])], [[2, 3], [2, 3]])

        class Schema:
            BATCH_SIZE = 4

        class Model:
            def initialize(self):
                self.word = "hi"

            def infer(self, batch):
                return [{"out": f"{self.word} {it['name']} of {len(batch)}"} for it in batch]

        served = inferless.serve(Model, __name__, Schema)
        # `init` of the class was exported to this module.
        Init().init("null")  # noqa: F821
        answers = served.answer_all([{"name": "a"}, {"inputs": [{"name": "name", "data": ["b"]}]}])
        self.assertEqual([it.json["out"] for it in answers], ["hi a of 2", "hi b of 2"])
