"""What comes with a request and what goes back: bodies, responses, server-sent events, errors."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from array import array
from collections.abc import Iterable, Mapping
from itertools import accumulate
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from . import _arrays, forms, typed
from ._coroutines import finished
from ._tensor import Tensor
from .errors import InvalidInput
from .forms import Fields

if TYPE_CHECKING:
    from .context import Context

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
EVENTS = "text/event-stream"
# Pieces of a body as it is, beside text.
PLAIN = (bytes, bytearray, memoryview)
# What numbers of JSON are; a truth value's type is another.
NUMBERS = {int, float}
# The largest number of FP32.
LARGEST = 3.4028235677973366e38
# Spaces of JSON.
SPACES = " \t\n\r"
# Levels of JSON: far fewer than the sandbox's stack has room for.
DEEPEST = 128
# What most functions return, beside responses.
_USUAL = (dict, list, str, bytes)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}


def gathered(headers: Any) -> dict[str, Any]:
    """Headers as a dict, of a mapping or of pairs: a name that is there several times has a list of values."""
    if isinstance(headers, Mapping):
        return dict(headers)
    found: dict[Any, Any] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def lines(headers: Any) -> list[tuple[str, str]]:
    """Headers as pairs of texts, one for each line; a value may be a list of texts."""
    pairs = []
    for name, value in gathered(headers).items():
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if not (isinstance(name, str) and isinstance(each, str)):
                raise TypeError(f"header {name!r} is a text or a list of texts, and not {type(each if isinstance(name, str) else name).__name__}")
            pairs.append((name, each))
    return pairs


class Answer(Exception):
    """Raised with a response: the caller gets it at once, and what is left of the request is skipped."""

    def __init__(self, response: Response) -> None:
        super().__init__(response)
        self.response = response_of(response)


class Body:
    """The body of a request. `Body({"a": 1})` makes one of JSON for a test."""

    def __init__(self, body: Any = b"", content_type: str | None = None) -> None:
        if isinstance(body, str):
            body, content_type = body.encode(), content_type or TEXT
        elif not isinstance(body, PLAIN):
            body, content_type = to_json(body), content_type or JSON
        self.body: Any = body
        self.content_type: str = content_type or ""

    @property
    def text(self) -> str:
        """As UTF-8."""
        try:
            return str(self.body, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the body is not UTF-8: {error.reason} at byte {error.start}", asked=self) from None

    @property
    def json(self) -> Any:
        """As JSON. Objects are dicts that answer for a missing key with 400."""
        text = self.text
        try:
            return from_json(text, _decoder)
        except ValueError as error:
            raise InvalidInput(f"malformed json: {error}", asked=self) from None

    def fields(self, *names: str) -> list[Any]:
        """The members of a JSON object by their names."""
        value = self.json
        if not isinstance(value, dict):
            raise InvalidInput(f"invalid type: {_kind(value)}, expected an object", asked=self)
        try:
            return [value[name] for name in names]
        except InvalidInput as missing:
            raise InvalidInput(str(missing), asked=self) from None

    def numbers(self, *names: str) -> list[float]:
        """The same of numbers that are to be FP32; what is none, or too large, is the caller's fault too."""
        values = self.fields(*names)
        # All at once, as a rule; what is wrong a look at each says.
        if values and NUMBERS.issuperset(map(type, values)) and -LARGEST <= min(values) and max(values) <= LARGEST:
            return values
        for name, value in zip(names, values):
            if type(value) not in NUMBERS:
                raise InvalidInput(f"`{name}`: invalid type: {_kind(value)}, expected f32", asked=self)
            if not -LARGEST <= value <= LARGEST:
                raise InvalidInput(f"`{name}`: number out of range", asked=self)
        return values

    @property
    def form(self) -> forms.Form:
        """The fields of a form (`forms.Form`): texts, and of `multipart/form-data` files too. A body of another type is a 415."""
        return forms.read(self.body, self.content_type, self)


class Sample(Body):
    """What pre-inference gets."""


class Response:
    """`Response({"a": 1})`, `Response("text", status=404)`, `Response(image, content_type="image/png")`.

    A `stream` in place of a body is any iterable of pieces: text, bytes, or events (`Event`, or dicts, which are the JSON
    data of one). `json=` says the same as the first argument.
    """

    def __init__(self, body: Any = b"", status: int = 200, content_type: str | None = None, headers: Any = None, *, stream: Iterable[Any] | None = None, **json: Any) -> None:
        self.status, self.headers, self.stream = status, gathered(headers) if headers else {}, stream
        if json:
            if json.keys() != {"json"}:
                raise TypeError(f"a response has no {', '.join(json)}")
            body, own = to_json(json["json"]), JSON
        elif isinstance(body, PLAIN):
            body, own = bytes(body), BYTES
        elif isinstance(body, str):
            body, own = body.encode(), TEXT
        else:
            body, own = to_json(body), JSON
        # What a stream is follows from its first piece.
        self.body, self.content_type = body, content_type or (own if stream is None else None)
        self.fields()

    def fields(self) -> list[tuple[str, str]]:
        """The headers as pairs, one for each line: what the host is told. Also looks at the status and the content type."""
        if not isinstance(self.status, int):
            raise TypeError(f"a status is a whole number, and not {type(self.status).__name__}")
        if not (self.content_type is None or isinstance(self.content_type, str)):
            raise TypeError(f"a content type is a text, and not {type(self.content_type).__name__}")
        return lines(self.headers) if self.headers else []

    @property
    def json(self) -> Any:
        """The body as JSON, for tests."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text, for tests."""
        return self.body.decode()

    def __repr__(self) -> str:
        return f"Response({self.body!r}, {self.status}, {self.content_type!r})"


@dataclasses.dataclass
class Event:
    """A server-sent event. Data that is no text is sent as JSON."""

    data: object
    event: str | None = None
    id: str | None = None

    def __bytes__(self) -> bytes:
        data = self.data if isinstance(self.data, str) else to_json(self.data).decode()
        lines = []
        for field, value in (("event", self.event), ("id", self.id)):
            if value is not None:
                # A line's end would begin another field.
                lines.append(f"{field}: " + "".join(c for c in str(value) if c not in "\r\n\0"))
        lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return ("\n".join(lines) + "\n\n").encode()


def refusal(context: Context, status: int, code: str, text: str, headers: Any = None) -> Response:
    """An error in the form of the host's own."""
    body = {"error": text, "code": code, "stage": "pre_inference", "request_id": context.request_id}
    return Response(body, status=status, headers=headers)


def answer_to(error: Any, context: Context) -> Response:
    """The response that an error of this kind is, an `InvalidInput` or an `Answer`, for the request of a context."""
    return error.response if isinstance(error, Answer) else refusal(context, error.status, error.code, str(error))


def response_of(value: Any) -> Response:
    """What a function returned as a response."""
    if type(value) in _USUAL:
        return Response(value)
    value = finished(value)
    if isinstance(value, Response):
        return value
    if hasattr(value, "__next__"):
        return Response(stream=value)
    return Response(value)


def dumped(value: Any) -> Any:
    """One of pydantic's objects, or of a typed class, as a dict; anything else as it is."""
    for dump in ("model_dump", "dict"):
        if hasattr(type(value), dump) and not isinstance(value, dict):
            value = getattr(value, dump)()
    return typed.fields(value) if typed.is_typed(type(value)) else value


def to_json(value: Any) -> bytes:
    """JSON as bytes: tensors are lists, and NaN and infinities, which JSON has not, are `null`."""
    try:
        return _written(value)
    except ValueError:
        return _written(_finite(value))


def _written(value: Any) -> bytes:
    """What `JSONEncoder.encode` does for each document, without making the encoder's closures; the dict detects circles."""
    return "".join(c_make_encoder({}, as_plain, encode_basestring, None, ":", ",", False, False, False)(value, 0)).encode()


def from_json(text: str, decoder: json.JSONDecoder | None = None) -> Any:
    """The value of a text that others wrote; objects are plain dicts unless the decoder makes others. May raise `ValueError`."""
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(text.encode()):
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    try:
        value = _decoded(text, decoder or _plain_decoder)
        if "\\u" in text:
            # Half of a surrogate pair is no character, and could not be written again.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        why = "the body is empty" if not text.strip() else error
        why = "the body begins with a byte order mark" if text.startswith("\ufeff") else why
        raise ValueError(why) from None


def _decoded(text: str, decoder: json.JSONDecoder) -> Any:
    """What `decode` does, whose look for spaces around the value takes as long as a small document."""
    if text[:1] == "{" or text[:1] == "[":
        value, end = decoder.raw_decode(text)
        if end == len(text) or not text[end:].strip(SPACES):
            return value
    return decoder.decode(text)


def content(json: Any, body: str | bytes | bytearray | memoryview | None, content_type: str | None, headers: Any) -> tuple[bytes, list[tuple[str, str]]]:
    """The body of a request to others, or of a job, as bytes, and its headers as pairs, the content type among them."""
    if body is None:
        own: str | None = None if json is None else JSON
        given = b"" if json is None else to_json(json)
    elif isinstance(body, str):
        given, own = body.encode(), TEXT
    elif isinstance(body, PLAIN):
        given, own = bytes(body), BYTES
    else:
        raise TypeError(f"a body is bytes or a text, and not {type(body).__name__}; `json=` takes others")
    listed = list(headers.items() if isinstance(headers, Mapping) else headers or ())
    for name, value in listed:
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"header {name!r} is a text, and not {type(value).__name__}")
    if not (content_type is None or isinstance(content_type, str)):
        raise TypeError(f"a content type is a text, and not {type(content_type).__name__}")
    pairs = [(name.lower(), value) for name, value in listed]
    content_type = content_type or (None if any(name == "content-type" for name, _ in pairs) else own)
    if content_type:
        pairs.append(("content-type", content_type))
    return given, pairs


def decoded(body: bytes | bytearray | memoryview) -> Any:
    """The value of a body of JSON, whose objects are `Fields`; what is none is a `ValueError` in the words of Python."""
    try:
        text = str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.strip():
        # Of an empty body `from_json` says that it is empty.
        return json.loads(text)
    return from_json(text, _decoder)


def as_plain(value: Any) -> Any:
    """An object that is none of JSON's, as what is."""
    if isinstance(value, (Tensor, memoryview, array)) or _arrays.is_array(value):
        return value.tolist()
    if typed.is_pydantic(type(value)):
        return dumped(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if isinstance(value, enum.Enum):
        return value.value
    if typed.is_typed(type(value)):
        return typed.fields(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value if value is None or isinstance(value, (str, int)) else _finite(as_plain(value))


def _is_deep(body: bytes) -> bool:
    """Whether JSON is nested deeper than the stack reaches."""
    brackets = _STRING.sub(b"", bytes(body)).translate(None, _NO_BRACKETS)
    return any(map(DEEPEST.__lt__, accumulate(map(_STEPS.__getitem__, brackets))))


def _kind(value: Any) -> str:
    """What a value of a JSON document is, in the words of every language's SDK."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "sequence"
    if isinstance(value, dict):
        return "map"
    if isinstance(value, str):
        return f"string {json.dumps(value, ensure_ascii=False)}"
    return f"boolean `{str(value).lower()}`" if isinstance(value, bool) else f"number `{value}`"


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


# Made once: making one takes as long as a small document.
_decoder = json.JSONDecoder(object_hook=Fields, parse_constant=_no_number)
_plain_decoder = json.JSONDecoder(parse_constant=_no_number)
