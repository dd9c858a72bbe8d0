"""Requests that a function serves together: a list of them, and a list of results."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args, get_origin

from . import typed
from .errors import InvalidInput
from .messages import JSON, Answer, Body, answer_to, refusal, response_of
from .request import Request

if TYPE_CHECKING:
    from .context import Context
    from .messages import Response


class Member(Request):
    """One request of a batch. What is read of it is kept, so that an error tells by what was asked whose it is."""

    json: Any = cached_property(vars(Body)["json"].fget)  # pyright: ignore
    form: Any = cached_property(vars(Body)["form"].fget)  # pyright: ignore
    query: Any = cached_property(vars(Request)["query"].fget)

    def is_wrong(self, error: InvalidInput) -> Any:
        """Whether an error is about this request: a body that cannot be read, or a field or a header that it lacks."""
        return error.asked is not None and any(_has(it, error.asked) for it in (self, *vars(self).values()))


def item(wanted: Any) -> Any:
    """The class of one request where a function takes a list of them."""
    return get_args(wanted)[0] if get_origin(wanted) is list else None


def together(call: Callable[..., Any], requests: list[Request], wanted: Any) -> Any:
    """Calls a function of requests; one that cannot be read has an error of its own and is not among them.

    Of a request that does not say that it is JSON, only the function's asking tells that it should be; and only that tells what
    else it lacks. It is answered then, and the function called again with the rest.
    """
    refused: dict[Any, Any] = {}

    def read(request: Request) -> Any:
        if id(request) in refused:
            raise refused[id(request)]
        member = Member(request.body, request.content_type, request.context, request.params)
        if wanted is not None:
            return typed.parse(wanted, member.json)
        if _is_json(member):
            member.json  # noqa: B018
        members.append((request, member))
        return member

    while True:
        members: list[Any] = []
        try:
            return spread(call, requests, read)
        except InvalidInput as error:
            wrong = [request for request, member in members if member.is_wrong(error)]
            if not wrong:
                raise
            refused.update((id(it), error) for it in wrong)


def spread(call: Callable[..., Any], requests: list[Request], read: Any) -> Any:
    """Calls a function of what is read of each request, and returns its results in the requests' places.

    An `InvalidInput` of reading one is the result of that.
    """
    given: list[Any] = []
    refused: list[InvalidInput | None] = []
    for request in requests:
        try:
            given.append(read(request))
            refused.append(None)
        except InvalidInput as error:
            refused.append(error)
    results = call(given) if given else []
    if not isinstance(results, (list, tuple)):
        wanted = f"a function of a batch returns a list, with one result for each of its {len(given)} requests"
        text = f"{wanted}; this one returned {type(results).__name__}"
        print(text)
        return [refusal(it.context, 500, "plugin_bad_output", text) for it in requests]
    results = iter(results)
    # Results that are too few or too many stay so: the host tells all requests of it.
    missing = object()
    made = [next(results, missing) if error is None else error for error in refused]
    return [it for it in made if it is not missing] + list(results)


def only(results: list[Any]) -> Any:
    """The result of a batch of one."""
    if len(results) != 1:
        raise ValueError(f"{len(results)} results for a batch of 1 request, expected one for each")
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def told(result: Any, context: Context) -> Response:
    """What the host makes of a result of the request of a context, for tests."""
    if isinstance(result, (InvalidInput, Answer)):
        return answer_to(result, context)
    if isinstance(result, Exception):
        raise result
    return response_of(result)


def _is_json(request: Request) -> Any:
    """Whether it says so, or says nothing."""
    kind = (request.content_type or JSON).split(";")[0].strip().lower()
    return kind == JSON or kind.endswith("+json")


def _has(value: Any, wanted: Any) -> Any:
    """Whether it is that object, or has it in it."""
    left = [value]
    while left:
        it = left.pop()
        if it is wanted:
            return True
        left += it.values() if isinstance(it, dict) else it if isinstance(it, list) else ()
    return False
