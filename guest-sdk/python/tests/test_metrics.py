"""Metrics without a host."""

import asyncio
import json
import math
import pathlib
import unittest

from modelhost_guest import App, metrics
from modelhost_guest.metrics import Counter, Gauge, Histogram

FLOWERS = Counter("flowers", "Flowers by species", ["species", "size"])
REQUESTS = Counter("requests_total", "")
AGE = Gauge("age_seconds", "")
WORDS = Histogram("words", "", ["of"], buckets=(1, 10, math.inf))
SECONDS = Histogram("seconds", "")

# The rules of all SDKs and of the host: beside a copy of these tests, or in the repository.
HERE = pathlib.Path(__file__).resolve().parent
PLACES = [HERE / "metrics.json", *(it / "tests/languages/metrics.json" for it in HERE.parents)]
RULES = json.loads(next(it for it in PLACES if it.is_file()).read_text(encoding="utf-8"))

app = App("tests")


@app.handler("/count")
@SECONDS.time()
def count(request):
    REQUESTS.inc()
    return metrics.value("requests_total")


class MetricsTest(unittest.TestCase):
    def setUp(self):
        metrics.forget()

    def test_an_application_counts(self):
        self.assertEqual([app.answer(path="/count").json for _ in range(2)], [1, 2])
        self.assertEqual(metrics.value("seconds_count"), 2)

    def test_numbers_are_kept_by_series(self):
        FLOWERS.labels("setosa", 1).inc()
        FLOWERS.labels(size="1", species="setosa").inc(2.5)
        self.assertEqual(metrics.value("flowers_total", {"species": "setosa", "size": "1"}), 3.5)
        self.assertIsNone(metrics.value("flowers_total", {"species": "virginica", "size": "1"}))
        AGE.set(12)
        AGE.inc()
        AGE.dec(3)
        self.assertEqual(metrics.value("age_seconds"), 10)
        for number in (3, 5):
            WORDS.labels("x").observe(number)
        self.assertEqual([metrics.value(f"words_{it}", {"of": "x"}) for it in ("count", "sum")], [2, 8])
        metrics.forget()
        self.assertIsNone(metrics.value("age_seconds"))

    def test_times_are_measured(self):
        @SECONDS.time()
        async def later():
            await asyncio.sleep(0.01)
            raise KeyError

        with self.assertRaises(KeyError):
            asyncio.run(later())
        self.assertGreaterEqual(metrics.value("seconds_sum"), 0.01)
        with SECONDS.time(), AGE.time():
            pass
        self.assertEqual((metrics.value("seconds_count"), metrics.value("age_seconds") < 10), (2, True))

    def test_names_and_labels_have_the_rules_of_the_host(self):
        kinds = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
        cases = [(kinds[it["kind"]], it["name"] * it.get("times", 1), [], it["good"]) for it in RULES["names"]]
        cases += [(Gauge, "a", it["labels"], it["good"]) for it in RULES["labels"]]
        for kind, name, labels, is_good in cases:
            with self.subTest(kind=kind, name=name, labels=labels):
                if is_good:
                    kind(name, "", labels)
                else:
                    self.assertRaises(ValueError, kind, name, "", labels)

    def test_what_cannot_be_used_is_said(self):
        for made, text in [
            (lambda: Counter("a" * 101, ""), "a name of 101 characters"),
            (lambda: Counter("a-b", ""), "the name `a-b` has other characters"),
            (lambda: Counter("modelhost_a", ""), "begins with `modelhost_`"),
            (lambda: Counter("a_bucket", ""), "ends in `_bucket`"),
            (lambda: Counter("a", "", ["le"]), "the label `le` of `a_total`"),
            (lambda: Counter("a", "", ["__a"]), "the label `__a`"),
            (lambda: Counter("a", "", ["b", "b"]), "the label `b` twice"),
            (lambda: Counter("a", "", "bcdefghij"), None),
            (lambda: Counter("a", "", list("bcdefghij")), "9 labels, expected at most 8"),
            (lambda: Counter("a", "x\ny"), "one line"),
            (lambda: Counter("a", "x\ry"), "one line"),
            (lambda: Counter("a", "é" * 101), "at most 200 bytes"),
            (lambda: Histogram("a", "", buckets=(2, 1)), "the bound 1.0"),
            (lambda: Histogram("a", "", buckets=range(31)), "31 buckets"),
            (lambda: FLOWERS.inc(), "a value for species, size"),
            (lambda: FLOWERS.labels("a"), "1 values for the labels species, size"),
            (lambda: FLOWERS.labels(species="a"), "has the labels species, size, and not species"),
            (lambda: FLOWERS.labels("é" * 101, 1).inc(), "a value of 202 bytes of the label `species`"),
            (lambda: REQUESTS.inc(-1), "-1.0 is not a finite number of at least 0"),
            (lambda: AGE.set(math.inf), "inf is not a finite number"),
            (lambda: SECONDS.observe(math.nan), "nan is not a finite number"),
        ]:
            with self.assertRaisesRegex(TypeError if text is None else ValueError, text or "are a list"):
                made()
        self.assertEqual([metrics.value(name) for name in ("requests_total", "age_seconds", "seconds_count")], [None] * 3)


if __name__ == "__main__":
    unittest.main()
