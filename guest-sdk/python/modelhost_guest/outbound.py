"""Requests to other servers, by the library `outbound`, which `modelhost build` puts into the handler.

modelhost.toml names it, `[build]` with `with = ["outbound"]`, and lists at the endpoint where requests may go, `allow_outbound`.
In a test `answer_with` says what others answer.
"""

from __future__ import annotations

import json as _json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _held, _host
from .messages import JSON, PLAIN, TEXT, content, from_json, to_json

if TYPE_CHECKING:
    Bytes = bytes
    HeadersGiven = Mapping[str, str] | Iterable[tuple[str, str]]

# Most bytes of a body that is read whole.
LONGEST = 16 << 20
# Times where none is said, in seconds.
TIMEOUT, PAUSE = 30, 1.0
# A secret in base64; with nothing behind it, it is empty.
ENCODED = "whsec_"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
TEXTS = {
    "denied": "`allow_outbound` does not list where the request goes",
    "prohibited": "the name leads to an address that is not of the internet, and not listed itself",
    "timed-out": "there was no answer in time",
    "failed": "the request failed: {}",
    "too-long": f"the body is longer than {LONGEST} bytes",
    "status": "the receiver answered with status {}",
}

_stand_in = None


class OutboundError(Exception):
    """Why there is no response, or no more of it. Without more it is the handler's failure, a 500.

    `kind` is one of denied, prohibited, invalid, timed-out, failed, too-long, and of a webhook status, whose number is `status`.
    """

    def __init__(self, kind: str, detail: Any = "") -> None:
        super().__init__(TEXTS.get(kind, "{}").format(detail))
        self.kind = kind
        self.status = detail if kind == "status" else None


class Headers(Mapping):
    """Headers, each by its name in any case: the first value. `pairs` are all of them, names in lower case."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = [(name.lower(), value) for name, value in pairs]
        self._first = dict(reversed(self.pairs))

    def __getitem__(self, name: str) -> str:
        return self._first[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self.pairs))

    def __len__(self) -> int:
        return len(self._first)

    def __repr__(self) -> str:
        return f"Headers({self.pairs!r})"


class Response:
    """A server's answer, of any status: `status`, `headers`, and a body that is read once, whole or piece by piece.

    `for piece in response` reads it as it comes. It is given up at the request's end, or with `close()`. A test makes one as a
    handler makes its own: `Response({"a": 1})` is JSON, text and bytes are what they are, and an iterator has pieces.
    """

    def __init__(self, body: Any = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        pairs, own = list((headers or {}).items()), None
        if isinstance(body, (str, *PLAIN)):
            body, own = iter([body]), TEXT if isinstance(body, str) else None
        elif not hasattr(body, "__next__"):
            body, own = iter([to_json(body)]), JSON
        self.headers = Headers([*pairs, *([("content-type", own)] if own else ())])
        self.status = status
        self._body: _Body | _Pieces | None = _Pieces(body)

    def read(self) -> Bytes | None:
        """The next piece of the body, or None at its end."""
        if self._body is None:
            return None
        try:
            piece = self._body.read()
        except OutboundError:
            self.close()
            raise
        if piece is None:
            self.close()
        return piece

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read, None)

    def bytes(self) -> Bytes:
        """The rest of the body, 16 MiB at most."""
        pieces, length = [], 0
        for piece in self:
            length += len(piece)
            if length > LONGEST:
                self.close()
                raise OutboundError("too-long")
            pieces.append(piece)
        return b"".join(pieces)

    def text(self) -> str:
        """The rest of the body as text; what is no UTF-8 in it is replaced by U+FFFD."""
        return self.bytes().decode(errors="replace")

    def json(self) -> Any:
        """The rest of the body as JSON."""
        try:
            return from_json(self.bytes().decode())
        except ValueError as error:
            raise OutboundError("failed", f"its json: {error}") from None

    def close(self) -> None:
        """Reads no more."""
        body, self._body = self._body, None
        if body is not None:
            body.close()

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Response({self.status})"


class Request:
    """A request as a test's function gets it: `method`, `url`, `headers`, `body`, `timeout` in seconds."""

    def __init__(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, timeout: float | None) -> None:
        self.method, self.url, self.headers, self.body, self.timeout = method, url, Headers(headers), body, timeout

    def json(self) -> Any:
        """The body as JSON."""
        return _json.loads(self.body)


def request(method: str, url: str, *, headers: HeadersGiven | None = None, json: Any = None, body: str | bytes | None = None, content_type: str | None = None, timeout: float | None = 30) -> Response:
    """Sends a request, with `json` or `body`, a text or bytes, and waits for the head of the response, of any status.

    Headers are a dict or pairs. No redirect is followed. `timeout` is the most seconds to the head of the response, and between
    two pieces of its body, 60 at most; a connection has 10. 0 or None is the usual time. May raise `OutboundError`.
    """
    try:
        given, pairs = content(json, body, content_type, headers)
    except UnicodeEncodeError as error:
        raise _no_text("body", error) from None
    return _sent(_text(method, "method").upper(), _text(url, "URL"), pairs, given, timeout)


def get(url: str, headers: HeadersGiven | None = None, timeout: float | None = 30) -> Response:
    """A `GET`, see `request`."""
    return request("GET", url, headers=headers, timeout=timeout)


def post(url: str, *, json: Any = None, body: str | bytes | None = None, content_type: str | None = None, headers: HeadersGiven | None = None, timeout: float | None = 30) -> Response:
    """A `POST`, see `request`."""
    return request("POST", url, headers=headers, json=json, body=body, content_type=content_type, timeout=timeout)


def send_webhook(url: str, value: Any, *, secret: str | None = None, attempts: int = 1, pause: float = PAUSE, timeout: float | None = TIMEOUT) -> Response:
    """Sends a value as JSON by `POST`, and gives the response, which is a 2xx.

    With a secret it is signed as Standard Webhooks says: `whsec_` and base64, or any other text; an empty one is an error of the
    kind `invalid`, and None is no signature. The next attempt follows if there was no response, or 408, 429 or a 5xx, after
    `pause` seconds, each pause twice the one before, or after the seconds that `retry-after` says, a minute at most; `timeout` is
    for one attempt, as of `request`. May raise `OutboundError`. In a test it is one request, without a signature.
    """
    if secret is not None and _text(secret, "secret") in ("", ENCODED):
        raise OutboundError("invalid", "the secret is empty")
    if not isinstance(attempts, int) or isinstance(attempts, bool):
        raise TypeError(f"a number of attempts is an int, and not {type(attempts).__name__}")
    if not 0 <= attempts < 2**31:
        raise ValueError(f"{attempts} attempts, expected 1 to {2**31 - 1}")
    try:
        given = to_json(value)
    except UnicodeEncodeError as error:
        raise _no_text("body", error) from None
    pause = _milliseconds(pause, PAUSE)
    _checked("POST", url, ())
    if _host.types is not None:
        library = _library()
        webhook = library.Webhook(url, given, secret, attempts, pause, _milliseconds(timeout, TIMEOUT))
        return _asked(library.send_webhook, webhook)
    response = _sent("POST", url, [("content-type", JSON)], given, timeout)
    if not 200 <= response.status < 300:
        raise OutboundError("status", response.status)
    return response


def answer_with(answer: Callable[[Request], Response] | None) -> None:
    """For tests: a function from a `Request` to a `Response`, or that raises `OutboundError("timed-out")`, say."""
    global _stand_in
    _stand_in = answer


class _Body:
    """A body that the library reads."""

    def __init__(self, handle: Any) -> None:
        self._handle = _held.hold(handle)

    def read(self) -> bytes | None:
        if not _held.is_held(self._handle):
            raise OutboundError("failed", "the response is closed")
        piece = _told(self._handle.read)
        return None if piece is None else bytes(piece)

    def close(self) -> None:
        _held.release(self._handle)


class _Pieces:
    """A body in a test."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces: Iterator[Any] = (piece for piece in pieces if piece)

    def read(self) -> bytes | None:
        piece = next(self._pieces, None)
        return piece.encode() if isinstance(piece, str) else piece

    def close(self) -> None:
        self._pieces = iter(())


def _sent(method: str, url: str, headers: list[tuple[str, str]], body: bytes, timeout: float | None) -> Response:
    _checked(method, url, headers)
    milliseconds = _milliseconds(timeout, TIMEOUT)
    if _host.types is not None:
        library = _library()
        return _asked(library.send, library.Request(method, url, headers, body, milliseconds))
    if _stand_in is None:
        raise RuntimeError("the test does not say what others answer: `outbound.answer_with`")
    return _stand_in(Request(method, url, headers, body, timeout or TIMEOUT))


def _library() -> Any:
    if _host.requests is None:
        raise RuntimeError(
            "the handler imports no library `outbound`: add `include modelhost:outbound/imports@0.1.0;` to the world in "
            "wit/world.wit"
        )
    return _host.requests


def _asked(send: Callable[..., Any], given: Any) -> Response:
    made = _told(send, given)
    response = Response.__new__(Response)
    response.status, response.headers, response._body = made.status, Headers(made.headers), _Body(made.body)
    return response


def _told(call: Callable[..., Any], *given: Any) -> Any:
    """Calls the library, and says its errors as this module does."""
    try:
        return call(*given)
    except _host.Err as error:
        raise OutboundError(_host.kind(error.value), getattr(error.value, "value", "")) from None


def _text(given: Any, what: str) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the {what} is a text, and not {type(given).__name__}")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise _no_text(what, error) from None
    return given


def _no_text(what: str, error: UnicodeEncodeError) -> OutboundError:
    """Of a text with half a surrogate pair, which is no character."""
    return OutboundError("invalid", f"the {what} is no text: {error.reason} at {error.start}")


def _checked(method: str, url: str, headers: Iterable[tuple[str, str]]) -> None:
    """Refuses what the library would, so that a test sees it too."""
    if not _NAME.fullmatch(method):
        raise OutboundError("invalid", "the method is none")
    if not _text(url, "URL").startswith(("http://", "https://")):
        raise OutboundError("invalid", "the URL does not begin with `http://` or `https://`")
    for name, value in headers:
        if not _NAME.fullmatch(name) or _NO_VALUE.search(_text(value, "header")):
            raise OutboundError("invalid", "a header cannot be sent")


def _milliseconds(seconds: Any, usual: float) -> int:
    """Of a time, or of the usual one if none is said."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float))):
        raise TypeError(f"a time is a number of seconds, and not {type(seconds).__name__}")
    seconds = seconds or usual
    if not 0 < seconds * 1000 < 2**32 - 1:
        raise ValueError(f"a time of {seconds} seconds")
    return math.ceil(seconds * 1000)
