"""Picture files to a model's tensor, by the library `image`, which `modelhost build` puts into the handler.

modelhost.toml names it, `[build]` with `with = ["image"]`.
In a test `answer_with` says what comes of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _host
from ._tensor import Tensor
from .errors import InvalidInput

COLOURS, FITS = ("rgb", "bgr", "grey"), ("stretch", "cover", "contain")
FILTERS, LAYOUTS = ("nearest", "box", "bilinear", "bicubic", "lanczos"), ("planes", "pixels")
DATATYPES = ("UINT8", "FP16", "FP32")

_stand_in = None


class ImageError(InvalidInput):
    """Why a file is no picture. `kind` is one of unsupported, invalid, too-large. Without more it is the caller's 400."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Picture:
    """A picture as a tensor.

    `width` and `height` are those of the file's picture, upright; a point of it is in the tensor at `x * scale[0] + offset[0]`
    and `y * scale[1] + offset[1]`.
    """

    def __init__(self, tensor: Tensor, width: int, height: int, offset: tuple[float, float] = (0.0, 0.0), scale: tuple[float, float] = (1.0, 1.0)) -> None:
        self.tensor, self.width, self.height, self.offset, self.scale = tensor, width, height, offset, scale


def prepare(
    file: bytes | bytearray | memoryview, size: int | tuple[int, int] | None = None, *, fit: str = "stretch", filter: str = "bilinear", colours: str = "rgb", layout: str = "planes", datatype: str = "FP32", scale: float = 1 / 255,
    mean: Sequence[float] = (), deviation: Sequence[float] = (), padding: int = 0, upright: bool = True, most_pixels: int = 0, name: str = "",
) -> Picture:  # fmt: skip
    """Decodes a JPEG, PNG or WebP file, brings the picture to a size, and makes a tensor of it with an axis for a batch.

    `size` is columns and rows, or a number for both; without one it is the picture's own. A value is
    `(byte * scale - mean) / deviation`, `mean` and `deviation` one number for each value of a pixel; UINT8 has the bytes.
    `layout` "planes" is `[1, values, rows, columns]`, "pixels" `[1, rows, columns, values]`. `padding` is the byte around a picture
    that "contain" does not let fill its size. A picture of more than `most_pixels` (4096 by 4096) is refused. May raise `ImageError`.
    """
    for given, known in ((fit, FITS), (filter, FILTERS), (colours, COLOURS), (layout, LAYOUTS), (datatype, DATATYPES)):
        if given not in known:
            raise ValueError(f"`{given}` is none of {', '.join(known)}")
    size = (size, size) if isinstance(size, int) else size
    if _host.types is None:
        if _stand_in is None:
            raise RuntimeError("the test does not say what comes of a file: `image.answer_with`")
        return _stand_in(file)
    images = _images()
    preparation = images.Preparation(
        None if size is None else (size[0], size[1]),
        images.Fit[fit.upper()],
        images.Filter[filter.upper()],
        images.Colours[colours.upper()],
        images.Layout[layout.upper()],
        images.Datatype[datatype],
        scale,
        list(mean),
        list(deviation),
        padding,
        upright,
        most_pixels,
    )
    pixels = _asked(images.prepare, file, preparation)
    tensor = Tensor.raw(pixels.data, datatype, (1, *pixels.shape), name)
    return Picture(tensor, pixels.width, pixels.height, (pixels.left, pixels.top), (pixels.scale_x, pixels.scale_y))


def tensor(file: bytes | bytearray | memoryview, size: int | tuple[int, int] | None = None, **preparation: Any) -> Tensor:
    """The tensor alone, see `prepare`."""
    return prepare(file, size, **preparation).tensor


def inspect(file: bytes | bytearray | memoryview) -> tuple[str, int, int]:
    """What a file says of its picture, without decoding it: `(format, width, height)`, the format "jpeg", "png" or "webp"."""
    info = _asked(_images().inspect, file)
    return info.format.name.lower(), info.width, info.height


def answer_with(answer: Callable[[Any], Picture] | None) -> None:
    """For tests: a function from a file's bytes to a `Picture`."""
    global _stand_in
    _stand_in = answer


def _images() -> Any:
    if _host.images is None:
        raise RuntimeError(
            "the handler imports no library `image`: add `include modelhost:image/imports@0.1.0;` to the world in wit/world.wit"
        )
    return _host.images


def _asked(function: Callable[..., Any], file: bytes | bytearray | memoryview, *arguments: Any) -> Any:
    try:
        return function(bytes(file), *arguments)
    except _host.Err as error:
        kind, text = _host.kind(error.value), error.value.value
        raise (ValueError(text) if kind == "preparation" else ImageError(kind, text)) from None
