"""What the log is told of an error: the project's own line, and the frames of its files."""

import contextlib
import io
import json
import re
import unittest

from modelhost_guest import App, InvalidInput, _host, _traces


def get(given):
    return given["missing"]


def deep(number):
    return deep(number + 1)


def ping(number):
    return pong(number)


def pong(number):
    return ping(number)


def caused():
    try:
        get({})
    except KeyError as error:
        raise RuntimeError("while it was read") from error


def handled():
    try:
        get({})
    except KeyError:
        raise RuntimeError("while it was handled")  # noqa: B904


def unsaid():
    raise Unsaid


class Unsaid(Exception):
    def __str__(self):
        raise ValueError


def raised(function):
    try:
        function()
    except Exception as error:
        # Without this function's own frame.
        return error.with_traceback(error.__traceback__.tb_next)


def line(function):
    """The first line of a function's body."""
    return function.__code__.co_firstlineno + 1


class TracesTest(unittest.TestCase):
    def test_an_error_names_the_line_of_the_project_that_is_nearest(self):
        for function, text, at, functions in [
            (lambda: get({}), "KeyError: 'missing'", line(get), ["<lambda>", "get"]),
            (lambda: json.loads("{nope"), "JSONDecodeError: Expecting .*", r"\d+", ["<lambda>"]),
            (lambda: deep(0), "RecursionError: .*", line(deep), ["<lambda>", *3 * ["deep"]]),
            (caused, "RuntimeError: while it was read", line(caused) + 3, ["caused", "get", "caused"]),
            (handled, "RuntimeError: while it was handled", line(handled) + 3, ["handled", "get", "handled"]),
            (unsaid, "Unsaid: an error that has no text", line(unsaid), ["unsaid"]),
        ]:
            first, *frames = _host.said(raised(function)).split("\n")
            self.assertRegex(first, rf"^{text} \(.*test_traces.py:{at}\)$")
            found = re.findall(r', line \d+, in (\S+)$', "\n".join(frames), flags=re.M)
            self.assertEqual(found, functions)
            # Of no line there is a text: a component has none.
            self.assertFalse(re.search("given|json.loads|decoder.py", "\n".join(frames)), frames)

    def test_what_led_to_an_error_is_told_with_it(self):
        for function, words in [(caused, "direct cause"), (handled, "During handling")]:
            frames = _traces.frames(raised(function))
            self.assertIn("\nKeyError: 'missing'\n", frames)
            self.assertIn(words, frames)
        self.assertIn("[Previous line repeated ", _traces.frames(raised(lambda: deep(0))))

    def test_what_is_told_is_bounded_and_can_be_sent(self):
        def long():
            raise ValueError("é" * 5000 + "\n" + "x" * 5000)

        for function in (long, lambda: ping(0)):
            said = _host.said(raised(function))
            self.assertLess(len(said.encode()), 4 << 10)
            self.assertIn("…", said)
        # Of many frames those of both ends are kept.
        frames = _traces.frames(raised(lambda: ping(0))).splitlines()
        self.assertIn("<lambda>", frames[1])
        self.assertIn("RecursionError", frames[-1])

        def half():
            raise ValueError("\ud800")

        self.assertEqual(_host.said(raised(half)).encode().count(b"ValueError: ?"), 2)

    def test_only_an_error_of_the_handler_costs_a_trace(self):
        class Types:
            Error_InvalidInput = Error_Internal = staticmethod(str)

        given = _host.types, getattr(_host, "Err", None), _traces.frames
        asked = []
        _host.types, _host.Err, _traces.frames = Types, list, lambda error: asked.append(error) or ""
        try:
            for error, count in [(InvalidInput("no"), 0), (raised(lambda: get({})), 1)]:
                _host.error_out(error)
                self.assertEqual(len(asked), count)
        finally:
            _host.types, _host.Err, _traces.frames = given

    def test_init_prints_the_frames_and_says_the_line(self):
        app = App()

        @app.init
        def load(metadata):
            get(metadata)

        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            said = _host.init_said(raised(lambda: app.start({})))
        self.assertRegex(said, rf"^KeyError: 'missing' \(.*test_traces.py:{line(get)}\)$")
        self.assertEqual(re.findall(r" in (\S+)$", printed.getvalue(), flags=re.M), ["<lambda>", "load", "get"])


if __name__ == "__main__":
    unittest.main()
