"""Unit tests, without a host: python -m unittest"""

import unittest

import app
from modelhost_guest import InvalidInput, Sample, Tensor, Tensors

FLOWER = {"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}


class IrisTest(unittest.TestCase):
    def test_a_flower_becomes_one_row(self):
        self.assertEqual(app.prepare(Sample(FLOWER)), Tensor([[5.2, 3.6, 1.4, 0.3]]))

    def test_a_measurement_that_is_missing_is_named(self):
        with self.assertRaisesRegex(InvalidInput, "missing field `petal_width`"):
            app.prepare(Sample({name: FLOWER[name] for name in app.FEATURES[:3]}))

    def test_the_largest_probability_names_the_flower(self):
        app.load({"labels": ["a", "b"]})
        outputs = Tensors([Tensor([[0.25, 0.75]], name="probabilities")])
        self.assertEqual(app.answer(outputs)["class_label"], "b")
