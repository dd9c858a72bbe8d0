"""Typed inputs without pydantic: a dataclass, or a class whose annotations say what a request's JSON has.

    @dataclass
    class Prompt:
        text: str
        times: int = 1

Texts of errors and the JSON Schema are those of pydantic, whose rules apply: `"2"` is an integer, `1` is no text.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidInput

_MISSING = dataclasses.MISSING
_TRUE, _FALSE = {"true", "t", "yes", "y", "on", "1"}, {"false", "f", "no", "n", "off", "0"}
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null"}
# What a JSON array may become.
_ARRAYS = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
# Classes whose objects JSON has a form for, or none.
_OTHERS = (tuple, dict, list, str, int, float, enum.Enum, BaseException)
_STREAMS = (collections.abc.Iterator, collections.abc.Generator, collections.abc.AsyncIterator, collections.abc.AsyncGenerator)
_AWAITED = (collections.abc.Awaitable, collections.abc.Coroutine)


class InputErrors(InvalidInput):
    """What is wrong with an input, one line for each place of it."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        lines = "".join(f"\n  `{place}`: {text}." for place, text in problems)
        super().__init__(f"Input Parsing Error{'' if len(problems) == 1 else 's'}:{lines}")


def is_typed(wanted: Any) -> bool:
    """Whether it is a class that says by annotations what its objects have."""
    if not isinstance(wanted, type) or issubclass(wanted, _OTHERS) or wanted.__module__.split(".")[0] in ("builtins", "modelhost_guest"):
        return False
    named: Any = wanted
    return dataclasses.is_dataclass(wanted) or bool(_annotations(named)) and wanted.__init__ is object.__init__


def is_pydantic(wanted: Any) -> bool:
    """Whether it is a class of pydantic's, of either version, which reads and describes itself."""
    return isinstance(wanted, type) and (hasattr(wanted, "model_validate") or hasattr(wanted, "parse_obj"))


def has_class(wanted: Any) -> bool:
    """Whether a type is a class that says what its objects have, one of pydantic's or a `TypedDict`, or has one in it: `list[Prompt]`."""
    if is_typed(wanted) or is_pydantic(wanted) or typing.is_typeddict(wanted):
        return True
    return typing.get_origin(wanted) is not typing.Literal and any(map(has_class, typing.get_args(wanted)))


def parse(wanted: Any, value: Any) -> Any:
    """An object of the class, or of a list of them.

    Raises `InputErrors`, which is the caller's fault, with all that is wrong with it.
    """
    problems: list[Any] = []
    made = _value(wanted, value, "", problems)
    if problems:
        raise InputErrors([(place or "input", text) for place, text in problems])
    return made


def parse_each(wanted: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their names, each as its type wants it. Raises `InputErrors` with all that is wrong with them."""
    problems: list[Any] = []
    made = {name: _value(own, values[name], name, problems) for name, own in wanted.items()}
    if problems:
        raise InputErrors(problems)
    return made


def argument(function: Callable[..., Any]) -> Any:
    """The class that a function's last parameter is annotated with, if that is one."""
    try:
        last = parameters(function)[-1]
    except (IndexError, TypeError, ValueError):
        return None
    wanted = hints(function).get(last.name)
    return wanted if has_class(wanted) else None


def described(function: Callable[..., Any]) -> tuple[dict[str, Any] | None, bool]:
    """JSON Schema of what a function returns, if its annotation has a class, and whether that is a stream, or may be one."""
    returned = _alternatives(hints(function).get("return"))
    whole = [it for it in returned if not _is_stream(it)]
    told = typing.Union[tuple(whole)] if any(map(has_class, whole)) else None
    return (None if told is None else schema(told)), len(whole) < len(returned)


def _alternatives(returned: Any) -> Any:
    """What a function may return: the types of a union, and what a coroutine's result is."""
    origin, arguments = typing.get_origin(returned), typing.get_args(returned)
    if origin in (typing.Union, types.UnionType):
        return [one for it in arguments for one in _alternatives(it)]
    return _alternatives(arguments[-1]) if origin in _AWAITED and arguments else [returned]


def _is_stream(wanted: Any) -> Any:
    return typing.get_origin(wanted) in _STREAMS or wanted in _STREAMS


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a function takes, in order; of one with a decorator that says so, what the decorated one takes."""
    try:
        return list(inspect.signature(function).parameters.values())
    except NameError:
        # As of Python 3.14 annotations are evaluated when they are asked for, and may name what is there for type checkers alone.
        signature: Any = inspect.signature
        return list(signature(function, annotation_format=_lenient()).parameters.values())


def hints(of: Any) -> dict[str, Any]:
    """The annotations of a function or a class, as types, also where they are written as texts. What is not there is `Any`."""
    try:
        return _resolved(of)
    except Exception:
        return {
            name: _evaluated(hint, one)
            for one in reversed(getattr(of, "__mro__", (of,)))
            for name, hint in written(one).items()
        }


def written(of: Any) -> dict[str, Any]:
    """The annotations of a function or a class, without those that it inherits."""
    try:
        return inspect.get_annotations(of)
    except NameError:
        annotations: Any = inspect.get_annotations
        return annotations(of, format=_lenient())


def fields(value: Any) -> dict[str, Any]:
    """The fields of an object of such a class, to be written as JSON."""
    if dataclasses.is_dataclass(value):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
    return {name: getattr(value, name) for name, _, _ in _fields(type(value)) if hasattr(value, name)}


def schema(wanted: Any) -> dict[str, Any]:
    """JSON Schema of a class, or of any type that one has. A class that has itself somewhere is one of its definitions."""
    definitions: dict[Any, Any] = {}
    if is_pydantic(wanted):
        # As it says it itself.
        return wanted.model_json_schema() if hasattr(wanted, "model_json_schema") else wanted.schema()
    said = _schema(wanted, (), definitions)
    return {"$defs": definitions, **said} if definitions else said


def _schema(wanted: Any, around: tuple[Any, ...], definitions: dict[str, Any]) -> Any:
    """The same inside of the classes `around`."""
    inner = lambda it: _schema(it, around, definitions)  # noqa: E731
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [inner(it) for it in arguments]}
    if origin is typing.Literal:
        return _choice(arguments)
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return {**_choice(wanted), "title": wanted.__name__}
    if origin is dict or wanted is dict:
        return {"type": "object", **({"additionalProperties": inner(arguments[1])} if len(arguments) == 2 else {})}
    if (origin or wanted) is tuple and arguments and arguments[-1] is not ...:
        count = len(arguments)
        return {"type": "array", "prefixItems": [inner(it) for it in arguments], "minItems": count, "maxItems": count}
    if (origin or wanted) in _ARRAYS:
        unique = {"uniqueItems": True} if (origin or wanted) in (set, frozenset) else {}
        return {"type": "array", "items": inner(arguments[0]) if arguments else {}, **unique}
    if is_pydantic(wanted):
        return _of_pydantic(wanted, definitions)
    if not is_typed(wanted) and not typing.is_typeddict(wanted):
        return {"type": _NAMES[wanted]} if wanted in _NAMES else {}
    reference = {"$ref": f"#/$defs/{wanted.__name__}"}
    if wanted in around:
        definitions[wanted.__name__] = {}
        return reference
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, own, default in _fields(wanted):
        if default is _MISSING:
            required.append(name)
        said = {} if default is _MISSING or callable(default) else _as_json("default", default)
        properties[name] = {**said, "title": name.replace("_", " ").title(), **_schema(own, (*around, wanted), definitions)}
    needed = {"required": required} if required else {}
    said = {"properties": properties, **needed, "title": wanted.__name__, "type": "object"}
    if wanted.__name__ not in definitions:
        return said
    definitions[wanted.__name__] = said
    return reference


def _of_pydantic(wanted: Any, definitions: dict[str, Any]) -> Any:
    """What a class says of itself, and what it says of others among the definitions of all."""
    tell = getattr(wanted, "model_json_schema", None) or wanted.schema
    said = tell(ref_template="#/$defs/{model}")
    for key in ("$defs", "definitions"):
        definitions.update(said.pop(key, {}))
    return said


def _choice(values: Any) -> Any:
    return _as_json("enum", list(values))


def _as_json(key: str, value: Any) -> Any:
    """A member of a schema, if JSON has a form for its value."""
    # `messages` imports this module.
    from .messages import to_json

    try:
        return {key: json.loads(to_json(value))}
    except (TypeError, ValueError, RecursionError):
        return {}


@functools.cache
def _resolved(of: Any) -> Any:
    """Kept, unless it raises: a class may be written below the function that names it."""
    return typing.get_type_hints(of, localns={of.__name__: of} if isinstance(of, type) else None)


def _lenient() -> Any:
    from annotationlib import Format

    return Format.FORWARDREF


def _evaluated(hint: Any, of: Any) -> Any:
    if not isinstance(hint, (str, typing.ForwardRef)):
        return hint
    try:
        return eval(typing.cast(str, hint), vars(sys.modules[of.__module__]), {of.__name__: of} if isinstance(of, type) else {})
    except Exception:
        return typing.Any


@functools.cache
def _annotations(wanted: Any) -> Any:
    return {name: it for one in reversed(wanted.__mro__) for name, it in written(one).items()}


def _fields(wanted: Any) -> Any:
    """Name, type and default of each; a function makes a default that is a new object each time."""
    types_ = hints(wanted)
    if typing.is_typeddict(wanted):
        return [(name, it, _MISSING if name in wanted.__required_keys__ else _absent) for name, it in types_.items()]
    if dataclasses.is_dataclass(wanted):
        default = lambda it: it.default if it.default is not _MISSING else it.default_factory  # noqa: E731
        return [(it.name, types_[it.name], default(it)) for it in dataclasses.fields(wanted) if it.init]
    return [(name, types_[name], getattr(wanted, name, _MISSING)) for name in _annotations(wanted)]


def _absent() -> None:
    """The default of a key that a `TypedDict` may not have."""


def _value(wanted: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """The value as the type wants it; what is wrong with it goes to `problems`."""
    if wanted in _SCALARS:
        try:
            return _SCALARS[wanted](value)
        except ValueError as error:
            problems.append((place, f"Input should be {error}"))
            return value
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if is_typed(wanted) or typing.is_typeddict(wanted):
        return _object(wanted, value, place, problems)
    if is_pydantic(wanted):
        return _read_by_pydantic(wanted, value, place, problems)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, place, problems)
    if origin is typing.Literal:
        return _chosen(arguments, value, place, problems)
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return _member(wanted, value, place, problems)
    if (origin or wanted) in _ARRAYS:
        return _array(origin or wanted, arguments, value, place, problems)
    if (origin or wanted) is dict:
        if not isinstance(value, dict):
            return problems.append((place, "Input should be a valid dictionary"))
        key, inner = arguments or (str, typing.Any)
        made = {}
        for name, it in value.items():
            below = _below(place, name)
            made[_value(key, name, f"{below}.[key]", problems)] = _value(inner, it, below, problems)
        return made
    return value


def _array(kind: Any, of: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    if not isinstance(value, list):
        return problems.append((place, f"Input should be a valid {_ARRAYS[kind]}"))
    if kind is tuple and of and of[-1] is not ...:
        if len(value) > len(of):
            return problems.append((place, f"Tuple should have at most {len(of)} items after validation, not {len(value)}"))
        problems += [(_below(place, at), "Field required") for at in range(len(value), len(of))]
    else:
        of = (of[0] if of else typing.Any,) * len(value)
    made = [_value(own, it, _below(place, at), problems) for at, (own, it) in enumerate(zip(of, value))]
    try:
        return kind(made)
    except TypeError:
        return problems.append((place, "Set items should be hashable"))


def _chosen(values: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """The one of a `Literal` that is equal, for there 1 is `True` and 1.0 as well."""
    equal = sorted((it for it in values if it == value), key=lambda it: type(it) is not type(value))
    if equal:
        return equal[0]
    return problems.append((place, f"Input should be {_listed(values)}"))


def _member(wanted: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """The member of an `Enum` with this value; of one of integers, with what is one."""
    members: Any = wanted
    readers: list[Callable[[Any], Any]] = [lambda it: it, *(_SCALARS[kind] for kind in (int, float) if issubclass(wanted, kind))]
    for read in readers:
        try:
            return wanted(read(value))
        except (TypeError, ValueError):
            pass
    return problems.append((place, f"Input should be {_listed(it.value for it in members)}"))


def _listed(values: Any) -> Any:
    *rest, last = map(repr, values)
    return f"{', '.join(rest)} or {last}" if rest else last


def _read_by_pydantic(wanted: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """An object of a class that reads itself."""
    if isinstance(value, wanted):
        return value
    try:
        return wanted.model_validate(value) if hasattr(wanted, "model_validate") else wanted.parse_obj(value)
    except ValueError as error:
        told: Any = getattr(error, "errors", lambda: [{"loc": (), "msg": " ".join(str(error).split())}])()
        for it in told:
            below = place
            for part in it["loc"]:
                below = _below(below, part)
            problems.append((below, it["msg"]))
        return None


def _object(wanted: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    if not typing.is_typeddict(wanted) and isinstance(value, wanted):
        return value
    if not isinstance(value, dict):
        return problems.append((place, f"Input should be a valid dictionary or instance of {wanted.__name__}"))
    given = {}
    for name, own, default in _fields(wanted):
        if name in value:
            given[name] = _value(own, value[name], _below(place, name), problems)
        elif default is _MISSING:
            problems.append((_below(place, name), "Field required"))
        elif not dataclasses.is_dataclass(wanted) and default is not _absent:
            given[name] = default.copy() if isinstance(default, (list, dict, set)) else default
    if problems:
        return None
    if typing.is_typeddict(wanted):
        return given
    if dataclasses.is_dataclass(wanted):
        return _checked(wanted, given, place, problems)
    made = wanted()
    for name, it in given.items():
        setattr(made, name, it)
    return made


def _checked(wanted: Any, given: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """An object whose own `__post_init__` may refuse it."""
    try:
        return wanted(**given)
    except InvalidInput:
        raise
    except ValueError as error:
        problems.append((place, f"Value error, {error}"))
    except AssertionError as error:
        problems.append((place, f"Assertion failed, {error}" if error.args else "Assertion failed"))
    return None


def _one_of(wanted: Any, value: Any, place: str, problems: list[tuple[str, str]]) -> Any:
    """The first type that takes it as it is, or the first that takes it."""
    exact = [it for it in wanted if isinstance(it, type) and type(value) is it]
    first = None
    for one in exact + [it for it in wanted if it is not type(None)]:
        own: list[Any] = []
        made = value if one is type(None) else _value(one, value, place, own)
        if not own:
            return made
        first = first or own
    problems += first or []
    return None


def _below(place: str, name: Any) -> str:
    return f"{place}.{name}" if place else str(name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a valid string")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str):
        # `2.0` is one, `2.` and `2e0` are none.
        text, _, zeros = value.strip().partition(".")
        try:
            return int(text if zeros and not zeros.strip("0") else value.strip())
        except ValueError:
            raise ValueError("a valid integer, unable to parse string as an integer") from None
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("a valid integer, got a number with a fractional part")
    if not isinstance(value, (int, float)):
        raise ValueError("a valid integer")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            raise ValueError("a valid number, unable to parse string as a number") from None
    if not isinstance(value, (int, float)):
        raise ValueError("a valid number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a valid number") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1
    text = value.lower() if isinstance(value, str) else ""
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError("a valid boolean" + (", unable to interpret input" if isinstance(value, (str, int)) else ""))


_SCALARS = {str: _text, int: _integer, float: _number, bool: _boolean}
