"""Objects that outlive a request, of any size: in the containers that the endpoint grants, `blobs = ["default"]`.

In a test the objects are in memory, in any
container, and `forget()` begins anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from . import _host, _objects
from .errors import BlobError, checked

# Most bytes that are asked for or given at once, and most names of one page.
PIECE = 256 * 1024
PAGE = 1000
NAME = "an object's name"
# As far as an object can reach.
END = 2**64 - 1


@dataclasses.dataclass
class Info:
    """Bytes of an object, and when it was written, in seconds since 1970."""

    size: int
    created: int


def open(name: str = "default") -> Container:
    """A container: `default`, or `shared/images` for one that several endpoints are granted.

    The host is asked at each use, so that a container may be a variable of the module.
    """
    return Container(name)


class Container:
    """Objects by name; a name is any text of 1 to 512 bytes. Every function may raise `BlobError`."""

    def __init__(self, name: str) -> None:
        self.name = checked(name, "a container's name")

    def get(self, name: str) -> bytes | None:
        """An object as a whole, or None."""
        return _whole(self._opened(name, 0, END))

    def get_range(self, name: str, start: int, end: int) -> bytes | None:
        """Its bytes from `start` up to `end`, as far as there are some; None if it is not there."""
        if end <= start:
            return None if self.info(name) is None else b""
        return _whole(self._opened(name, start, end - 1))

    def reader(self, name: str) -> Reader | None:
        """The object to be read piece by piece, or None: `for piece in reader`, or `reader.read(size)`."""
        return self._opened(name, 0, END)

    def set(self, name: str, content: str | bytes | bytearray | memoryview) -> None:
        """Writes an object as a whole, in place of an earlier one: bytes, or a text."""
        with self.writer(name) as writer:
            writer.write(content)

    def writer(self, name: str) -> Writer:
        """An object to be written piece by piece: `with results.writer("a") as writer: writer.write(…)`.

        It is there when the block has ended; if an error ends it, nothing is left of it.
        """
        checked(name, NAME)
        return Writer(self._asked(lambda container: container.write(name)))

    def info(self, name: str) -> Info | None:
        """`Info` of an object, or None."""
        checked(name, NAME)
        found = self._asked(lambda container: container.info(name))
        return None if found is None else Info(*found)

    def delete(self, name: str) -> None:
        """Removes an object, whether it is there or not."""
        checked(name, NAME)
        self._asked(lambda container: container.delete(name))

    def clear(self) -> None:
        """Removes all objects."""
        self._asked(lambda container: container.clear())

    def names(self, most: int | None = None) -> list[str]:
        """The names of all objects, or of so many, in any order."""
        return self._asked(lambda container: container.names(most))

    def _opened(self, name: str, first: int, last: int) -> Reader | None:
        checked(name, NAME)
        try:
            return Reader(*self._asked(lambda container: container.read(name, first, last)))
        except BlobError:
            # What went wrong, its words alone say.
            if self.info(name) is None:
                return None
            raise

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        if _host.types is None:
            return ask(_objects.container(self.name))
        if _host.blobstore is None:
            raise RuntimeError(
                "the handler imports no objects: add `include modelhost:handler/blob-imports@0.1.0;` to the world in wit/world.wit"
            )
        with _Host(self.name) as container:
            return ask(container)


class Reader:
    """An object that is read; `size` are the bytes that there are. It closes itself at its end, or with its block."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream = stream
        self.size = size

    def read(self, size: int | None = None) -> bytes:
        """At most so many of the next bytes, none at the end; without a size, all of them."""
        if size is None:
            return b"".join(self)
        if self._stream is None or size == 0:
            return b""
        piece = self._stream.read(min(size, PIECE))
        if not piece:
            self.close()
        return piece

    def close(self) -> None:
        """Reads no more."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.read(PIECE), b"")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Writer:
    """An object that is written."""

    def __init__(self, stream: Any) -> None:
        self._stream: Any = stream

    def write(self, content: str | bytes | bytearray | memoryview) -> None:
        """Adds to it: bytes, or a text."""
        self._stream.write(_bytes(content))

    def finish(self) -> None:
        """Ends the object: it is stored when this returns."""
        stream, self._stream = self._stream, None
        stream.finish()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._stream is None:
            return
        if kind is None:
            self.finish()
        else:
            stream, self._stream = self._stream, None
            stream.give_up()


def forget() -> None:
    """For tests: forgets all objects."""
    _objects.forget()


def _whole(reader: Reader | None) -> bytes | None:
    if reader is None:
        return None
    with reader:
        return reader.read()


def _bytes(content: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"the content of an object is bytes or a text, and not {type(content).__name__}")


def _close(resource: Any) -> None:
    resource.__exit__(None, None, None)


def _error(error: Any) -> BlobError:
    """The host's words."""
    value = getattr(error.value, "value", error.value)
    return BlobError(value.to_debug_string() if hasattr(value, "to_debug_string") else str(value or "the object is closed"))


class _Host:
    """A container of the host, for one call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> _Host:
        try:
            self._container = _host.blobstore.get_container(self._name)
        except _host.Err as error:
            raise _error(error) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: object) -> None:
        _close(self._container)
        if kind is not None and isinstance(error, _host.Err):
            raise _error(error) from None

    def read(self, name: str, first: int, last: int) -> Any:
        value = self._container.get_data(name, first, last)
        size = value.size()
        return _Input(_host.blob_types.IncomingValue.incoming_value_consume_async(value)), size

    def write(self, name: str) -> Any:
        value = _host.blob_types.OutgoingValue.new_outgoing_value()
        self._container.write_data(name, value)
        return _Output(value, value.outgoing_value_write_body())

    def info(self, name: str) -> Any:
        if not self._container.has_object(name):
            return None
        found = self._container.object_info(name)
        return found.size, found.created_at

    def delete(self, name: str) -> None:
        self._container.delete_object(name)

    def clear(self) -> None:
        self._container.clear()

    def names(self, most: int | None) -> list[str]:
        listing, is_end = self._container.list_objects(), False
        names: list[str] = []
        try:
            while not is_end and (most is None or len(names) < most):
                page, is_end = listing.read_stream_object_names(PAGE if most is None else min(PAGE, most - len(names)))
                names += page
        finally:
            _close(listing)
        return names


class _Input:
    """A stream of the host's that is read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._stream.blocking_read(size))
        except _host.Err as error:
            if getattr(error.value, "value", None) is None:
                return b""
            raise _error(error) from None

    def close(self) -> None:
        _close(self._stream)


class _Output:
    """One that is written."""

    def __init__(self, value: Any, stream: Any) -> None:
        self._value = value
        self._stream = stream

    def write(self, content: str | bytes | bytearray | memoryview) -> None:
        try:
            # A view: a rest of bytes would be a copy.
            rest = memoryview(content.encode() if isinstance(content, str) else content)
            while rest:
                room = min(self._stream.check_write(), PIECE)
                if room == 0:
                    with self._stream.subscribe() as pollable:
                        pollable.block()
                    continue
                self._stream.write(bytes(rest[:room]))
                rest = rest[room:]
        except _host.Err as error:
            raise _error(error) from None

    def finish(self) -> None:
        _close(self._stream)
        try:
            _host.blob_types.OutgoingValue.finish(self._value)
        except _host.Err as error:
            raise _error(error) from None

    def give_up(self) -> None:
        _close(self._stream)
        _close(self._value)
