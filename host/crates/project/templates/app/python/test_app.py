"""Unit tests, without a host: python -m unittest"""

import unittest

from app import app
from modelhost_guest import Tensor, models

FLOWER = [5.2, 3.6, 1.4, 0.3]


class AppTest(unittest.TestCase):
    def setUp(self):
        app.start({"labels": ["a", "b"]})
        models.answer_with({"iris": lambda inputs: {"probabilities": Tensor([[0.25, 0.75]])}})

    def test_one_flower_is_named(self):
        answer = app.answer(path="/classify", json={"measurements": FLOWER})
        self.assertEqual(answer.json, {"label": "b", "probability": 0.75})

    def test_what_is_missing_is_named(self):
        answer = app.answer(path="/classify", json={})
        self.assertEqual((answer.status, answer.json["error"]), (400, "missing field `measurements`"))

    def test_what_is_wrong_is_the_callers_to_correct(self):
        for measurements in (FLOWER[:3], "5.2", ["a"] * 4, None):
            answer = app.answer(path="/classify", json={"measurements": measurements})
            self.assertEqual((answer.status, answer.json["error"]), (400, "`measurements` are 4 numbers"))
        answer = app.answer(path="/stream", json={"flowers": 5})
        self.assertEqual((answer.status, answer.json["error"]), (400, "`flowers` is a list of measurements"))

    def test_several_are_named_one_after_another(self):
        answer = app.answer(path="/stream", json={"flowers": [FLOWER, FLOWER]})
        self.assertEqual(answer.text, 'data: {"label":"b","probability":0.75}\n\n' * 2)

    def test_a_job_is_answered_at_once(self):
        self.assertEqual(app.answer(path="/jobs", json={"flowers": []}).json, {"started": True})
