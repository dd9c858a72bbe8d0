"""What is done with tensors around a model, by the library `tensor`, which `modelhost build` puts into the handler.

modelhost.toml names it, `[build]` with `with = ["tensor"]`.
An axis is counted from 0, or back from -1, which is the last. What is computed of FP16, BF16, FP32 and FP64 is FP32. Tensors that do
not fit are a `ValueError`. In a test `answer_with` says what comes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _host
from ._tensor import Tensor, Tensors

__all__ = ["Tensor", "Tensors", "answer_with", "argmax", "concat", "gather", "mean_pool", "normalise", "softmax", "suppress", "top_k"]

_stand_in = None


def argmax(tensor: Tensor, axis: int = -1) -> Tensor:
    """The place of the largest value along an axis, the first of several: INT64, without this axis."""
    return _called("argmax", tensor, axis)


def top_k(tensor: Tensor, count: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The largest values along an axis, the largest first, and their places as INT64: two tensors."""
    return _called("top_k", tensor, count, axis)


def softmax(tensor: Tensor, axis: int = -1) -> Tensor:
    """Values to shares of 1 along an axis."""
    return _called("softmax", tensor, axis)


def normalise(tensor: Tensor, axis: int = -1) -> Tensor:
    """Values divided by their length (L2) along an axis; zeros stay zeros."""
    return _called("normalise", tensor, axis)


def mean_pool(tensor: Tensor, mask: Tensor) -> Tensor:
    """`[texts, length, values]` to `[texts, values]`: the mean of those for which `mask`, `[texts, length]`, is not 0."""
    return _called("mean_pool", tensor, mask)


def concat(tensors: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one datatype, one after the other along an axis."""
    return _called("concat", list(tensors), axis)


def gather(tensor: Tensor, places: Tensor | Sequence[int], axis: int = 0) -> Tensor:
    """The entries of an axis at places, INT64 or INT32 or a list of numbers, counted back from -1 where they are negative."""
    return _called("gather", tensor, places if isinstance(places, Tensor) else Tensor(places, "INT64"), axis)


def suppress(boxes: Tensor, scores: Tensor, classes: Tensor | None = None, *, most_overlap: float = 0.5, least_score: float = 0.0, most: int = 0) -> Tensor:
    """Non-maximum suppression: the places, INT64, of the boxes that stay, the best first.

    `boxes` is `[boxes, 4]` (left, top, right, bottom), `scores` is `[boxes]`. A box of a score below `least_score` goes, and one
    that a better one overlaps by more than `most_overlap`; with `classes`, INT64 `[boxes]`, only by one of its own. Not more than
    `most` stay; 0 for any number.
    """
    return _called("suppress", boxes, scores, classes, most_overlap, least_score, most)


def answer_with(answer: Callable[..., Any]) -> None:
    """For tests: a function that is given an operation's name and what it was called with, and returns what comes of it."""
    global _stand_in
    _stand_in = answer


def _called(operation: str, *arguments: Any) -> Any:
    if _host.types is None:
        if _stand_in is None:
            raise RuntimeError("the test does not say what comes of tensors: `tensor.answer_with`")
        return _stand_in(operation, *arguments)
    library = _host.arithmetic
    if library is None:
        raise RuntimeError(
            "the handler imports no library `tensor`: add `include modelhost:tensor/imports@0.1.0;` to the world in wit/world.wit"
        )

    def given(argument: Any) -> Any:
        if isinstance(argument, list):
            return [given(tensor) for tensor in argument]
        if not isinstance(argument, Tensor):
            return argument
        name = "BOOLEAN" if argument.datatype == "BOOL" else argument.datatype
        if name not in library.Datatype.__members__:
            raise ValueError(f"a tensor of {argument.datatype} has no numbers")
        return library.Tensor(library.Datatype[name], list(argument.shape), bytes(argument.data))

    def made(tensor: Any) -> Any:
        name = tensor.datatype.name
        return Tensor.raw(tensor.data, "BOOL" if name == "BOOLEAN" else name, tensor.shape)

    try:
        result = getattr(library, operation)(*map(given, arguments))
    except _host.Err as error:
        raise ValueError(error.value) from None
    return tuple(map(made, result)) if isinstance(result, tuple) else made(result)
