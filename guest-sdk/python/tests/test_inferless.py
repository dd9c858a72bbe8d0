"""Inferless's classes that batch or stream, called at the paths of the Open Inference Protocol."""

import unittest

from types import SimpleNamespace

from modelhost_guest import InvalidInput, Tensor, _oip, inferless

SCHEMA = {
    "name": {"datatype": "STRING", "shape": [1], "required": True, "example": ["you"]},
    "times": {"datatype": "INT32", "shape": [1], "required": False, "example": [2]},
    "marks": {"datatype": "FP32", "shape": [-1], "required": False, "example": [1.0]},
    "grid": {"datatype": "INT8", "shape": [-1, 2], "required": False, "example": [[1, 2]]},
}


class Model:
    def initialize(self):
        pass

    def infer(self, inputs, stream_output_handler=None):
        if stream_output_handler is None:
            return [{"seen": it, "of": len(inputs)} for it in inputs]
        stream_output_handler.send_streamed_output({"OUT": inputs["name"]})


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def served(**flags):
    app = inferless.serve(Model, __name__, SimpleNamespace(INPUT_SCHEMA=SCHEMA, **flags), "mine")
    app_of = getattr(app, "_served", None)
    globals()["Init"]().init("null") if app_of is None else app_of.load()
    return app


class InferlessTest(unittest.TestCase):
    def test_a_batch_is_answered_in_the_form_of_each_request(self):
        app = served(BATCH_SIZE=4)
        ada, bob = ({"inputs": [tensor("name", "BYTES", shape, [who])]} for shape, who in (([1], "ada"), ([1, 1], "bob")))
        for path in inferless.paths("mine"):
            answers = app.answer_all([{**ada, "id": "7"}, bob, {"name": "cid"}, {"inputs": []}], path=path)
            self.assertEqual([it.status for it in answers], [200, 200, 200, 400])
            seen = lambda who: '{"name":"' + who + '"}'  # noqa: E731
            self.assertEqual(
                [it.json for it in answers[:3]],
                [
                    {
                        "model_name": "mine",
                        "model_version": "1",
                        "id": "7",
                        "outputs": [tensor("seen", "BYTES", [1], [seen("ada")]), tensor("of", "INT64", [1], [3])],
                    },
                    {
                        "model_name": "mine",
                        "model_version": "1",
                        "outputs": [tensor("seen", "BYTES", [1, 1], [seen("bob")]), tensor("of", "INT64", [1, 1], [3])],
                    },
                    {"seen": {"name": "cid"}, "of": 3},
                ],
            )
            self.assertEqual(answers[3].json["error"], "input `name`: missing, expected BYTES [1]")
        self.assertEqual(app.answer_all([{"name": "dan"}])[0].json, {"seen": {"name": "dan"}, "of": 1})
        self.assertEqual(app.answer(json=ada).json["seen"], {"name": "ada"})

    def test_inputs_are_held_against_the_schema(self):
        declared = [inferless._input(name, said) for name, said in SCHEMA.items()]
        name = tensor("name", "BYTES", [1], ["a"])
        read = lambda *tensors: _oip.inputs({"inputs": [name, *tensors]}, declared)  # noqa: E731
        for given, expected in [
            (tensor("times", "INT32", [1], [3]), 3),
            (tensor("marks", "FP32", [1], [1.5]), [1.5]),
            (tensor("marks", "FP32", [0], []), []),
            (tensor("grid", "INT8", [2, 2], [1, 2, 3, 4]), [[1, 2], [3, 4]]),
            (tensor("grid", "INT8", [1, 2, 2], [[[1, 2], [3, 4]]]), [[1, 2], [3, 4]]),
        ]:
            self.assertEqual(read(given)[0][given["name"]], expected)
        for given, says in [
            (tensor("times", "INT64", [1], [3]), r"input `times`: expected INT32 \[1\], got INT64 \[1\]"),
            (tensor("times", "INT32", [2], [3, 4]), r"expected INT32 \[1\], got INT32 \[2\]"),
            (tensor("marks", "FP32", [2], [1.5]), r"1 elements do not fit \[2\]"),
            (tensor("marks", "FP32", "x", [1.5]), "the shape is no list of extents"),
            (tensor("grid", "INT8", [1, 2], [1, 768]), "the values are no INT8"),
            (tensor("other", "INT8", [1], [1]), "input `other`: unknown"),
            (name, "input `name`: given twice"),
        ]:
            with self.assertRaisesRegex(InvalidInput, says):
                read(given)
        self.assertEqual(_oip.inputs({"inputs": [tensor("x", "INT8", [2], [1, 2])]}, []), ({"x": [1, 2]}, False))

    def test_outputs_are_typed_by_their_values(self):
        for value, expected in [
            (True, ["BOOL", [1], [True]]),
            (2**63, ["UINT64", [1], [2**63]]),
            (1.5, ["FP64", [1], [1.5]]),
            ("x", ["BYTES", [1], ["x"]]),
            (b"x", ["BYTES", [1], ["x"]]),
            ([1, 2.5], ["FP64", [2], [1, 2.5]]),
            (((1, 2), (3, 4)), ["INT64", [2, 2], [1, 2, 3, 4]]),
            ({"a": 1}, ["BYTES", [1], ['{"a":1}']]),
            ([1, None], ["BYTES", [1], ["[1,null]"]]),
            (Tensor([[1.0, 2.0]]), ["FP32", [1, 2], [1.0, 2.0]]),
        ]:
            [made] = _oip.answer("m", "1", {"x": value, "none": None}, False)["outputs"]
            self.assertEqual([made["datatype"], made["shape"], made["data"]], expected)
        for value, says in [([], "an empty list has no datatype"), ([[1], [2, 3]], "not of one length"), ([1, "a"], "several kinds: int, str")]:
            with self.assertRaisesRegex(ValueError, f"output `x`: .*{says}"):
                _oip.answer("m", "1", {"x": value}, False)
        self.assertEqual(_oip.answer("m", "1", "text", False)["outputs"], [tensor("output", "BYTES", [1], ["text"])])

    def test_a_stream_takes_inputs_in_both_forms(self):
        app = served(IS_STREAMING_OUTPUT=True)
        for body in ({"name": "a"}, {"inputs": [tensor("name", "STRING", [1, 1], ["a"])]}):
            for verb in ("infer", "generate", "generate_stream", "versions/1/generate_stream"):
                answer = app.answer(path=f"/v2/models/mine/{verb}", json=body)
                self.assertEqual((answer.text, answer.content_type), ('data: {"OUT":"a"}\n\n', "text/event-stream"))
        self.assertEqual(app.answer(path="/v2/models/mine/infer", json={"inputs": []}).status, 400)


if __name__ == "__main__":
    unittest.main()
