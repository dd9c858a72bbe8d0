"""Forms: the fields and files of a body that is `application/x-www-form-urlencoded` or `multipart/form-data` (RFC 7578)."""

from __future__ import annotations

import io
import re
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from .errors import InvalidInput, UnsupportedMediaType

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
# Parts of a form, bytes of a part's headers, characters of a boundary.
MOST_PARTS = 1000
LONGEST_HEADERS = 8192
LONGEST_BOUNDARY = 70
# `; name=value`, or `; name="value"`; nothing behind a last semicolon.
_PARAMETER = re.compile(r'[ \t]*;[ \t]*(?:([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]*)))?', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\])')
# What browsers write in a name for a quote and for the ends of lines.
_BROWSERS = re.compile("%(22|0[aAdD])")
# What is behind a boundary: two hyphens if it is the last one, spaces, the end of the line.
_LINE = re.compile(rb"(--)?[ \t]*(?:\r\n|\Z)")
_EXTENDED = re.compile(r"([^']*)'[^']*'(.*)", re.DOTALL)
_CHARSETS = {"utf-8", "utf8", "us-ascii", "iso-8859-1", "latin-1"}


class Fields(dict):
    """An object of a request's JSON: a key that is not there is the caller's fault."""

    def __missing__(self, key: str) -> None:
        raise InvalidInput(f"missing field `{key}`", asked=self)


class Form(Fields):
    """The fields of a form: texts, and `UploadFile`s. Of a repeated one the last; `getlist` has all."""

    def __init__(self, pairs: Any = ()) -> None:
        self._pairs = list(pairs)
        super().__init__(self._pairs)

    def getlist(self, name: str) -> list[Any]:
        """All values of a field, in their order."""
        return [value for own, value in self._pairs if own == name]

    def multi_items(self) -> list[tuple[str, Any]]:
        """All fields, each with its value, in their order."""
        return list(self._pairs)


class UploadFile:
    """A file of a form. `filename` is what the client calls it: a text, which is no path to be trusted.

    `data` is all of it. What Starlette awaits is awaited here too: `await file.read()`.
    """

    def __init__(self, data: Any, filename: str = "", content_type: str = "", headers: Any = None) -> None:
        self.data, self.filename, self.content_type = data, filename, content_type
        self.headers = headers or {}
        self._file: io.BytesIO | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data)

    @property
    def text(self) -> str:
        """As UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"file `{self.filename}` is not UTF-8: {error.reason} at byte {error.start}") from None

    @property
    def file(self) -> Any:
        """The same to be read as a file is."""
        self._file = self._file or io.BytesIO(self.data)
        return self._file

    async def read(self, size: int = -1) -> Any:
        return self.file.read(size)

    async def seek(self, offset: int) -> None:
        self.file.seek(offset)

    async def close(self) -> None:
        self.file.close()

    def __repr__(self) -> str:
        return f"UploadFile({self.filename!r}, {self.size} bytes, {self.content_type!r})"


def read(body: bytes, content_type: str, asked: object | None = None) -> Form:
    """The form that a body is. `asked` is what an error names: the body. One without a type is taken as a form of fields."""
    try:
        return _read(bytes(body), content_type)
    except _Wrong as error:
        raise InvalidInput(str(error), asked=asked) from None
    except _Other as error:
        wanted = f"expected a form: `{URLENCODED}` or `{MULTIPART}`"
        raise UnsupportedMediaType(f"the body is `{error}`, {wanted}", asked=asked) from None


class _Wrong(Exception):
    """A form that cannot be read."""


class _Other(Exception):
    """A body of another type."""


def _read(body: bytes, content_type: str) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == MULTIPART:
        _, parameters = _header(content_type, "content-type")
        return Form(_parts(body, _boundary(parameters)))
    if kind not in ("", URLENCODED):
        raise _Other(kind)
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True))
    except UnicodeDecodeError as error:
        raise _Wrong(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def _boundary(parameters: Any) -> Any:
    boundary = parameters.get("boundary", "")
    if not boundary:
        raise _Wrong("malformed form: the content type has no `boundary`")
    if len(boundary) > LONGEST_BOUNDARY or not boundary.isascii() or not boundary.isprintable() or boundary.endswith(" "):
        raise _Wrong(f"malformed form: the boundary is not 1 to {LONGEST_BOUNDARY} visible characters")
    return boundary


def _parts(body: bytes, boundary: Any) -> Any:
    """Fields and files. Between the lines with the boundary every byte counts; what is before the first and after the last does not."""
    mark = f"\r\n--{boundary}".encode()
    # The first line has no end of a line before it.
    rest = _LINE.match(body, len(mark) - 2) if body.startswith(mark[2:]) else None
    if rest is None:
        _, rest = _delimiter(body, mark, 0)
    if rest is None:
        raise _Wrong("malformed form: no line of the body is the boundary")
    pairs: list[Any] = []
    while not rest[1]:
        if len(pairs) == MOST_PARTS:
            raise _Wrong(f"the form has more than {MOST_PARTS} parts")
        begin = rest.end()
        end, rest = _delimiter(body, mark, begin - 2)
        if rest is None:
            raise _Wrong(f"malformed form: the body ends in part {len(pairs) + 1}")
        pairs.append(_part(body, begin, end, len(pairs) + 1))
    return pairs


def _delimiter(body: bytes, mark: bytes, at: int) -> Any:
    """The next line that is the boundary: where it begins, with the end of the line before, and the rest of it. A line that only
    begins so belongs to a part.
    """
    while (at := body.find(mark, at)) >= 0:
        rest = _LINE.match(body, at + len(mark))
        if rest is not None:
            return at, rest
        at += len(mark)
    return at, None


def _part(body: bytes, begin: int, end: int, number: int) -> Any:
    """The name and the value of a part."""
    # The end of the last line is the delimiter's too, in a part of headers alone.
    length = body.find(b"\r\n\r\n", begin - 2, min(end + 2, begin + LONGEST_HEADERS + 4))
    if length < 0:
        if end - begin > LONGEST_HEADERS:
            raise _Wrong(f"part {number} of the form has more than {LONGEST_HEADERS} bytes of headers")
        raise _Wrong(f"malformed form: the headers of part {number} have no end")
    headers = _headers(body[begin : max(length, begin)], number)
    kind, parameters = _header(headers.get("content-disposition", ""), f"part {number}")
    name, filename = (_name(parameters, it, number) for it in ("name", "filename"))
    if kind != "form-data" or name is None:
        raise _Wrong(f'malformed form: part {number} has no `content-disposition: form-data; name="…"`')
    coding = headers.get("content-transfer-encoding", "binary").lower()
    if coding not in ("binary", "8bit", "7bit"):
        raise _Wrong(f"part {number} of the form is in `{coding}`, expected its bytes as they are")
    data = body[length + 4 : end]
    if filename is not None:
        return name, UploadFile(data, filename, headers.get("content-type", ""), headers)
    _, parameters = _header(headers.get("content-type", ""), f"part {number}")
    charset = parameters.get("charset", "utf-8").lower()
    if charset not in _CHARSETS:
        raise _Wrong(f"field `{name}` of the form is in `{charset}`, expected UTF-8")
    try:
        return name, data.decode(charset)
    except UnicodeDecodeError:
        raise _Wrong(f"field `{name}` of the form is not {charset.upper()}") from None


def _headers(lines: Any, number: int) -> Any:
    try:
        text = lines.decode()
    except UnicodeDecodeError:
        raise _Wrong(f"the headers of part {number} of the form are not UTF-8") from None
    headers = {}
    # A line that begins with a space goes on with the one before.
    for line in re.sub(r"\r\n[ \t]+", " ", text).split("\r\n") if text else ():
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if not colon or not name:
            raise _Wrong(f"malformed form: a line of the headers of part {number} is no header")
        if name in headers:
            raise _Wrong(f"malformed form: part {number} has `{name}` twice")
        headers[name] = value.strip()
    return headers


def _header(value: Any, where: str) -> Any:
    """A header's value and its parameters, by their names in lower case."""
    kind = value.partition(";")[0]
    at, parameters = len(kind), {}
    while at < len(value):
        found = _PARAMETER.match(value, at)
        if found is None:
            raise _Wrong(f"malformed form: the parameters of {where}")
        at = found.end()
        name, quoted, plain = found.groups()
        if name is None:
            continue
        name = name.lower()
        if name in parameters:
            raise _Wrong(f"malformed form: {where} has `{name}` twice")
        parameters[name] = plain.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
    return kind.strip().lower(), parameters


def _name(parameters: Any, name: str, number: int) -> Any:
    """`name` or `filename` of a part; one with a star (RFC 8187) comes first."""
    extended = parameters.get(f"{name}*")
    if extended is None:
        plain = parameters.get(name)
        return plain if plain is None else _BROWSERS.sub(lambda found: chr(int(found[1], 16)), plain)
    found = _EXTENDED.fullmatch(extended)
    if found is None or found[1].lower() not in _CHARSETS:
        raise _Wrong(f"malformed form: `{name}*` of part {number} is not `UTF-8''…`")
    try:
        return unquote_to_bytes(found[2]).decode(found[1].lower())
    except UnicodeDecodeError:
        raise _Wrong(f"malformed form: `{name}*` of part {number} is not {found[1].upper()}") from None
