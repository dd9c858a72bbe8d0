#!/usr/bin/env python3
"""Makes the pictures that the tests decode, and what Pillow makes of them (`pip install pillow`), in `pictures/`.

Out: for each case of `cases.json` a file, and beside it a PNG with the pixels that Pillow decodes, turns and resizes.
"""

import io
import json
import pathlib
import random

from PIL import Image, ImageDraw, ImageFilter, ImageOps

OUT = pathlib.Path(__file__).parent / "pictures"
SIZE = (150, 101)
FILTERS = {
    "nearest": Image.Resampling.NEAREST, "box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS,
}  # fmt: skip


def scene():
    """Smooth colours, edges, thin lines and noise: what photographs have."""
    dice = random.Random(7)
    picture = Image.new("RGB", SIZE)
    picture.putdata([(x * 255 // SIZE[0], y * 255 // SIZE[1], (x + y) % 256) for y in range(SIZE[1]) for x in range(SIZE[0])])
    draw = ImageDraw.Draw(picture)
    draw.ellipse((20, 15, 90, 85), fill=(220, 40, 30), outline=(255, 255, 255))
    draw.rectangle((80, 50, 140, 95), fill=(20, 60, 200))
    for x in range(0, SIZE[0], 9):
        draw.line((x, 0, SIZE[0] - x, SIZE[1]), fill=(240, 230, 90))
    noise = Image.new("RGB", SIZE)
    noise.putdata([tuple(dice.randrange(256) for _ in range(3)) for _ in range(SIZE[0] * SIZE[1])])
    return Image.blend(picture, noise, 0.08).filter(ImageFilter.GaussianBlur(0.6))


def saved(picture, **options):
    buffer = io.BytesIO()
    picture.save(buffer, **options)
    return buffer.getvalue()


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def main():
    OUT.mkdir(exist_ok=True)
    rgb = scene()
    alpha = rgb.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(SIZE))
    files = {
        "jpeg.jpg": saved(rgb, format="JPEG", quality=90),
        "jpeg-444.jpg": saved(rgb, format="JPEG", quality=95, subsampling=0),
        "jpeg-422.jpg": saved(rgb, format="JPEG", quality=80, subsampling=1),
        "jpeg-progressive.jpg": saved(rgb, format="JPEG", quality=85, progressive=True),
        "jpeg-grey.jpg": saved(rgb.convert("L"), format="JPEG", quality=90),
        "png.png": saved(rgb, format="PNG", optimize=True),
        "png-alpha.png": saved(alpha, format="PNG", optimize=True),
        "png-palette.png": saved(rgb.quantize(32), format="PNG", optimize=True),
        "png-16.png": saved(rgb.convert("L").convert("I").point(lambda value: value * 257).convert("I;16"), format="PNG"),
        "webp.webp": saved(rgb, format="WEBP", quality=80),
        "webp-lossless.webp": saved(alpha, format="WEBP", lossless=True),
    }
    for orientation in range(2, 9):
        files[f"turned-{orientation}.jpg"] = saved(rgb, format="JPEG", quality=90, exif=exif(orientation))
    cases = [{"file": name} for name in files if not name.startswith("turned")]
    cases += [{"file": f"turned-{number}.jpg", "size": [40, 40], "fit": "contain"} for number in range(2, 9)]
    cases += [{"file": "png.png", "size": [37, 29], "filter": name} for name in FILTERS]
    # Larger, `nearest` may take the other one of two pixels that are as near.
    cases += [{"file": "png.png", "size": [211, 173], "filter": name} for name in FILTERS if name != "nearest"]
    cases += [
        {"file": "jpeg.jpg", "size": [48, 48]},
        {"file": "jpeg.jpg", "size": [48, 32], "colours": "grey", "filter": "bicubic"},
        {"file": "png.png", "size": [40, 40], "fit": "cover"},
        {"file": "png.png", "size": [90, 20], "fit": "cover", "filter": "lanczos"},
        {"file": "png.png", "size": [40, 60], "fit": "contain"},
        {"file": "webp.webp", "size": [64, 40], "filter": "lanczos"},
    ]
    for old in OUT.iterdir():
        old.unlink()
    for name, data in files.items():
        (OUT / name).write_bytes(data)
    for number, case in enumerate(cases):
        picture = Image.open(OUT / case["file"])
        if picture.mode.startswith("I"):
            # The upper 8 bits; `convert` would clip.
            picture = Image.frombytes("L", picture.size, picture.tobytes()[1::2])
        picture = ImageOps.exif_transpose(picture).convert("L" if case.get("colours") == "grey" else "RGB")
        if "size" in case:
            size, method = tuple(case["size"]), FILTERS[case.get("filter", "bilinear")]
            picture = {
                "stretch": lambda: picture.resize(size, method),
                "cover": lambda: ImageOps.fit(picture, size, method),
                "contain": lambda: ImageOps.pad(picture, size, method, color=0),
            }[case.get("fit", "stretch")]()
        case["expected"] = f"expected-{number}.png"
        picture.save(OUT / case["expected"], optimize=True)
    text = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    (OUT / "cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
