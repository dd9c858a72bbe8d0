"""Metrics that the handler makes, beside the server's in `/metrics`: `from modelhost_guest.metrics import Counter`.

They are made at the top of a module, with the words of prometheus_client. What cannot be used is a `ValueError`. In a test the numbers
are in memory: `value("flowers_total", {"species": "setosa"})` reads them, and `forget()` begins anew.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import _host, _series
from .errors import checked

__all__ = ["Counter", "Gauge", "Histogram", "forget", "value"]

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="_Metric")

# The names of metrics whose help text the host has.
_described: set[str] = set()


class _Metric:
    """A metric, or with values of its labels a series of it."""

    _kind = ""

    def __init__(self, name: str, documentation: str, labelnames: Iterable[str] = ()) -> None:
        if isinstance(labelnames, str):
            raise TypeError('the names of labels are a list, such as ["species"]')
        self._name = _series.named(checked(name, "a metric's name"), self._kind)
        self._help = checked(documentation, "a metric's help text")
        self._labelnames = tuple(checked(it, "a label's name") for it in labelnames)
        _series.labelled(self._name, self._labelnames)
        _series.described(self._name, self._help, ())
        self._bounds: list[float] = []
        self._labels: list[tuple[str, str]] = []

    def labels(self: M, *values: Any, **named: Any) -> M:
        """The series with these values of the labels, in the order of their names or by name."""
        if named and (values or set(named) != set(self._labelnames)):
            raise ValueError(f"`{self._name}` has the labels {self._names()}, and not {', '.join(named)}")
        if not named and len(values) != len(self._labelnames):
            raise ValueError(f"{len(values)} values for the labels {self._names()} of `{self._name}`")
        series = type(self).__new__(type(self))
        series.__dict__.update(self.__dict__)
        series._labels = [(name, str(named[name])) for name in self._labelnames] if named else [
            (name, str(value)) for name, value in zip(self._labelnames, values)
        ]
        return series

    def _names(self) -> str:
        return ", ".join(self._labelnames) or "[]"

    def _change(self, operation: str, number: float) -> None:
        if len(self._labels) != len(self._labelnames):
            raise ValueError(f"`{self._name}` has labels: `.labels(…)` with a value for {self._names()}")
        number = float(number)
        if _host.types is None:
            return _series.changed(operation, self._name, number, self._labels)
        if _host.metrics is None:
            raise RuntimeError(
                "the handler imports no metrics: add `include modelhost:handler/metric-imports@0.1.0;` to the world in wit/world.wit"
            )
        try:
            if self._name not in _described:
                kind = _host.metrics.Kind.__members__[self._kind.upper()]
                _host.metrics.describe(self._name, kind, self._help, self._bounds)
                _described.add(self._name)
            getattr(_host.metrics, operation)(self._name, number, self._labels)
        except _host.Err as error:
            raise ValueError(error.value) from None


class Counter(_Metric):
    """A number that only grows. A name that does not end in `_total` gets it."""

    _kind = "counter"

    def inc(self, amount: float = 1) -> None:
        """Adds to the number."""
        self._change("add", amount)


class Gauge(_Metric):
    """A number that goes up and down. Of all instances the one that set it last holds."""

    _kind = "gauge"

    def set(self, value: float) -> None:
        """Sets the number."""
        self._change("set", value)

    def inc(self, amount: float = 1) -> None:
        """Adds to the number."""
        self._change("change", amount)

    def dec(self, amount: float = 1) -> None:
        """Subtracts from the number."""
        self._change("change", -amount)

    def set_to_current_time(self) -> None:
        """Sets the number to the time, in seconds since 1970."""
        self.set(time.time())

    def time(self) -> Timer:
        """Sets the number to the seconds that a block or a function takes."""
        return Timer(self.set)


class Histogram(_Metric):
    """The distribution of numbers over buckets, of which there are at most 30."""

    _kind = "histogram"
    DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

    def __init__(
        self, name: str, documentation: str, labelnames: Iterable[str] = (), *, buckets: Iterable[float] = DEFAULT_BUCKETS
    ) -> None:
        super().__init__(name, documentation, labelnames)
        self._bounds = [float(it) for it in buckets]
        # The last bucket of prometheus_client, which every histogram has.
        if self._bounds[-1:] == [float("inf")]:
            self._bounds.pop()
        _series.described(self._name, self._help, self._bounds)

    def observe(self, amount: float) -> None:
        """Counts a number into the buckets."""
        self._change("observe", amount)

    def time(self) -> Timer:
        """Counts the seconds that a block or a function takes: `with it.time():`, or `@it.time()`."""
        return Timer(self.observe)


class Timer:
    """Measures a block, or each call of a function that it decorates."""

    def __init__(self, measured: Callable[[float], None]) -> None:
        self._measured = measured
        self._started = 0.0

    def __enter__(self) -> Timer:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._measured(time.perf_counter() - self._started)

    def __call__(self, function: F) -> F:
        return _timed(function, self._measured)


def _timed(function: Any, measured: Callable[[float], None]) -> Any:
    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        with Timer(measured):
            return function(*arguments, **named)

    @functools.wraps(function)
    async def timed_async(*arguments: Any, **named: Any) -> Any:
        with Timer(measured):
            return await function(*arguments, **named)

    return timed_async if inspect.iscoroutinefunction(function) else timed


def value(name: str, labels: Mapping[str, str] | None = None) -> float | None:
    """For tests: the number of a series; of a histogram `words` those of `words_count` and `words_sum`."""
    return _series.value(name, labels or {})


def forget() -> None:
    """For tests: begins anew."""
    _series.forget()


def undescribed() -> None:
    """After `init`: a later start of the host begins with its memory, so each instance describes its metrics."""
    _described.clear()
