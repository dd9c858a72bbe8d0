"""Texts to the numbers that a model takes, and back, by the library `tokenizer`, which `modelhost build` puts into the handler.

modelhost.toml names it, `[build]` with `with = ["tokenizer"]`. In a test `answer_with` says what the tokens of a text are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from . import _host
from ._tensor import Tensor
from .errors import InvalidInput

PADDINGS, TRUNCATIONS = ("off", "longest", "file"), ("off", "file")

_stand_in = None


class TokenizerError(InvalidInput):
    """Why texts have no tokens, or too many. Without more it is the caller's 400."""


class Encoding:
    """Rows of tokens, a row for each text: INT64 tensors `[texts, length]`, with the names that most models give their inputs.

    `ids` is `input_ids`; `mask` (`attention_mask`) is 0 for what only fills a row; `types` (`token_type_ids`) is 1 for the second
    text of a pair. `offsets`, `[texts, length, 2]`, has the places of tokens in their text, if they were asked for.
    """

    def __init__(self, ids: Tensor, mask: Tensor, types: Tensor, offsets: Tensor | None = None) -> None:
        self.ids, self.mask, self.types, self.offsets = ids, mask, types, offsets


class Tokenizer:
    """What `load` gives."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def encode(self, texts: str | Iterable[str], seconds: str | Iterable[str] | None = None, *, special_tokens: bool = True, padding: str | int = "longest", truncation: str | int = "file", offsets: bool = False) -> Encoding:
        """The tokens of a text, or of each text of a list; with `seconds`, of pairs of texts.

        `padding` makes rows as long as each other: "longest", to a number of tokens, as "file" says, or "off". `truncation` is the
        most tokens of a row, what "file" says, or "off". Offsets are places in a `str`. May raise `TokenizerError`.
        """
        for given, known in ((padding, PADDINGS), (truncation, TRUNCATIONS)):
            if not isinstance(given, int) and given not in known:
                raise ValueError(f"`{given}` is no number, and none of {', '.join(known)}")
        texts = [texts] if isinstance(texts, str) else list(texts)
        seconds = [seconds] if isinstance(seconds, str) else list(seconds or ())
        if _host.tokenizers is None:
            return _answered(texts, seconds, padding, truncation)
        options = _options(bool(special_tokens), padding, truncation, bool(offsets))
        made = _asked(self._handle.encode, texts, seconds, options)
        places = _tensor(made, made.offsets, "offsets", 2) if offsets else None
        return Encoding(
            _tensor(made, made.ids, "input_ids"),
            _tensor(made, made.mask, "attention_mask"),
            _tensor(made, made.types, "token_type_ids"),
            places,
        )

    def decode(self, ids: Tensor | Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens: a list of their numbers, or a tensor."""
        ids = list(ids.values if isinstance(ids, Tensor) else ids)
        if _host.tokenizers is None:
            return _said(1)(ids)
        return _asked(self._handle.decode, ids, skip_special_tokens)

    def id_of(self, token: str) -> int | None:
        """The number of a token, or `None`."""
        return self._handle.id_of(token)

    def token_of(self, id: int) -> str | None:
        """The token of a number, or `None`."""
        return self._handle.token_of(id)

    def __len__(self) -> int:
        """Number of tokens."""
        return self._handle.size()


def load(source: str | bytes) -> Tokenizer:
    """Reads a tokenizer.json: its bytes, or the path of the file, such as "/mnt/project/tokenizer.json".

    To be called in `init`, or in a request: where a module is imported there is no library yet.
    """
    if _host.tokenizers is None:
        if _host.types is not None:
            raise RuntimeError(
                "the handler imports no library `tokenizer`: add `include modelhost:tokenizer/imports@0.1.0;` to the world in wit/world.wit"
            )
        return Tokenizer(None)
    if isinstance(source, str):
        with open(source, "rb") as file:
            source = file.read()
    return Tokenizer(_asked(_host.tokenizers.Tokenizer.load, bytes(source)))


def answer_with(encode: Callable[..., Iterable[int]], decode: Callable[[list[int]], str] | None = None) -> None:
    """For tests: functions from a text, or the two of a pair, to the numbers of its tokens, and from these to a text."""
    global _stand_in
    _stand_in = (encode, decode)


def _tensor(made: Any, data: Any, name: str, *more: int) -> Tensor:
    return Tensor._of(data, "INT64", (made.texts, made.length, *more), name)


@lru_cache(maxsize=16, typed=True)
def _options(special_tokens: bool, padding: str | int, truncation: str | int, offsets: bool) -> Any:
    """What is asked for, as the library takes it; a handler mostly asks for the same."""
    library = _host.tokenizers
    return library.Options(
        special_tokens,
        _choice(library, "Padding", padding),
        _choice(library, "Truncation", truncation),
        library.Unit.CHARACTERS if offsets else None,
    )


def _choice(library: Any, kind: str, given: Any) -> Any:
    if isinstance(given, int):
        return getattr(library, f"{kind}_To")(given)
    name = "AsFile" if given == "file" else given.capitalize()
    return getattr(library, f"{kind}_{name}")()


def _asked(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _host.Err as error:
        kind, text = _host.kind(error.value), error.value.value
        raise (TokenizerError(text) if kind == "text" else ValueError(text)) from None


def _said(which: int) -> Any:
    if _stand_in is None or _stand_in[which] is None:
        raise RuntimeError("the test does not say what the tokens of a text are: `tokenizer.answer_with`")
    return _stand_in[which]


def _answered(texts: list[str], seconds: list[str], padding: str | int, truncation: str | int) -> Encoding:
    encode = _said(0)
    given = zip(texts, seconds, strict=True) if seconds else zip(texts)
    rows = [list(encode(*of_row)) for of_row in given]
    if isinstance(truncation, int):
        rows = [row[:truncation] for row in rows]
    length = padding if isinstance(padding, int) else max(map(len, rows), default=0)
    masks = [[1] * len(row) for row in rows]
    types: list[list[int]] = [[] for _ in rows]

    def tensor(name: str, values: Any) -> Tensor:
        filled = array("q", [value for row in values for value in row + [0] * (length - len(row))])
        return Tensor(filled, "INT64", (len(rows), length), name)

    return Encoding(tensor("input_ids", rows), tensor("attention_mask", masks), tensor("token_type_ids", types))
