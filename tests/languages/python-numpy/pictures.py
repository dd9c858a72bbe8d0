"""Pillow in a handler beside Pillow itself, for tests/it/numpy.rs: the same module runs in the component and natively.

    pictures.py URL        sends pictures to the handler at URL, and compares what it makes of them with what Pillow makes of them here

Pixels are the same to the bit, but of JPEG: another decoder than libjpeg rounds differently.
"""

import io
import json
import sys
import urllib.request
import zlib

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps, ImageSequence, ImageStat

SIZE = (50, 38)
RESAMPLING = ("NEAREST", "BOX", "BILINEAR", "HAMMING", "BICUBIC", "LANCZOS")


def picture():
    """Colours, edges and noise, the same everywhere."""
    across, down = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    noise = (across * across * 7919 + across * down * 104729) % 97
    planes = [across * 5, down * 6, (across + down) * 2 + noise, 128 + (across * down) % 128]
    return Image.fromarray(np.stack(planes, axis=2).astype(np.uint8), "RGBA")


def files():
    whole = picture()
    rgb = whole.convert("RGB")
    rotated = Image.Exif()
    rotated[0x0112] = 6
    made = {
        "rgb.png": (rgb, {}),
        "rgba.png": (whole, {}),
        "l.png": (rgb.convert("L"), {}),
        "p.png": (rgb.quantize(16), {}),
        "1.png": (rgb.convert("1"), {}),
        "i.png": (rgb.convert("L").convert("I;16"), {}),
        "p.gif": (rgb, {}),
        "rgb.bmp": (rgb, {}),
        "rgb.tiff": (rgb, {}),
        "lossy.webp": (rgb, {"quality": 70}),
        "lossless.webp": (whole, {"lossless": True}),
        "444.jpeg": (rgb, {"quality": 90, "subsampling": 0}),
        "420.jpeg": (rgb, {"quality": 75}),
        "progressive.jpeg": (rgb, {"progressive": True}),
        "l.jpeg": (rgb.convert("L"), {}),
        "cmyk.jpeg": (rgb.convert("CMYK"), {}),
        "exif.jpeg": (rgb, {"exif": rotated}),
    }
    return {name: saved(image, name.partition(".")[2], **options) for name, (image, options) in made.items()}


def saved(image, form, **options):
    to = io.BytesIO()
    image.save(to, format=form, **options)
    return to.getvalue()


def results(given):
    """Of each thing that handlers do with pictures, an image."""
    found = {}
    for name, content in given.items():
        image = Image.open(io.BytesIO(content))
        found[f"open {name}"] = image
        found[f"convert {name}"] = ImageOps.exif_transpose(image).convert("RGB")
    rgba = picture()
    rgb = rgba.convert("RGB")
    for mode in ("L", "RGBA", "CMYK", "YCbCr", "HSV", "1", "P", "F"):
        found[f"to {mode}"] = rgb.convert(mode)
    for filter in RESAMPLING:
        how = Image.Resampling[filter]
        found[f"resize {filter}"] = rgb.resize((21, 17), how)
        found[f"larger {filter}"] = rgba.resize((75, 60), how, box=(3, 2, 40, 30))
    small = rgb.copy()
    small.thumbnail((20, 20))
    drawn = rgb.copy()
    ImageDraw.Draw(drawn).rectangle((5, 5, 20, 20), outline="red", fill=(1, 2, 3))
    ImageDraw.Draw(drawn).text((2, 20), "text", fill="white", font=ImageFont.load_default_imagefont())
    pasted = Image.new("RGB", (64, 64), "navy")
    pasted.paste(rgba, (4, 6), rgba)
    found |= {
        "thumbnail": small,
        "crop": rgb.crop((5, 4, 30, 20)),
        "rotate 90": rgb.transpose(Image.Transpose.ROTATE_90),
        "rotate 30": rgb.rotate(30, Image.Resampling.BICUBIC, expand=True),
        "flip": ImageOps.mirror(rgb),
        "fit": ImageOps.fit(rgb, (24, 24)),
        "pad": ImageOps.pad(rgb, (40, 40)),
        "autocontrast": ImageOps.autocontrast(rgb),
        "blur": rgb.filter(ImageFilter.GaussianBlur(2)),
        "sharp": rgb.filter(ImageFilter.SHARPEN),
        "contrast": ImageEnhance.Contrast(rgb).enhance(1.4),
        "difference": ImageChops.difference(rgb, ImageOps.flip(rgb)),
        "drawn": drawn,
        "pasted": pasted,
        "split": Image.merge("RGB", rgb.split()[::-1]),
        "point": rgb.point(lambda value: 255 - value),
        "frombytes": Image.frombytes("RGB", SIZE, rgb.tobytes()),
        "fromarray": Image.fromarray(np.asarray(rgb)[:, ::-1].copy()),
        "alpha": Image.alpha_composite(Image.new("RGBA", SIZE, (9, 90, 200, 255)), rgba),
    }
    return found


def written():
    rgb = picture().convert("RGB")
    made = {form: saved(rgb, form) for form in ("png", "gif", "bmp", "tiff")}
    return made | {
        "webp": saved(rgb, "webp", quality=80),
        "jpeg": saved(rgb, "jpeg", quality=80),
        "jpeg 4:4:4": saved(rgb, "jpeg", quality=95, subsampling=0, optimize=True),
        "jpeg progressive": saved(rgb, "jpeg", progressive=True, dpi=(300, 300), comment="it"),
        "jpeg tables": saved(rgb, "jpeg", qtables="web_high"),
        "jpeg cmyk": saved(rgb.convert("CMYK"), "jpeg"),
    }


def answer(given):
    """What the component says: pixels, files of its own, and what it makes of hostile ones."""
    return {
        "pixels": {name: [it.mode, it.size, it.tobytes().hex()] for name, it in results(given).items()},
        "written": {form: content.hex() for form, content in written().items()},
        "facts": facts(given),
        "hostile": {name: hostile(content) for name, content in attacks(given).items()},
    }


def facts(given):
    image = Image.open(io.BytesIO(given["exif.jpeg"]))
    return [
        image.format, image.mode, image.size, image.getpixel((3, 4)) is not None, image.getexif()[0x0112], image.width,
        ImageStat.Stat(picture()).sum, len(list(ImageSequence.Iterator(Image.open(io.BytesIO(given["p.gif"]))))),
    ]  # fmt: skip


def attacks(given):
    jpeg, png = given["444.jpeg"], given["rgb.png"]
    # Height and width, which a header may claim to be any.
    frame = jpeg.index(b"\xff\xc0") + 5
    large = b"IHDR" + (9000).to_bytes(4) * 2 + png[24:29]
    return {
        "nothing": b"",
        "text": b"not a picture",
        "cut jpeg": jpeg[: len(jpeg) // 2],
        "cut png": png[: len(png) // 2],
        "bomb": jpeg[:frame] + b"\xff\xdc\xff\xdc" + jpeg[frame + 4 :],
        "large jpeg": jpeg[:frame] + (9000).to_bytes(2) * 2 + jpeg[frame + 4 :],
        "large png": png[:12] + large + zlib.crc32(large).to_bytes(4) + png[33:],
        "codes": jpeg[:-40] + b"\xff\xc4\x00\x05\x00\x10\x10" + b"\xa5" * 40,
    }


def hostile(content):
    try:
        Image.open(io.BytesIO(content)).load()
    except (OSError, MemoryError, SyntaxError, Image.DecompressionBombError) as error:
        return type(error).__name__
    return "loaded"


def different(given, found):
    """What of the component's is not as it is here; and how many were compared."""
    said, compared = [], 0

    def check(name, mine, other, levels=0, mean=0.0):
        nonlocal compared
        compared += 1
        if (mine.mode, mine.size) != (other.mode, other.size):
            said.append(f"{name}: {other.mode} {other.size}, not {mine.mode} {mine.size}")
            return
        values = np.float32 if mine.mode == "F" else np.uint8
        apart = np.abs(np.subtract(*(np.frombuffer(it.tobytes(), values).astype(float) for it in (mine, other))))
        if apart.max() > levels or apart.mean() > mean:
            said.append(f"{name}: {apart.max()} levels apart, {apart.mean():.3f} on average")

    for name, image in results(given).items():
        mode, size, pixels = found["pixels"].pop(name)
        check(name, image, Image.frombytes(mode, tuple(size), bytes.fromhex(pixels)), *((4, 0.3) if "jpeg" in name else ()))
    said += [f"{name}: not here" for name in found["pixels"]]
    for form, content in written().items():
        mine, other = (Image.open(io.BytesIO(it)) for it in (content, bytes.fromhex(found["written"][form])))
        # A coefficient that is rounded to the other side is a step of the quantization apart.
        check(f"written {form}", mine, other, *((48, 0.6) if "jpeg" in form else ()))
    if found["facts"] != (mine := json.loads(json.dumps(facts(given)))):
        said.append(f"facts: {found['facts']}, not {mine}")
    if found["hostile"] != HOSTILE:
        said.append(f"hostile: {found['hostile']}, not {HOSTILE}")
    return said, compared


HOSTILE = {
    "nothing": "UnidentifiedImageError",
    "text": "UnidentifiedImageError",
    "cut jpeg": "OSError",
    "cut png": "OSError",
    "bomb": "DecompressionBombError",
    "large jpeg": "MemoryError",
    "large png": "MemoryError",
    "codes": "OSError",
}

if __name__ == "__main__":
    given = files()
    body = json.dumps({name: content.hex() for name, content in given.items()}).encode()
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, {"content-type": "application/json"})) as answered:
        said, compared = different(given, json.load(answered))
    if said:
        sys.exit("\n".join(said))
    print(f"{compared} as Pillow")
