"""Tensors without a library."""

import unittest

from modelhost_guest import Tensor, tensor


class Tensors(unittest.TestCase):
    def tearDown(self):
        tensor.answer_with(None)

    def test_results_are_what_the_test_says(self):
        scores = Tensor([0.5, 2.5])
        with self.assertRaisesRegex(RuntimeError, "answer_with"):
            tensor.argmax(scores)
        asked = []
        tensor.answer_with(lambda operation, *arguments: asked.append((operation, *arguments)) or scores)
        self.assertIs(tensor.softmax(scores), scores)
        self.assertIs(tensor.concat((scores, scores), 1), scores)
        self.assertEqual(asked, [("softmax", scores, -1), ("concat", [scores, scores], 1)])
        tensor.answer_with(lambda operation, values, places, axis: places)
        self.assertEqual((tensor.gather(scores, [1, 0]).datatype, tensor.gather(scores, [1, 0]).tolist()), ("INT64", [1, 0]))
