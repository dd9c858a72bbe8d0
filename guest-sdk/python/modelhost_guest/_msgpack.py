"""MessagePack, which clients of a Truss send and take, numpy's arrays in it as msgpack-numpy packs them.

An array is a `Tensor` when it is read, and a `Tensor` is an array when it is written; texts, bytes and numbers are Python's.
"""

from __future__ import annotations

import struct
from typing import Any

from ._tensor import SIZES, Tensor
from .errors import InvalidInput
from .messages import Fields

# Levels of a document: far fewer than the sandbox's stack has room for.
DEEPEST = 100
# numpy's types, without the order of their bytes, by their datatypes.
_TYPES = {
    "BOOL": "b1", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2", "INT32": "i4",
    "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
_DATATYPES = {kind: datatype for datatype, kind in _TYPES.items()}
# What follows the first byte: a number, or the length of a text, of bytes, of a list, of a map.
_NUMBERS = {0xCA: ">f", 0xCB: ">d", **{0xCC + at: f">{format}" for at, format in enumerate("BHIQbhiq")}}
_LENGTHS = {
    **{0xC4 + at: ("bytes", f">{format}") for at, format in enumerate("BHI")},
    **{0xD9 + at: ("text", f">{format}") for at, format in enumerate("BHI")},
    **{0xDC + at: ("list", f">{format}") for at, format in enumerate("HI")},
    **{0xDE + at: ("map", f">{format}") for at, format in enumerate("HI")},
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# The widest integers, and the byte before each.
_WHOLE = [(0xCC + at, f">{format}") for at, format in enumerate("BHIQ")]
_NEGATIVE = [(0xD0 + at, f">{format}") for at, format in enumerate("bhiq")]


def unpacked(document: Any) -> Any:
    """The value of a document that others wrote; what is none is an `InvalidInput`."""
    reader = _Reader(document)
    try:
        value = reader.value(0)
    except struct.error:
        raise InvalidInput("the document breaks off") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"a text is not UTF-8: {error.reason}") from None
    if reader.left:
        raise InvalidInput(f"{reader.left} bytes after the end of the document")
    return value


def packed(value: Any, plain: Any) -> Any:
    """A document of the value; `plain` makes what it knows of an object that is none of MessagePack's."""
    pieces: list[Any] = []
    _write(value, plain, pieces, 0)
    return b"".join(pieces)


class _Reader:
    def __init__(self, document: Any) -> None:
        self._document, self._at = memoryview(document).cast("B"), 0

    @property
    def left(self) -> Any:
        return len(self._document) - self._at

    def value(self, depth: int) -> Any:
        first = self._number(">B")
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._list(first & 0x0F, depth)
        if first < 0xC0:
            return str(self._bytes(first & 0x1F), "utf-8")
        if first not in _LENGTHS:
            what = "an extension" if first in (*range(0xC7, 0xCA), *range(0xD4, 0xD9)) else f"the byte {first:#x}"
            raise InvalidInput(f"{what} at byte {self._at - 1} is not read")
        kind, format = _LENGTHS[first]
        length = self._number(format)
        if kind == "text":
            return str(self._bytes(length), "utf-8")
        if kind == "bytes":
            return bytes(self._bytes(length))
        return self._list(length, depth) if kind == "list" else self._map(length, depth)

    def _number(self, format: Any) -> Any:
        [number] = struct.unpack_from(format, self._document, self._at)
        self._at += struct.calcsize(format)
        return number

    def _bytes(self, length: int) -> Any:
        if length > self.left:
            raise InvalidInput("the document breaks off")
        self._at += length
        return self._document[self._at - length : self._at]

    def _list(self, length: int, depth: int) -> Any:
        self._nest(length, depth)
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> Any:
        self._nest(2 * length, depth)
        made = Fields()
        for _ in range(length):
            key = self.value(depth + 1)
            if isinstance(key, (list, dict, Tensor)):
                raise InvalidInput(f"a key of a map is a {'list' if isinstance(key, list) else 'map'}")
            made[key] = self.value(depth + 1)
        return _of_numpy(made)

    def _nest(self, values: Any, depth: int) -> None:
        """Each value takes a byte at least: no length is believed that the document has no room for."""
        if values > self.left:
            raise InvalidInput("the document breaks off")
        if depth >= DEEPEST:
            raise InvalidInput(f"nested deeper than {DEEPEST} levels")


def _of_numpy(made: Any) -> Any:
    """An array or a scalar of numpy's, if the map is one."""
    said = {key.decode(errors="replace") if isinstance(key, bytes) else key: value for key, value in made.items()}
    if not isinstance(said.get("nd"), bool) or not {"type", "data"} <= said.keys():
        return made
    kind, data = said["type"], said["data"]
    kind = kind.decode(errors="replace") if isinstance(kind, bytes) else kind
    datatype = _DATATYPES.get(kind[1:].replace("?", "b1")) if isinstance(kind, str) and kind[:1] in ("<", ">", "|", "=") else None
    if datatype is None or not isinstance(data, bytes):
        raise InvalidInput(f"an array of numpy's type {kind!r} is not read; read are truth values, integers and floats")
    if kind[0] == ">":
        data = _turned(data, SIZES[datatype] or 1)
    shape = said.get("shape", ()) if said["nd"] else ()
    if not isinstance(shape, (list, tuple)) or not all(type(it) is int and it >= 0 for it in shape):
        raise InvalidInput("the shape of an array is a list of extents")
    try:
        tensor = Tensor.raw(data, datatype, shape)
    except ValueError as error:
        raise InvalidInput(f"an array of numpy's: {error}") from None
    return tensor if said["nd"] else tensor.tolist()


def _turned(data: Any, size: int) -> Any:
    """The bytes of each element in the other order."""
    turned = bytearray(len(data))
    for at in range(size):
        turned[at::size] = data[size - 1 - at :: size]
    return bytes(turned)


def _write(value: Any, plain: Any, pieces: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    if value is None:
        pieces.append(b"\xc0")
    elif isinstance(value, bool):
        pieces.append(b"\xc3" if value else b"\xc2")
    elif isinstance(value, int):
        pieces.append(_integer(value))
    elif isinstance(value, float):
        pieces.append(struct.pack(">Bd", 0xCB, value))
    elif isinstance(value, str):
        data = value.encode(errors="replace")
        pieces += [_head(len(data), 0xA0, 32, 0xD9, "BHI"), data]
    elif isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        pieces += [_head(len(data), 0, 0, 0xC4, "BHI"), data]
    elif isinstance(value, (list, tuple)):
        pieces.append(_head(len(value), 0x90, 16, 0xDC, "HI"))
        for item in value:
            _write(item, plain, pieces, depth + 1)
    elif isinstance(value, dict):
        pieces.append(_head(len(value), 0x80, 16, 0xDE, "HI"))
        for key, item in value.items():
            _write(key, plain, pieces, depth + 1)
            _write(item, plain, pieces, depth + 1)
    elif isinstance(value, Tensor) and value.datatype in _TYPES:
        _write(_to_numpy(value), plain, pieces, depth + 1)
    else:
        _write(value.tolist() if isinstance(value, Tensor) else plain(value), plain, pieces, depth + 1)


def _to_numpy(tensor: Any) -> Any:
    order = "|" if SIZES[tensor.datatype] == 1 else "<"
    kind = order + _TYPES[tensor.datatype]
    return {b"nd": True, b"type": kind, b"kind": b"", b"shape": list(tensor.shape), b"data": bytes(tensor.data)}


def _integer(value: Any) -> Any:
    if -32 <= value < 128:
        return struct.pack(">b" if value < 0 else ">B", value)
    for first, format in _WHOLE if value >= 0 else _NEGATIVE:
        try:
            return bytes([first]) + struct.pack(format, value)
        except struct.error:
            pass
    raise OverflowError(f"{value} is no integer of 64 bits")


def _head(length: int, short: Any, below: Any, first: Any, formats: Any) -> Any:
    """The byte before a text, bytes, a list or a map, and the length."""
    if length < below:
        return bytes([short + length])
    for at, format in enumerate(formats):
        if length < 1 << 8 * struct.calcsize(format):
            return bytes([first + at]) + struct.pack(f">{format}", length)
    raise OverflowError(f"{length} elements are too many")
