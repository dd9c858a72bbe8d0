"""Requests to other servers: without a library, and with one that stands in for the component's."""

import contextlib
import io
import unittest
from types import SimpleNamespace
from unittest.mock import patch

from modelhost_guest import App, OutboundError, _host, outbound, potassium

app = App("tests")


@app.handler("/labels")
def labels(request):
    found = outbound.get("https://labels.example.com/v1", headers={"X-Key": "k"})
    return {"status": found.status, "kind": found.headers.get("x-kind"), "labels": found.json()}


@app.handler("/copy")
def copy(request):
    for piece in outbound.post("https://a.example", json=request.json):
        yield piece


class Asked:
    """A function for `answer_with` that keeps what it was asked."""

    def __init__(self, *answers):
        self.requests, self.answers = [], iter(answers)

    def __call__(self, request):
        self.requests.append(request)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


class OutboundTest(unittest.TestCase):
    def tearDown(self):
        outbound.answer_with(None)

    def asked(self, *answers):
        asked = Asked(*answers)
        outbound.answer_with(asked)
        return asked.requests

    def fails(self, kind, text, function, *arguments, **named):
        with self.assertRaisesRegex(OutboundError, text) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.kind, kind)
        return caught.exception

    def test_a_test_says_what_others_answer(self):
        with self.assertRaisesRegex(RuntimeError, "outbound.answer_with"):
            outbound.get("https://a.example")
        seen = self.asked(outbound.Response(["cat"], headers={"X-Kind": "b"}))
        answer = app.answer(path="/labels", json=None).json
        self.assertEqual(answer, {"status": 200, "kind": "b", "labels": ["cat"]})
        self.assertEqual((seen[0].method, seen[0].url), ("GET", "https://labels.example.com/v1"))
        self.assertEqual((seen[0].headers["x-KEY"], seen[0].body, seen[0].timeout), ("k", b"", 30))
        self.asked(OutboundError("denied"))
        with self.assertRaisesRegex(OutboundError, "`allow_outbound` does not list"):
            app.answer(path="/labels")

    def test_bodies_are_sent_with_their_types(self):
        for given, body, content_type in (
            ({"json": {"a": [1]}}, b'{"a":[1]}', "application/json"),
            ({"body": "text"}, b"text", "text/plain; charset=utf-8"),
            ({"body": memoryview(b"\0")}, b"\0", "application/octet-stream"),
            ({"body": b"\0", "content_type": "image/png"}, b"\0", "image/png"),
            ({"body": b"\0", "headers": [("Content-Type", "a/b")]}, b"\0", "a/b"),
            ({}, b"", None),
        ):
            seen = self.asked(outbound.Response(status=204))
            self.assertEqual(outbound.post("https://a.example", **given).status, 204)
            self.assertEqual((seen[0].body, seen[0].headers.get("content-type")), (body, content_type))
        self.asked(outbound.Response())
        for wrong in ({"body": 1}, {"headers": {"a": 1}}, {"headers": {1: "a"}}):
            with self.assertRaises(TypeError):
                outbound.post("https://a.example", **wrong)
        with self.assertRaises(TypeError):
            outbound.post("https://a.example", body="a", content_type=1)
        for wrong in (-1, 2**32, 10**400, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "a time of"):
                outbound.get("https://a.example", timeout=wrong)
        for wrong in ({"url": b"https://a.example"}, {"url": "https://a.example", "timeout": True}):
            with self.assertRaises(TypeError):
                outbound.get(**wrong)
        for none in (0, 0.0, None):
            seen = self.asked(outbound.Response())
            outbound.get("https://a.example", timeout=none)
            self.assertEqual(seen[0].timeout, 30)

    def test_what_the_library_would_refuse_is_refused_in_a_test_too(self):
        seen, url, half = self.asked(), "https://a.example", "\ud800"
        for given in (
            {"url": "ftp://a.example"},
            {"url": "a.example"},
            {"url": url + half},
            {"url": url, "headers": {"x y": "1"}},
            {"url": url, "headers": {"": "1"}},
            {"url": url, "headers": {"a": "1\r\nb: 2"}},
            {"url": url, "headers": {"a\n": "1"}},
            {"url": url, "headers": {"a": "\0"}},
            {"url": url, "headers": {"a": half}},
            {"url": url, "body": half},
            {"url": url, "json": [half]},
            {"url": url, "body": "a", "content_type": half},
        ):
            self.fails("invalid", "", outbound.post, **given)
        self.fails("invalid", "", outbound.request, "A B", url)
        self.fails("invalid", "", outbound.request, half, url)
        for webhook in (("ftp://a", 1), (url, half)):
            self.fails("invalid", "", outbound.send_webhook, *webhook)
        self.fails("invalid", "", outbound.send_webhook, url, 1, secret=half)
        for secret in ("", "whsec_"):
            self.fails("invalid", "the secret is empty", outbound.send_webhook, url, 1, secret=secret)
        self.assertEqual(seen, [])

    def test_json_of_others_is_read_as_a_body_is(self):
        for body in (b"", b"[NaN]", b"[" * 100_000, b'"\\ud800"', b"\xff", b"\xef\xbb\xbf1"):
            self.asked(outbound.Response(body))
            self.fails("failed", "its json", outbound.get("https://a.example").json)
        self.asked(outbound.Response({"a": 1}))
        with self.assertRaises(KeyError):
            outbound.get("https://a.example").json()["b"]

    def test_bodies_are_read_whole_or_in_pieces(self):
        self.asked(*(outbound.Response(iter(it)) for it in (["one", b"", b"two"], ["a", "b"])))
        self.assertEqual(app.answer(path="/copy", json=1).text, "onetwo")
        response = outbound.request("put", "https://a.example")
        self.assertEqual((response.read(), response.text(), response.bytes()), (b"a", "b", b""))

        def broken():
            yield b"{"
            raise OutboundError("failed", "the response broke off")

        self.asked(*map(outbound.Response, (broken(), b"\xff", b"{", iter([bytes(2**20)] * 17))))
        get = lambda: outbound.get("https://a.example")  # noqa: E731
        self.fails("failed", "the request failed: the response broke off", get().json)
        self.assertEqual(get().text(), "\ufffd")
        self.fails("failed", "its json", get().json)
        self.fails("too-long", "longer than 16777216 bytes", get().bytes)

    def test_headers_are_found_in_any_case(self):
        headers = outbound.Headers([("Set-Cookie", "a"), ("x-b", "c"), ("set-cookie", "d")])
        self.assertEqual((headers["set-Cookie"], headers.get("X-B"), headers.get("x-c")), ("a", "c", None))
        self.assertEqual((list(headers), len(headers)), (["set-cookie", "x-b"], 2))
        self.assertEqual(headers.pairs, [("set-cookie", "a"), ("x-b", "c"), ("set-cookie", "d")])

    def test_a_response_of_a_test_has_the_headers_of_one(self):
        for body, headers, expected in (
            ({"a": 1}, None, "application/json"),
            ("text", None, "text/plain; charset=utf-8"),
            ({"a": 1}, {"Content-Type": "a/b"}, "a/b"),
            (b"bytes", None, None),
        ):
            self.assertEqual(outbound.Response(body, headers=headers).headers.get("content-type"), expected)

    def test_a_webhook_is_a_post_of_json(self):
        seen = self.asked(outbound.Response(status=202), outbound.Response(status=410))
        self.assertEqual(outbound.send_webhook("https://a.example", [1], secret="s", attempts=5).status, 202)
        self.assertEqual((seen[0].method, seen[0].json()), ("POST", [1]))
        error = self.fails("status", "answered with status 410", outbound.send_webhook, "https://a.example", 1)
        self.assertEqual(error.status, 410)
        for wrong in ({"attempts": -1}, {"attempts": 2**31}, {"pause": -1}):
            with self.assertRaises(ValueError):
                outbound.send_webhook("https://a.example", 1, **wrong)
        for wrong in ({"attempts": 1.0}, {"attempts": True}, {"secret": b"s"}, {"pause": "1"}):
            with self.assertRaises(TypeError):
                outbound.send_webhook("https://a.example", 1, **wrong)

    def test_potassiums_goes_on_if_it_fails(self):
        seen = self.asked(outbound.Response(status=500), OutboundError("failed", "refused"))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertIsNone(potassium.send_webhook("https://a.example", {"output": 1}))
            self.assertIsNone(potassium.send_webhook("https://a.example", {"output": 1}))
        self.assertEqual((seen[0].method, seen[0].body), ("POST", b'{"output":1}'))
        expected = "Webhook to https://a.example failed with connection error: the request failed: refused\n"
        self.assertEqual(printed.getvalue(), expected)

    def test_potassiums_never_raises(self):
        outbound.answer_with(None)
        for url, json, why in (
            ("https://a.example", 1, "the test does not say what others answer"),
            (None, 1, "Webhook to None failed with connection error: the URL is a text, and not NoneType"),
            ("https://a.example", object(), "object is no JSON"),
            ("https://\ud800", 1, "the URL is no text"),
        ):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertIsNone(potassium.send_webhook(url, json))
            self.assertIn(why, printed.getvalue())
            printed.getvalue().encode()


class Err(Exception):
    def __init__(self, value):
        self.value = value


class Error_Denied:
    pass


class Error_Failed:
    def __init__(self, value):
        self.value = value


class Error_Status(Error_Failed):
    pass


class Body:
    """A body that the library has; `open` are those that are not given up yet."""

    open = set()

    def __init__(self, *pieces):
        self.pieces = iter(pieces)
        self.open.add(self)

    def read(self):
        piece = next(self.pieces, None)
        if isinstance(piece, Exception):
            raise piece
        return piece

    def __exit__(self, *_):
        self.open.remove(self)


class LibraryTest(unittest.TestCase):
    def setUp(self):
        self.given, self.answer = [], None
        record = lambda *parts: parts  # noqa: E731
        library = SimpleNamespace(Request=record, Webhook=record, send=self.send, send_webhook=self.send)
        for name, value in {"types": SimpleNamespace(), "requests": library, "Err": Err}.items():
            patched = patch.object(_host, name, value, create=True)
            patched.start()
            self.addCleanup(patched.stop)
        Body.open.clear()

    def send(self, given):
        self.given.append(given)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(status=200, headers=[("a", "b")], body=self.answer)

    def test_the_library_is_given_what_the_interface_says(self):
        self.answer = Body(b"one", b"two")
        self.assertEqual(outbound.post("http://a", json=1, headers={"B": "c"}, timeout=0.0015).text(), "onetwo")
        self.assertEqual(Body.open, set(), "read to its end")
        headers = [("b", "c"), ("content-type", "application/json")]
        self.assertEqual(self.given.pop(), ("POST", "http://a", headers, b"1", 2))
        self.answer = Body()
        outbound.send_webhook("http://a", 1, secret="s", attempts=3, pause=0.5, timeout=2)
        self.assertEqual(self.given.pop(), ("http://a", b"1", "s", 3, 500, 2000))
        self.answer = Body()
        outbound.send_webhook("http://a", 1, pause=0, timeout=None).close()
        self.assertEqual(self.given.pop(), ("http://a", b"1", None, 1, 1000, 30_000))
        for kind, given in (("invalid", {"secret": ""}), ("invalid", {"url": "ftp://a"})):
            with self.assertRaises(OutboundError) as caught:
                outbound.send_webhook(**{"url": "http://a", "value": 1, **given})
            self.assertEqual((caught.exception.kind, self.given), (kind, []))

    def test_its_errors_are_those_of_the_sdk(self):
        for value, kind, status in ((Error_Denied(), "denied", None), (Error_Status(410), "status", 410)):
            self.answer = Err(value)
            with self.assertRaises(OutboundError) as caught:
                outbound.send_webhook("http://a", 1)
            self.assertEqual((caught.exception.kind, caught.exception.status), (kind, status))
        self.answer = Body(b"one", Err(Error_Failed("the response broke off")))
        with self.assertRaisesRegex(OutboundError, "the request failed: the response broke off"):
            outbound.get("http://a").bytes()
        self.assertEqual(Body.open, set())

    def test_bodies_go_with_the_request(self):
        app = App("tests")

        @app.get("/first")
        def first(request):
            return outbound.get("http://a").read()

        self.answer = Body(b"one", b"two")
        self.assertEqual(app.answer("GET", "/first").body, b"one")
        self.assertEqual(Body.open, set())
        self.answer = Body(b"one")
        with outbound.get("http://a") as response:
            self.assertEqual(len(Body.open), 1)
        response.close()
        self.assertEqual((Body.open, response.read()), (set(), None))

    def test_a_response_that_is_kept_is_closed(self):
        app, kept = App("tests"), []

        @app.get("/first")
        def first(request):
            kept.append(outbound.get("http://a"))

        self.answer = Body(b"one")
        app.answer("GET", "/first")
        with self.assertRaisesRegex(OutboundError, "the response is closed") as caught:
            kept[0].read()
        self.assertEqual((caught.exception.kind, kept[0].read()), ("failed", None))

    def test_a_world_without_it_says_what_to_add(self):
        with patch.object(_host, "requests", None):
            with self.assertRaisesRegex(RuntimeError, "include modelhost:outbound/imports"):
                outbound.get("http://a")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                potassium.send_webhook("http://a", 1)
        for part in ("Webhook to http://a was not sent", '`with = ["outbound"]`', "`allow_outbound`"):
            self.assertIn(part, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
