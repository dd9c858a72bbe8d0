"""Tensors: what goes to a model and what comes from it.

Elements are those of the Open Inference Protocol. Numbers are read where they lie, as a `memoryview`; FP16 and BF16, which
Python has no view of, are copied to 32 bits.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, overload

from . import _arrays
from .errors import InvalidInput

# Of each datatype: the format of its elements in `array` and `memoryview`.
FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP32": "f", "FP64": "d",
}  # fmt: skip
# Bytes of an element of those that have no format.
HALVES = {"FP16": 2, "BF16": 2}
# Bytes of an element; of BYTES there is no such number.
SIZES = {**HALVES, **{datatype: struct.calcsize(f"={format}") for datatype, format in FORMATS.items()}, "BYTES": None}
# Of each format that a buffer may have: the datatype.
DATATYPES = {
    **{format: datatype for datatype, format in FORMATS.items()},
    ("l" if array("l").itemsize == 8 else "i"): "INT64" if array("l").itemsize == 8 else "INT32",
    ("L" if array("L").itemsize == 8 else "I"): "UINT64" if array("L").itemsize == 8 else "UINT32",
}
# What values are nested in, what they are as a rule, and what has a format of its own.
ROWS, SCALARS, BUFFERS = (list, tuple), {bool, int, float, str, bytes}, (array, memoryview)


class Tensor:
    """`Tensor([[1.0, 2.0]])`, `Tensor(array("f", …), shape=(1, 2))`, `Tensor(["a", "b"])`.

    `values` are a number or a text, lists of them (nested as the shape is), or a buffer of elements: an `array`, a
    `memoryview`, an array of numpy's. Without a `datatype` numbers are INT64 if all are whole, else FP32, and texts are BYTES;
    buffers have their own. `name` is the model's input; without one the tensor is its only input. Values that make no tensor are `InvalidInput`: they come from the
    caller, as a rule.
    """

    __slots__ = ("name", "datatype", "shape", "data")
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Any
    # Whether numpy has chosen the datatype, which the model's signature may change.
    is_default = False

    def __init__(self, values: Any, datatype: str | None = None, shape: Sequence[int] | None = None, name: str = "") -> None:
        if datatype is not None and datatype not in SIZES:
            raise ValueError(f"`{datatype}` is no datatype; one is FP32, INT64, BYTES")
        own = datatype
        extents, data, datatype = _encoded(values, datatype)
        if own is None and datatype in _arrays.DEFAULTS and _arrays.is_array(values):
            self.__class__ = _Default  # pyright: ignore
        self.name, self.datatype, self.shape, self.data = name, datatype, extents, data
        if shape is not None:
            self.shape = _fitted(tuple(shape), math.prod(extents))

    @classmethod
    def raw(cls, data: Any, datatype: str, shape: Sequence[int], name: str = "") -> Tensor:
        """Of bytes as the contract has them: row-major, little-endian; BYTES with their lengths in front."""
        size = SIZES[datatype]
        if size is not None and math.prod(shape) * size != len(data):
            raise ValueError(f"{len(data)} bytes are no {datatype}{list(shape)}")
        return cls._of(data, datatype, tuple(shape), name)

    @classmethod
    def _of(cls, data: Any, datatype: str, shape: tuple[int, ...], name: str) -> Tensor:
        """Of bytes that are known to fit: the host's, a library's, or a part of a tensor's."""
        tensor = cls.__new__(cls)
        tensor.name, tensor.datatype, tensor.shape, tensor.data = name, datatype, shape, data
        return tensor

    @property
    def values(self) -> Any:
        """All elements in a row: a view of numbers, a list of `bytes`."""
        format = FORMATS.get(self.datatype)
        if format is not None:
            view = memoryview(self.data)
            return (view if view.format == "B" else view.cast("B")).cast(format)  # type: ignore[call-overload]
        if self.datatype == "BYTES":
            return _parts(self.data)
        if self.datatype == "FP16":
            return memoryview(array("f", struct.unpack(f"<{len(self.data) // 2}e", self.data)))
        upper = memoryview(self.data).cast("H")
        return memoryview(array("I", (half << 16 for half in upper))).cast("B").cast("f")

    def strings(self) -> list[str]:
        """All elements of a BYTES tensor as text."""
        if self.datatype != "BYTES":
            raise TypeError(f"a tensor of {self.datatype} has no strings")
        return [value.decode() for value in _parts(self.data)]

    def tolist(self) -> Any:
        """Lists, nested as the shape is; of a scalar the value. BYTES are text."""
        values = self.strings() if self.datatype == "BYTES" else self.values.tolist()
        if not self.shape:
            return values[0]
        for axis in range(len(self.shape) - 1, 0, -1):
            extent = self.shape[axis]
            count = math.prod(self.shape[:axis])
            values = [values[at * extent : (at + 1) * extent] for at in range(count)]
        return values

    def numpy(self) -> Any:
        """The elements as an array of numpy's, which app.py imports. It is a view: `.copy()` makes one to write to.

        BF16 is float32, and BYTES are objects, each `bytes`.
        """
        return _arrays.array_of(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For `np.asarray(tensor)`: a view, unless a copy or another type is asked for."""
        made = _arrays.array_of(self)
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.datatype} as {dtype} is a copy")
            return made.astype(dtype)
        return made.copy() if copy else made

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements under another shape; one extent may be -1."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return Tensor.raw(self.data, self.datatype, _fitted(tuple(shape), math.prod(self.shape)), self.name)

    def argmax(self) -> int:
        """Where the largest element is, all of them in a row; NaN is never the largest."""
        # Of lists, Python finds both several times as fast as a loop of its own does. A NaN is the largest if it is the
        # first, and is passed over anywhere else.
        values = list(self.values)
        largest = max(values, default=math.nan)
        if largest != largest:
            largest = max((value for value in values if value == value), default=None)
        if largest is None:
            raise ValueError("no element is a number")
        return values.index(largest)

    def top_k(self, count: int) -> list[tuple[int, Any]]:
        """The largest elements, all of them in a row: `(index, value)`, largest first."""
        numbers = [(at, value) for at, value in enumerate(self.values) if value == value]
        numbers.sort(key=lambda pair: -pair[1])
        return numbers[: max(count, 0)]

    def softmax(self) -> Tensor:
        """Each row along the last axis as probabilities, FP32."""
        values = self.values
        width = self.shape[-1] if self.shape else 1
        result = array("f")
        for start in range(0, len(values), max(width, 1)):
            row = values[start : start + width]
            largest = max(row)
            powers = [math.exp(value - largest) for value in row]
            total = math.fsum(powers)
            result.extend(power / total for power in powers)
        return Tensor.raw(result.tobytes(), "FP32", self.shape, self.name)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no rows")
        return self.shape[0]

    def __getitem__(self, at: Any) -> Any:
        """A row along the first axis, an element if there is no other axis, or a range of rows; nothing is copied of numbers."""
        # `len` raises for a scalar; otherwise the call is avoided.
        count = self.shape[0] if self.shape else len(self)
        if isinstance(at, slice):
            start, stop, step = at.indices(count)
            if step != 1:
                raise IndexError("rows are taken one after another")
            return self._rows(start, max(stop, start), (max(stop - start, 0), *self.shape[1:]))
        if not -count <= at < count:
            raise IndexError(f"row {at} of {count}")
        at %= count
        if len(self.shape) == 1:
            return self.values[at]
        return self._rows(at, at + 1, self.shape[1:])

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) == 1:
            return iter(self.values)
        return (self[at] for at in range(len(self)))

    def _rows(self, start: int, stop: int, shape: tuple[int, ...]) -> Tensor:
        if stop - start == self.shape[0]:
            # All there are, as of a batch of one.
            data = self.data if self.datatype == "BYTES" else memoryview(self.data)
            return Tensor._of(data, self.datatype, shape, self.name)
        width = math.prod(self.shape[1:])
        size = SIZES[self.datatype]
        if size is None:
            parts = _parts(self.data)[start * width : stop * width]
            return Tensor._of(_joined(parts), self.datatype, shape, self.name)
        width *= size
        return Tensor._of(memoryview(self.data)[start * width : stop * width], self.datatype, shape, self.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return all(getattr(self, slot) == getattr(other, slot) for slot in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"Tensor({self.tolist()!r}, {self.datatype!r}{name})"


class _Default(Tensor):
    """One of an array whose type is numpy's choice: int32 for whole numbers (on a platform of 32 bits), float64 for others."""

    __slots__ = ()
    is_default = True


class Tensors(list[Tensor]):
    """Tensors in the model's order, by place and by name: `outputs[0]`, `outputs["probabilities"]`."""

    @overload
    def __getitem__(self, at: SupportsIndex | str) -> Tensor: ...

    @overload
    def __getitem__(self, at: slice) -> list[Tensor]: ...

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, str):
            return super().__getitem__(at)
        for tensor in self:
            if tensor.name == at:
                return tensor
        names = ", ".join(f"`{tensor.name}`" for tensor in self)
        raise KeyError(f"no tensor is named `{at}`; there are {names}")


def tensors(value: Any) -> list[Tensor]:
    """What a function returned as a list of tensors: one, several, or a dict of them by name. An array of numpy's is one."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [_named(name, tensor) for name, tensor in value.items()]
    if isinstance(value, (list, tuple)) and all(isinstance(tensor, Tensor) for tensor in value):
        return list(value)
    if _arrays.is_array(value):
        return [Tensor(value)]
    if isinstance(value, (list, tuple)) and all(isinstance(it, Tensor) or _arrays.is_array(it) for it in value):
        return [it if isinstance(it, Tensor) else Tensor(it) for it in value]
    raise TypeError(f"expected tensors, got {type(value).__name__}")


def _named(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        return Tensor(value, name=name)
    return value if value.name == name else type(value)._of(value.data, value.datatype, value.shape, name)


def _fitted(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    free = shape.count(-1)
    if free == 1:
        rest = math.prod(extent for extent in shape if extent != -1)
        if rest and count % rest == 0:
            return tuple(count // rest if extent == -1 else extent for extent in shape)
    elif free == 0 and math.prod(shape) == count:
        return shape
    raise ValueError(f"{count} elements do not fit {list(shape)}")


def _encoded(values: Any, datatype: str | None) -> tuple[tuple[int, ...], bytes, str]:
    """Shape, data and datatype of what a caller wrote."""
    if isinstance(values, BUFFERS):
        view = memoryview(values)
        own = DATATYPES.get(view.format)
        if own is None:
            raise TypeError(f"elements of format `{view.format}` are no tensor's")
        if datatype in (None, own):
            return tuple(view.shape or ()), view.tobytes(), own
        values = view.tolist()
    elif isinstance(values, bytearray):
        values = bytes(values)
    if _arrays.is_array(values):
        return _arrays.encoded(values, datatype)
    shape, flat, kinds = _flat(values)
    if not SCALARS.issuperset(kinds) and _arrays.has_arrays(kinds):
        return _arrays.encoded(values, datatype)
    datatype = datatype or _datatype(kinds)
    # To Python truth values are numbers.
    if bool in kinds and datatype in ("FP16", "BF16", "FP32", "FP64"):
        raise InvalidInput(f"a truth value is no {datatype}")
    try:
        return shape, _data(flat, datatype), datatype
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise InvalidInput(f"the values are no {datatype}: {error}") from None


def _flat(values: Any) -> tuple[tuple[int, ...], Any, set[type]]:
    """Extents, elements in a row, and the types that these have."""
    if not isinstance(values, ROWS):
        return (), [values], {type(values)}
    shape: tuple[int, ...] = (len(values),)
    flat = values
    while flat and isinstance(flat[0], ROWS):
        extent = len(flat[0])
        shape += (extent,)
        if len(flat) == 1:
            flat = flat[0]
            continue
        for row in flat:
            if not isinstance(row, ROWS) or len(row) != extent:
                raise InvalidInput("rows are not of one length")
        flat = [value for row in flat for value in row]
    kinds = set(map(type, flat))
    if not SCALARS.issuperset(kinds) and any(issubclass(kind, ROWS) for kind in kinds):
        raise InvalidInput("rows are not of one length")
    return shape, flat, kinds


def _datatype(kinds: set[type]) -> str:
    if kinds and all(issubclass(kind, (str, bytes)) for kind in kinds):
        return "BYTES"
    if kinds == {bool}:
        return "BOOL"
    if kinds and all(issubclass(kind, int) and kind is not bool for kind in kinds):
        return "INT64"
    return "FP32"


def _data(flat: Any, datatype: str) -> bytes:
    if datatype in FORMATS and datatype != "BOOL":
        return array(FORMATS[datatype], flat).tobytes()
    if datatype == "BYTES":
        return _joined([value.encode() if isinstance(value, str) else bytes(memoryview(value)) for value in flat])
    if datatype == "BOOL":
        if any(value not in (0, 1) for value in flat):
            raise ValueError("one is neither true nor false")
        return bytes(map(bool, flat))
    if datatype == "FP16":
        try:
            return struct.pack(f"<{len(flat)}e", *flat)
        except OverflowError:
            # Half a unit beyond the largest begins infinity.
            return struct.pack(f"<{len(flat)}e", *(math.copysign(math.inf, it) if abs(it) >= 65520 else it for it in flat))
    # BF16, to the nearest, ties to even: half of the part that is cut off, less one where the rest is even.
    whole = memoryview(array("f", flat)).cast("B").cast("I")
    # The bits of a NaN may be all ones, which would be rounded to a zero.
    nearest = (0x7FC0 if bits & 0x7FFFFFFF > 0x7F800000 else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 for bits in whole)
    return array("H", nearest).tobytes()


def _joined(parts: list[bytes]) -> bytes:
    return b"".join(piece for part in parts for piece in (struct.pack("<I", len(part)), part))


def _parts(data: Any) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        parts.append(bytes(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return parts


if sys.byteorder != "little":
    raise ImportError("tensors are little-endian")
