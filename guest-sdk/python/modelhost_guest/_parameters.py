"""Parameters of a path as arguments: `def count(to: int)` for `/count/{to}`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping

from . import typed
from ._coroutines import finisher, is_async


class ByPath:
    """A function whose arguments have names of its path's parameters.

    What is left takes the request, or the context and the request, by its place; what has a default, nothing.
    """

    def __init__(self, function: Callable[..., typing.Any], wanted: dict[str, typing.Any], others: list[str]) -> None:
        self._wanted, self._others = wanted, others
        finished = finisher(function) if is_async(function) else None
        self._call = function if finished is None else lambda **given: finished(function(**given))

    @staticmethod
    def of(function: Callable[..., typing.Any], path: str) -> ByPath | None:
        """None, if it takes no parameter of the path by its name."""
        try:
            takes = typed.parameters(function)
        except (TypeError, ValueError):
            return None
        names = names_of(path)
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        own = [it.name for it in takes if it.name in names and it.kind in by_name]
        if not own:
            return None
        hints = typed.hints(function)
        others = [it for it in takes if it.name not in own and it.default is it.empty]
        return ByPath(
            function,
            {name: hints.get(name, str) for name in own},
            [it.name for it in others if it.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD],
        )

    def body(self, function: Callable[..., typing.Any]) -> typing.Any:
        """The class of the body that the function wants, if it is one."""
        wanted = typed.hints(function).get(self._others[-1]) if self._others else None
        return wanted if typed.has_class(wanted) else None

    def read(self, params: Mapping[str, str]) -> dict[str, typing.Any]:
        """The values of a request's parameters, as the annotations want them. What cannot be one is the caller's fault."""
        return typed.parse_each(self._wanted, params)

    def __call__(self, context: typing.Any, given: typing.Any, values: dict[str, typing.Any]) -> typing.Any:
        """Calls it with the context, if it likes, and what is given of a request."""
        arguments = (given,) if len(self._others) == 1 else (context, given)
        return self._call(**dict(zip(self._others, arguments)), **values)

    def talk(self, socket: typing.Any, request: typing.Any, values: dict[str, typing.Any]) -> typing.Any:
        """Calls it with a socket and, if it likes, the request of the handshake."""
        return self._call(**dict(zip(self._others, (socket, request))), **values)


def names_of(path: str) -> set[str]:
    """The names of a path's parameters."""
    return {it[1:-1].removeprefix("*") for it in path.split("/") if it.startswith("{") and it.endswith("}")}
