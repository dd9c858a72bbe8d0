"""Tokens without a library."""

import unittest

from modelhost_guest import InvalidInput, TokenizerError, tokenizer


class Tokens(unittest.TestCase):
    def tearDown(self):
        tokenizer.answer_with(None)

    def test_tokens_are_what_the_test_says(self):
        words = tokenizer.load("/mnt/project/tokenizer.json")
        with self.assertRaisesRegex(RuntimeError, "answer_with"):
            words.encode("a text")
        tokenizer.answer_with(lambda *texts: [len(text) for text in texts], lambda ids: f"{ids}")
        made = words.encode(["one", "three"], ["2", "4"], padding=3)
        self.assertEqual((made.ids.name, made.ids.tolist()), ("input_ids", [[3, 1, 0], [5, 1, 0]]))
        self.assertEqual((made.mask.name, made.mask.tolist()), ("attention_mask", [[1, 1, 0], [1, 1, 0]]))
        self.assertEqual((made.types.name, made.types.shape), ("token_type_ids", (2, 3)))
        self.assertEqual(words.encode("one", truncation=1).ids.tolist(), [[3]])
        self.assertEqual(words.decode(made.ids), "[3, 1, 0, 5, 1, 0]")

    def test_what_is_said_wrongly_is_told(self):
        for wrong in ({"padding": "max"}, {"truncation": "longest"}):
            with self.assertRaisesRegex(ValueError, "none of"):
                tokenizer.load(b"").encode("a text", **wrong)

    def test_a_text_without_tokens_is_the_callers(self):
        self.assertIsInstance(TokenizerError("too long"), InvalidInput)
