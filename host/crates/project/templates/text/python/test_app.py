"""Unit tests, without a host: python -m unittest"""

import unittest

import app
from modelhost_guest import Context, InvalidInput, Sample, Tensor, Tensors


class TextTest(unittest.TestCase):
    def test_words_become_numbers(self):
        tensor = app.prepare(Sample({"text": "Great, zzz!"}))
        self.assertEqual(tensor, Tensor([[app.WORDS.index("great"), 0]]))

    def test_a_text_without_words_is_refused(self):
        with self.assertRaisesRegex(InvalidInput, "no words"):
            app.prepare(Sample({"text": "?!"}))

    def test_the_larger_score_is_the_label(self):
        context = Context(Sample({"text": "great zzz"}))
        answer = app.answer(Tensors([Tensor([[0.25, 0.75]])]), context)
        self.assertEqual(answer, {"label": "positive", "score": 0.75, "unknown": ["zzz"]})
