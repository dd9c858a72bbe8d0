"""Annotations that are texts, as `from __future__ import annotations` makes them."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator, Optional

from modelhost_guest import App, inferless, truss, typed
from modelhost_guest.web import Request

if TYPE_CHECKING:
    from nowhere import Unknown

app = App("tests")


@dataclass
class Prompt:
    text: str
    after: Optional[Prompt] = None


class Plain:
    n: int = 1
    unknown: Unknown = None


@app.post("/typed")
def take(context: Unknown, plain: Plain) -> Plain:
    return {"n": plain.n}


class WrittenTest(unittest.TestCase):
    def test_an_application_takes_types(self):
        self.assertEqual(app.answer(path="/typed", json={"n": "2"}).json, {"n": 2})
        self.assertEqual(app.answer(path="/typed", json={"n": "x"}).status, 400)
        said = next(it for it in app.operations())
        self.assertIn('"n": {"default": 1, "title": "N", "type": "integer"}', said[4])

    def test_a_truss_takes_types_and_requests(self):
        class Model:
            def predict(self, inputs: Prompt, other: Unknown = None) -> Iterator[str]:
                yield inputs.text
                yield inputs.after.text

            def embeddings(self, asked: Request):
                return [type(asked).__module__, asked.method]

        truss(Model, __name__)
        Model.app.start()
        self.assertEqual(Model.app.answer(json={"text": "a", "after": {"text": "b"}}).text, "ab")
        self.assertEqual(Model.app.answer(json={}).status, 400)
        self.assertEqual(Model.app.answer(path="/v1/embeddings", body=b"{").json, ["modelhost_guest.web", "POST"])
        said = next(it for it in Model.app.operations() if it[0] == "POST")
        self.assertIn('"title": "Prompt"', said[4])
        self.assertEqual(said[5], "text/event-stream")

    def test_inferless_inputs(self):
        @inferless.request
        class Inputs:
            n: int
            words: list[str]
            few: Optional[list[int]]

        made = [(it.name, it.datatype, it.shape, it.required) for it in inferless._annotated(Inputs)]
        self.assertEqual(made, [("n", "INT32", (1,), True), ("words", "BYTES", (-1,), True), ("few", "INT32", (-1,), False)])

    def test_a_class_of_a_function_has_itself(self):
        @dataclass
        class Local:
            inner: Optional[Local] = None

        self.assertEqual(typed.parse(Local, {"inner": {}}), Local(Local()))


if __name__ == "__main__":
    unittest.main()
