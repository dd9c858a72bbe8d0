"""The rules of metrics, and their numbers in memory, for tests, which have no host."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

Labels = Sequence[tuple[str, str]]

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# What names the server's metrics, parts of metrics, and labels of the server.
BEGINNINGS = ("modelhost_", "process_")
ENDS = ("_bucket", "_count", "_sum", "_created")
LABELS = ("endpoint", "le", "quantile")

_numbers: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}


def named(name: str, kind: str) -> str:
    """The name of a metric, a counter's with its end."""
    _written(name, 100)
    for wrong in (f"begins with `{it}`" for it in BEGINNINGS if name.startswith(it)):
        raise ValueError(f"the metric `{name}` {wrong}, which names the server's")
    for wrong in (f"ends in `{it}`" for it in ENDS if name.endswith(it)):
        raise ValueError(f"the metric `{name}` {wrong}, which names a part of one")
    if kind == "counter":
        return name if name.endswith("_total") else f"{name}_total"
    if name.endswith("_total"):
        raise ValueError(f"the metric `{name}` ends in `_total`, which names a counter")
    return name


def described(name: str, text: str, bounds: Sequence[float]) -> None:
    """Refuses a help text and bounds that cannot be used."""
    if len(text.encode()) > 200 or "\n" in text or "\r" in text:
        raise ValueError(f"the help text of `{name}` is not one line of at most 200 bytes")
    if len(bounds) > 30:
        raise ValueError(f"`{name}` has {len(bounds)} buckets, expected at most 30")
    for before, bound in zip((-math.inf, *bounds), bounds):
        if not math.isfinite(bound) or bound <= before:
            raise ValueError(f"the bound {bound} of `{name}` is not finite, or not greater than the one before")


def labelled(name: str, labels: Iterable[str]) -> None:
    """Refuses names of labels that cannot be used."""
    labels = list(labels)
    if len(labels) > 8:
        raise ValueError(f"`{name}` has {len(labels)} labels, expected at most 8")
    for label in labels:
        _written(label, 50)
        if label.startswith("__") or label in LABELS:
            raise ValueError(f"the label `{label}` of `{name}` has a name of the server's")
        if labels.count(label) > 1:
            raise ValueError(f"`{name}` has the label `{label}` twice")


def changed(operation: str, name: str, number: float, labels: Labels) -> None:
    """What the host's function of this name does, but for the limit of series."""
    name = named(name, "counter" if operation == "add" else "gauge")
    if not math.isfinite(number) or (operation == "add" and number < 0):
        raise ValueError(f"{number} is not a finite number{' of at least 0' if operation == 'add' else ''}, which `{name}` takes")
    labelled(name, (label for label, _ in labels))
    for label, value in labels:
        if len(value.encode()) > 200:
            raise ValueError(f"a value of {len(value.encode())} bytes of the label `{label}`, expected at most 200")
    place = tuple(sorted(labels))
    if operation == "observe":
        _add(f"{name}_count", place, 1)
        _add(f"{name}_sum", place, number)
    elif operation == "set":
        _numbers[name, place] = number
    else:
        _add(name, place, number)


def value(name: str, labels: Mapping[str, str]) -> float | None:
    """The number of a series."""
    return _numbers.get((name, tuple(sorted(labels.items()))))


def forget() -> None:
    """Removes all numbers."""
    _numbers.clear()


def _add(name: str, place: tuple[tuple[str, str], ...], number: float) -> None:
    _numbers[name, place] = _numbers.get((name, place), 0.0) + number


def _written(name: str, most: int) -> None:
    if not 1 <= len(name) <= most:
        raise ValueError(f"a name of {len(name)} characters, expected 1 to {most}")
    if not NAME.fullmatch(name):
        raise ValueError(f"the name `{name}` has other characters than letters, digits and `_`, or begins with a digit")
