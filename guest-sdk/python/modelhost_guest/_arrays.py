"""numpy's arrays as tensors and back. numpy is the handler's: it is found where `app.py` has imported it, and never imported here.

An array of a tensor is a view of it, which cannot be written to; `.copy()` makes one that can. numpy has no BF16, which becomes
float32, and texts are an array of `bytes` objects, as Triton's clients have them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .errors import InvalidInput

if TYPE_CHECKING:
    from ._tensor import Tensor

# Of each datatype: numpy's name of the type, without the order of bytes.
TYPES = {
    "BOOL": "b1", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2", "INT32": "i4",
    "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
DATATYPES = {name: datatype for datatype, name in TYPES.items()}
# The types that numpy takes where none is said, and what models take in their place.
DEFAULTS = {"INT32": "INT64", "FP64": "FP32"}


def numpy() -> Any:
    """The module, if the handler has it."""
    found = sys.modules.get("numpy")
    if found is None or not hasattr(found, "ndarray"):
        raise RuntimeError("numpy is not imported: write `import numpy` at the top of app.py, and `numpy` into requirements.txt")
    return found


def is_array(value: Any) -> Any:
    """Whether it is an array or a scalar of numpy's."""
    found = sys.modules.get("numpy")
    return found is not None and isinstance(value, (found.ndarray, found.generic))


def has_arrays(kinds: Any) -> Any:
    """Whether one of these types is an array or a scalar of numpy's."""
    found = sys.modules.get("numpy")
    return found is not None and any(issubclass(kind, (found.ndarray, found.generic)) for kind in kinds)


def array_of(tensor: Tensor) -> Any:
    """A tensor's elements in an array; of numbers nothing is copied."""
    np = numpy()
    name = TYPES.get(tensor.datatype)
    if name is not None:
        return np.ndarray(tensor.shape, np.dtype(f"<{name}"), tensor.data)
    if tensor.datatype == "BF16":
        return np.ndarray(tensor.shape, np.dtype("<f4"), tensor.values)
    made = np.empty(len(tensor.values), object)
    made[:] = tensor.values
    return made.reshape(tensor.shape)


def encoded(value: Any, datatype: str | None) -> Any:
    """Shape, data and datatype of an array, a scalar, or lists of them."""
    np = numpy()
    if "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray):
        raise TypeError("elements of the array are masked: `.filled(…)` says what is there")
    try:
        array = np.asarray(value)
    except ValueError:
        raise InvalidInput("rows are not of one length") from None
    kind = array.dtype.kind
    if kind in "SUO" or datatype == "BYTES":
        return _texts(array, datatype)
    own = DATATYPES.get(array.dtype.str[1:])
    if own is None:
        raise TypeError(f"an array of {array.dtype} is no tensor's: `.astype(…)` makes one of float32 or int64, say")
    if datatype == "BF16":
        return array.shape, _bfloat16(np, array), datatype
    if datatype in (None, own):
        wanted = own
    else:
        wanted = datatype
        _check(np, array, own, wanted)
    # What is beyond the largest is infinity.
    with np.errstate(over="ignore"):
        made = array.astype(f"<{TYPES[wanted]}", order="C", copy=False)
    return array.shape, made.tobytes(), wanted


def _check(np: Any, array: Any, own: Any, wanted: Any) -> None:
    """What a conversion would lose, is refused; a float loses digits only."""
    is_float = wanted.startswith("FP")
    if own == "BOOL" and wanted != "BOOL" and is_float:
        raise InvalidInput(f"a truth value is no {wanted}")
    if is_float:
        return
    if wanted == "BOOL":
        if ((array != 0) & (array != 1)).any():
            raise InvalidInput("the values are no BOOL: one is neither true nor false")
        return
    if own.startswith("FP"):
        raise InvalidInput(f"the values are no {wanted}: they are {array.dtype}")
    limits = np.iinfo(TYPES[wanted])
    if array.size and own != "BOOL" and not (limits.min <= int(array.min()) and int(array.max()) <= limits.max):
        raise InvalidInput(f"the values are no {wanted}: one is not in its range")


def _texts(array: Any, datatype: str | None) -> Any:
    if datatype not in (None, "BYTES"):
        raise InvalidInput(f"the values are no {datatype}: they are {array.dtype}")
    # numpy drops zeros at the end of texts of one width.
    flat = array.ravel().tolist()
    if not all(isinstance(it, (str, bytes)) for it in flat):
        raise InvalidInput("an array of objects is a tensor only of texts: say its `dtype`, as `dtype=np.float32`")
    parts = [it.encode() if isinstance(it, str) else it for it in flat]
    return array.shape, b"".join(piece for it in parts for piece in (len(it).to_bytes(4, "little"), it)), "BYTES"


def _bfloat16(np: Any, array: Any) -> Any:
    """To the nearest, ties to even; a NaN stays one."""
    bits = array.astype("<f4", order="C").view("<u4")
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, nearest).astype("<u2").tobytes()


def fitted(tensors: Any, signature: Any) -> Any:
    """Tensors of arrays as the model takes them: numpy's own choice of int32 becomes INT64, and one of float64 is told of.

    `signature` is asked for only if an array is of such a type.
    """
    for tensor in tensors:
        if tensor.is_default:
            break
    else:
        return tensors
    specs = signature().inputs
    named = {spec.name: spec.datatype for spec in specs}
    only = specs[0].datatype if len(specs) == 1 else None
    return [_fitted(it, named.get(it.name, only)) if it.is_default else it for it in tensors]


def _fitted(tensor: Tensor, wanted: Any) -> Any:
    if wanted != DEFAULTS[tensor.datatype]:
        return tensor
    if tensor.datatype == "FP64":
        name = f"input `{tensor.name}`" if tensor.name else "the input"
        raise TypeError(
            f"{name} of the model takes FP32, and the array is of float64: make it with `dtype=np.float32`, or `.astype(np.float32)`"
        )
    return type(tensor).raw(array_of(tensor).astype("<i8").tobytes(), wanted, tensor.shape, tensor.name)
