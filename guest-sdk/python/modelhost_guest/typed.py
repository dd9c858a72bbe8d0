"""Typed inputs without pydantic: a dataclass, or a class whose annotations say what a request's JSON has.

    @dataclass
    class Prompt:
        text: str
        times: int = 1

Texts of errors and the JSON Schema are those of pydantic, whose rules apply: `"2"` is an integer, `1` is no text.
"""

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing

from .errors import InvalidInput

_MISSING = dataclasses.MISSING
_TRUE, _FALSE = {"true", "t", "yes", "y", "on", "1"}, {"false", "f", "no", "n", "off", "0"}
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null"}
# Classes whose objects JSON has a form for, or none.
_OTHERS = (tuple, dict, list, str, int, float, enum.Enum, BaseException)
_STREAMS = (collections.abc.Iterator, collections.abc.Generator, collections.abc.AsyncIterator, collections.abc.AsyncGenerator)


class InputErrors(InvalidInput):
    """What is wrong with an input, one line for each place of it."""

    def __init__(self, problems):
        lines = "".join(f"\n  `{place}`: {text}." for place, text in problems)
        super().__init__(f"Input Parsing Error{'' if len(problems) == 1 else 's'}:{lines}")


def is_typed(wanted):
    """Whether it is a class that says by annotations what its objects have."""
    if not isinstance(wanted, type) or issubclass(wanted, _OTHERS) or wanted.__module__.split(".")[0] in ("builtins", "modelhost_guest"):
        return False
    return dataclasses.is_dataclass(wanted) or bool(_annotations(wanted)) and wanted.__init__ is object.__init__


def parse(wanted, value):
    """An object of the class, or of a list of them.

    Raises `InputErrors`, which is the caller's fault, with all that is wrong with it.
    """
    problems = []
    made = _value(wanted, value, "", problems)
    if problems:
        raise InputErrors([(place or "input", text) for place, text in problems])
    return made


def argument(function):
    """The class that a function's last parameter is annotated with, if that is one."""
    try:
        hints = typing.get_type_hints(function)
        parameters = list(inspect.signature(function).parameters)
    except (NameError, TypeError, ValueError):
        return None
    wanted = hints.get(parameters[-1]) if parameters else None
    return wanted if is_typed(wanted) or is_typed(_item(wanted)) else None


def described(function):
    """JSON Schema of what a function returns, if its annotation is a class, and whether that is a stream."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None, False
    is_stream = typing.get_origin(returned) in _STREAMS or returned in _STREAMS
    return (schema(returned) if is_typed(returned) or is_typed(_item(returned)) else None), is_stream


def fields(value):
    """The fields of an object of such a class, to be written as JSON."""
    if dataclasses.is_dataclass(value):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
    return {name: getattr(value, name) for name, _, _ in _fields(type(value)) if hasattr(value, name)}


def schema(wanted):
    """JSON Schema of a class, or of any type that one has."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(it) for it in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is dict or wanted is dict:
        return {"type": "object", **({"additionalProperties": schema(arguments[1])} if len(arguments) == 2 else {})}
    if origin is list or wanted is list:
        return {"type": "array", "items": schema(arguments[0]) if arguments else {}}
    if not is_typed(wanted):
        return {"type": _NAMES[wanted]} if wanted in _NAMES else {}
    properties, required = {}, []
    for name, own, default in _fields(wanted):
        if default is _MISSING:
            required.append(name)
        said = {} if default is _MISSING or callable(default) else {"default": default}
        properties[name] = {**said, "title": name.replace("_", " ").title(), **schema(own)}
    return {"properties": properties, **({"required": required} if required else {}), "title": wanted.__name__, "type": "object"}


def _item(wanted):
    """What a list is of."""
    return typing.get_args(wanted)[0] if typing.get_origin(wanted) is list and typing.get_args(wanted) else None


def _annotations(wanted):
    return {name: it for one in reversed(wanted.__mro__) for name, it in vars(one).get("__annotations__", {}).items()}


def _fields(wanted):
    """Name, type and default of each; a function makes a default that is a new object each time."""
    hints = typing.get_type_hints(wanted)
    if dataclasses.is_dataclass(wanted):
        default = lambda it: it.default if it.default is not _MISSING else it.default_factory  # noqa: E731
        return [(it.name, hints[it.name], default(it)) for it in dataclasses.fields(wanted) if it.init]
    return [(name, hints[name], getattr(wanted, name, _MISSING)) for name in _annotations(wanted)]


def _value(wanted, value, place, problems):
    """The value as the type wants it; what is wrong with it goes to `problems`."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if is_typed(wanted):
        return _object(wanted, value, place, problems)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, place, problems)
    if origin is typing.Literal:
        if value not in arguments:
            problems.append((place, f"Input should be {' or '.join(repr(it) for it in arguments)}"))
        return value
    if (origin or wanted) is list:
        if not isinstance(value, list):
            return problems.append((place, "Input should be a valid list"))
        inner = arguments[0] if arguments else typing.Any
        return [_value(inner, it, _below(place, at), problems) for at, it in enumerate(value)]
    if (origin or wanted) is dict:
        if not isinstance(value, dict):
            return problems.append((place, "Input should be a valid dictionary"))
        inner = arguments[1] if len(arguments) == 2 else typing.Any
        return {name: _value(inner, it, _below(place, name), problems) for name, it in value.items()}
    if wanted in _SCALARS:
        try:
            return _SCALARS[wanted](value)
        except ValueError as error:
            problems.append((place, f"Input should be {error}"))
    return value


def _object(wanted, value, place, problems):
    if isinstance(value, wanted):
        return value
    if not isinstance(value, dict):
        return problems.append((place, f"Input should be a valid dictionary or instance of {wanted.__name__}"))
    given = {}
    for name, own, default in _fields(wanted):
        if name in value:
            given[name] = _value(own, value[name], _below(place, name), problems)
        elif default is _MISSING:
            problems.append((_below(place, name), "Field required"))
        elif not dataclasses.is_dataclass(wanted):
            given[name] = default.copy() if isinstance(default, (list, dict, set)) else default
    if problems:
        return None
    if dataclasses.is_dataclass(wanted):
        return wanted(**given)
    made = wanted()
    for name, it in given.items():
        setattr(made, name, it)
    return made


def _one_of(wanted, value, place, problems):
    """The first type that takes it as it is, or the first that takes it."""
    exact = [it for it in wanted if isinstance(it, type) and type(value) is it]
    first = None
    for one in exact + [it for it in wanted if it is not type(None)]:
        own = []
        made = value if one is type(None) else _value(one, value, place, own)
        if not own:
            return made
        first = first or own
    problems += first or []
    return None


def _below(place, name):
    return f"{place}.{name}" if place else str(name)


def _text(value):
    if not isinstance(value, str):
        raise ValueError("a valid string")
    return value


def _integer(value):
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            raise ValueError("a valid integer, unable to parse string as an integer") from None
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("a valid integer, got a number with a fractional part")
    if not isinstance(value, (int, float)):
        raise ValueError("a valid integer")
    return int(value)


def _number(value):
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


def _boolean(value):
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str) or value in (0, 1) else ""
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError("a valid boolean" + (", unable to interpret input" if isinstance(value, (str, int)) else ""))


_SCALARS = {str: _text, int: _integer, float: _number, bool: _boolean}
