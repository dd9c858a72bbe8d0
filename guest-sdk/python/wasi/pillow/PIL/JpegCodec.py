"""JPEG in a component: what `JpegImagePlugin` asks of libjpeg, by the module `_jpeg`.

Added to Pillow for components, as `recipes.toml` says; its other formats are Pillow's own.
"""

from __future__ import annotations

from . import Image, ImageFile, _jpeg


class JpegDecoder(ImageFile.PyDecoder):
    _pulls_fd = True

    def decode(self, buffer):
        # The inverse of what Adobe's files have.
        mode = self.args[0].removesuffix(";I")
        pixels = _jpeg.decode(self.fd.read(), mode, self.state.xsize, self.state.ysize)
        self.set_as_raw(pixels, mode)
        return -1, 0


class JpegEncoder(ImageFile.PyEncoder):
    def encode(self, bufsize):
        (
            rawmode, quality, progressive, smooth, optimize, keep_rgb, streamtype, dpi, subsampling, blocks, rows, qtables,
            comment, extra, exif,
        ) = self.args  # fmt: skip
        refused = {"smooth": smooth, "keep_rgb": keep_rgb, "streamtype": streamtype, "restart_marker_rows": rows}
        if asked := [name for name, value in refused.items() if value]:
            raise ValueError(f"JPEG in a component is not saved with {', '.join(asked)}; leave it out")
        picture = Image.Image()._new(self.im)
        # The encoder inverts CMYK, as Adobe's files have it.
        mode = rawmode.removesuffix(";I")
        pixels = picture.tobytes("raw", mode)
        made = _jpeg.encode(
            pixels, mode, *picture.size, quality=75 if quality == -1 else min(max(quality, 1), 100),
            tables=tables(qtables, quality, mode), subsampling=subsampling, progressive=bool(progressive),
            optimize=bool(optimize), restart=blocks, dpi=tuple(dpi),
        )  # fmt: skip
        # Behind the start of the file and the segment of JFIF.
        at = 4 + int.from_bytes(made[4:6]) if made[2:4] == b"\xff\xe0" else 2
        segments = (segment(0xE1, exif) if exif else b"") + (extra or b"") + (segment(0xFE, comment) if comment else b"")
        made = made[:at] + segments + made[at:]
        return len(made), 1, made


def tables(given, quality, mode):
    """Two tables, made coarser or finer by the quality as libjpeg does; those of the encoder need none."""
    if not given:
        if mode != "CMYK":
            return None
        given, quality = [LUMINANCE], 75 if quality == -1 else quality
    if len(given) > 2:
        raise ValueError("JPEG in a component is saved with at most two quantization tables")
    scale = 100 if quality == -1 else 5000 // max(quality, 1) if quality < 50 else 200 - quality * 2
    scaled = [[min(max((value * scale + 50) // 100, 1), 255) for value in table] for table in given]
    return scaled[0], scaled[-1]


# Of the standard, row by row: the one table of CMYK.
LUMINANCE = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
]  # fmt: skip


def segment(marker, content):
    if isinstance(content, str):
        content = content.encode()
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + content


Image.register_decoder("jpeg", JpegDecoder)
Image.register_encoder("jpeg", JpegEncoder)
