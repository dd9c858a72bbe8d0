"""Unit tests, without a host: python -m unittest"""

import unittest

import app
from modelhost_guest import Context, InvalidInput, Tensor, Tensors

FLOWERS = Tensors([Tensor([[50, 30, 10, 0]], "FP32", name="measurements")])


class TensorsTest(unittest.TestCase):
    def test_millimetres_become_centimetres(self):
        tensor = app.prepare(FLOWERS, Context(parameters={"unit": "mm"}))
        self.assertEqual(tensor, Tensor([[5, 3, 1, 0]], "FP32"))

    def test_a_unit_that_is_none_is_refused(self):
        with self.assertRaisesRegex(InvalidInput, "parameter `unit`: expected one of cm, mm"):
            app.prepare(FLOWERS, Context(parameters={"unit": "inch"}))

    def test_each_flower_gets_its_name(self):
        app.load({"labels": ["a", "b"]})
        answer = app.answer(Tensors([Tensor([[0.25, 0.75], [1.0, 0.0]], name="probabilities")]))
        self.assertEqual(answer, {"label": Tensor(["b", "a"]), "probability": Tensor([0.75, 1.0])})
