"""What a project that `modelhost new --from` brought over does not have yet: native packages, each a name that says so when it is called.

While the component is built, a name may be looked at, called and derived from, so that a module with `@torch.no_grad()` or
`class Net(nn.Module)` can be imported. From `init` on a call raises `NotPorted`.
"""

_is_imported = False


class NotPorted(NotImplementedError):
    """A native package is needed here."""


class Unported:
    """A name of a native package, `torch.nn.Module`."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unported(f"{self._name}.{name}")

    def __setattr__(self, name, value):
        if _is_imported:
            raise _not_ported(self._name)

    def __call__(self, *arguments, **named):
        if _is_imported:
            raise _not_ported(self._name)
        # A decorator gives back what it decorates.
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Unported(f"{self._name}()")

    def __mro_entries__(self, bases):
        return (_base(self._name),)

    def __getitem__(self, at):
        return self

    def __iter__(self):
        raise _not_ported(self._name)

    def __bool__(self):
        return False

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __enter__(self):
        raise _not_ported(self._name)

    def __exit__(self, *error):
        return False

    def __repr__(self):
        return f"<{self._name}, not ported>"


def unported(name):
    """A package, or what is imported of one."""
    return Unported(name)


def imported():
    """Called at the end of the handler's module: what is called from here on has to be there."""
    global _is_imported
    _is_imported = True


def _not_ported(name):
    return NotPorted(f"`{name}` is native code, which the sandbox has not: MIGRATION.md says what to do")


def _base(name):
    """A class to derive from: its instances cannot be made."""

    def __init__(self, *arguments, **named):
        raise _not_ported(name)

    return type(name.rpartition(".")[2], (), {"__init__": __init__})
