"""Buckets without a host, and Potassium's store."""

import time
import unittest

from modelhost_guest import App, KvError, kv
from modelhost_guest.store import RedisConfig, Store

app = App("tests")
requests = kv.open("requests")


@app.handler("/limited")
def limited(request):
    return requests.increment(request.json["client"], ttl=60)


def until_gone(get):
    """Waits until it gives None."""
    end = time.monotonic() + 10
    while get() is not None:
        if time.monotonic() > end:
            raise AssertionError("the value is still there")
        time.sleep(0.001)


class KvTest(unittest.TestCase):
    def setUp(self):
        kv.forget()
        self.bucket = kv.open()

    def fails(self, kind, text, function, *arguments, **named):
        with self.assertRaisesRegex(KvError, text) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.kind, kind)

    def test_an_application_counts(self):
        counts = [app.answer(path="/limited", json={"client": client}).json for client in "aba"]
        self.assertEqual(counts, [1, 1, 2])

    def test_values_are_kept_by_bucket(self):
        self.bucket.set("k", "grüß")
        self.assertEqual(kv.open("default").get("k"), "grüß".encode())
        self.assertIsNone(kv.open("other").get("k"))
        self.bucket.set_json("j", {"a": [1, None]})
        self.assertEqual((self.bucket.get_json("j"), self.bucket.get_json("none")), ({"a": [1, None]}, None))
        self.bucket.delete("k")
        self.bucket.delete("k")
        self.assertIsNone(self.bucket.get("k"))
        kv.forget()
        self.assertEqual(self.bucket.keys(), [])

    def test_steps(self):
        self.assertEqual([self.bucket.add("k", b"v"), self.bucket.add("k", b"w")], [True, False])
        self.assertEqual([self.bucket.swap("k", b"x", b"w"), self.bucket.swap("k", b"v", b"w")], [False, True])
        self.assertEqual([self.bucket.swap("new", None, b"1"), self.bucket.swap("new", None, b"2")], [True, False])
        self.assertEqual([self.bucket.increment("new"), self.bucket.increment("n", -3)], [2, -3])
        self.assertEqual((self.bucket.get("k"), self.bucket.get("n")), (b"w", b"-3"))

    def test_a_value_is_gone_when_its_time_is_over(self):
        self.bucket.set("k", b"v", ttl=0.01)
        self.bucket.increment("n", 5, ttl=0.01)
        until_gone(lambda: self.bucket.get("k"))
        until_gone(lambda: self.bucket.get("n"))
        self.assertEqual((self.bucket.keys(), self.bucket.increment("n"), self.bucket.add("k", b"")), ([], 1, True))

    def test_keys_are_listed_by_page(self):
        for key in ("b/2", "a", "b/ü", "b/1"):
            self.bucket.set(key, b"")
        self.assertEqual(self.bucket.keys("b/"), ["b/1", "b/2", "b/ü"])
        self.assertEqual(self.bucket.page("b/", limit=2), (["b/1", "b/2"], "b/2"))
        self.assertEqual(self.bucket.page("b/", "b/2", 2), (["b/ü"], None))
        for number in range(1001):
            self.bucket.set(f"many/{number}", b"")
        self.assertEqual(len(set(self.bucket.keys("many/"))), 1001)

    def test_what_cannot_be_used_is_said(self):
        self.bucket.set("text", "no number")
        self.bucket.set("most", str(2**63 - 1))
        self.fails("invalid", "the value is not a whole number", self.bucket.increment, "text")
        self.fails("invalid", "the sum is beyond 64 bits", self.bucket.increment, "most")
        self.fails("invalid", "a number beyond 64 bits", self.bucket.increment, "n", 2**63)
        self.fails("invalid", "the value of `text`", self.bucket.get_json, "text")
        self.fails("invalid", "a key of 0 bytes", self.bucket.get, "")
        self.fails("invalid", "a key of 1025 bytes", self.bucket.set, "k" * 1025, b"")
        for ttl in (0, -1, float("inf"), float("nan")):
            self.fails("invalid", "a time to live of", self.bucket.set, "k", b"", ttl)
        with self.assertRaisesRegex(TypeError, "`set_json` keeps others"):
            self.bucket.set("k", 1)

    def test_potassiums_store(self):
        for store in [Store("redis", RedisConfig("redis", 6379)), Store(backend="redis", config=RedisConfig(encoding="pickle"))]:
            self.assertIsNone(store.get("absent"))
            store.set("k", {"v": [1, "a"]})
            self.assertEqual(store.get("k"), {"v": [1, "a"]})
            store.set("k", "v", ttl=0.01)
            until_gone(lambda: store.get("k"))
        Store(config=RedisConfig(db=1)).set("k", 1)
        Store(bucket="shared/sessions").set("k", 2, ttl=None)
        self.assertEqual([kv.open(name).get("k") for name in ("db1", "shared/sessions")], [b"1", b"2"])
        self.bucket.set("text", "no json")
        self.fails("invalid", "the value of `text`", Store().get, "text")
        self.fails("invalid", "the value of `text`", Store(config=RedisConfig(encoding="pickle")).get, "text")
        for made in (lambda: Store("local"), lambda: Store(config=RedisConfig(encoding="yaml"))):
            with self.assertRaises(ValueError):
                made()


if __name__ == "__main__":
    unittest.main()
