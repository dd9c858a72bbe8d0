"""What a project that `modelhost new --from` brought over does not have yet: native packages, and what needs sockets, each a name that
says so when it is called.

While the component is built, a name may be looked at, called, computed with and derived from, so that a module with `@torch.no_grad()`,
`np.array([1, 2]) / 255` or `class Net(nn.Module)` can be imported. From `init` on these raise `NotPorted`. Nothing is an instance of such
a name, and one that is an exception's can stand behind `except`.
"""

from __future__ import annotations

from typing import Any

_is_imported = False
_errors: dict[Any, Any] = {}
NATIVE = "is native code, which the sandbox has not"


class NotPorted(NotImplementedError):
    """A package is needed here that the sandbox has not."""


class Unported:
    """A name of a package that is not there, `torch.nn.Module`, and why it is not."""

    def __init__(self, name: str, why: str = NATIVE) -> None:
        self.__dict__.update(_name=name, _why=why)

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0.0.0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return unported(f"{self._name}.{name}", self._why)

    def __setattr__(self, name: str, value: Any) -> None:
        _needed(self._name, self._why)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        _needed(self._name, self._why)
        # A decorator gives back what it decorates.
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Unported(f"{self._name}()", self._why)

    def __mro_entries__(self, bases: Any) -> Any:
        return (_base(self._name, self._why),)

    def __getitem__(self, at: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        _needed(self._name, self._why)
        return iter(())

    def __contains__(self, value: Any) -> bool:
        _needed(self._name, self._why)
        return False

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __instancecheck__(self, value: Any) -> Any:
        return False

    def __subclasscheck__(self, other: Any) -> Any:
        return False

    def __enter__(self) -> Any:
        _needed(self._name, self._why)
        return self

    def __exit__(self, *error: object) -> Any:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}, not ported>"


def _computed(self: Any, *others: Any) -> Any:
    _needed(self._name, self._why)
    return self


def _number(kind: type) -> Any:
    def made(self: Any, *others: Any) -> Any:
        _needed(self._name, self._why)
        return kind()

    return made


for _name, _kind in {"len": int, "int": int, "index": int, "float": float, "complex": complex}.items():
    setattr(Unported, f"__{_name}__", _number(_kind))
for _name in "add sub mul truediv floordiv mod pow matmul and xor lshift rshift".split():
    setattr(Unported, f"__{_name}__", _computed)
    setattr(Unported, f"__r{_name}__", _computed)
for _name in "lt le gt ge neg pos abs invert round setitem delitem".split():
    setattr(Unported, f"__{_name}__", _computed)


def unported(name: str, why: str = NATIVE) -> Any:
    """A package, or what is imported of one, and why it is not there."""
    parent, _, last = name.rpartition(".")
    if parent and (last.endswith(("Error", "Exception")) or (parent.endswith((".exceptions", ".errors")) and last[:1].isupper())):
        return _errors.setdefault(name, _error(name, last, why))
    return Unported(name, why)


def _error(name: str, last: str, why: str) -> Any:
    """An exception that nothing raises."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        _needed(name, why)
        Exception.__init__(self, *arguments)

    return type(last, (Exception,), {"__init__": __init__})


def imported() -> None:
    """Called at the end of the handler's module: what is called from here on has to be there."""
    global _is_imported
    _is_imported = True


def _needed(name: str, why: str) -> None:
    if _is_imported:
        raise _not_ported(name, why)


def _not_ported(name: str, why: str) -> Any:
    return NotPorted(f"`{name}` {why}: MIGRATION.md says what to do")


def _base(name: str, why: str) -> Any:
    """A class to derive from: its instances cannot be made."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        raise _not_ported(name, why)

    def __init_subclass__(cls: Any, **named: Any) -> None:
        pass

    return type(name.rpartition(".")[2], (), {"__init__": __init__, "__init_subclass__": __init_subclass__})
