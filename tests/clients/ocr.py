"""What the example examples/ocr-wasm has to read, by the package whose models it has.

Arguments: the folder to write images to.
Out: one line for each image, JSON: its file, and its lines as `[corners, text, score]`. The images are made with the font
that Pillow has in it.
"""

import io
import json
import logging
import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

PARAGRAPH = """Handlers run in a sandbox.
A call costs 4 microseconds
Three models: 1 + 1 + 1
Invoice No. 2026-07-31
TOTAL  1,284.50 EUR
The end? Not yet!
x = (a + b) * c / 17
https://example.org/ocr
The last line"""


def drawn(size, texts, color="black", background="white"):
    """Texts as `(x, y, size, text)`."""
    image = Image.new("RGB", size, background)
    for x, y, height, text in texts:
        ImageDraw.Draw(image).text((x, y), text, color, ImageFont.load_default(height))
    return image


def images():
    """By name. They are detected, scaled, cut out and turned in all ways that there are."""
    page = drawn((640, 520), [(40, 30 + 52 * n, 30, line) for n, line in enumerate(PARAGRAPH.splitlines())])
    sign = drawn((420, 160), [(30, 20, 40, "Slanted sign"), (30, 90, 40, "Platform 9")], "white", "#204080")
    on_end = drawn((170, 70), [(20, 15, 32, "On its end")])
    yield "page.png", page
    yield "upside_down.png", page.rotate(180)
    yield "slanted.jpg", sign.rotate(8, Image.Resampling.BICUBIC, expand=True, fillcolor="#204080")
    yield "steep.jpg", sign.rotate(-25, Image.Resampling.BICUBIC, expand=True, fillcolor="#204080")
    yield "on_end.png", on_end.rotate(90, expand=True)
    yield "low.png", drawn((110, 28), [(10, 2, 20, "Low: 42")])
    yield "large.jpg", drawn((2200, 800), [(300, 100, 150, "Too large"), (900, 500, 110, "and scaled down")])
    yield "empty.png", drawn((100, 100), [])


def main():
    logging.disable()
    read, folder = RapidOCR(), pathlib.Path(sys.argv[1])
    for name, image in images():
        file = io.BytesIO()
        image.save(file, "JPEG" if name.endswith("jpg") else "PNG", quality=90)
        (folder / name).write_bytes(file.getvalue())
        lines, _ = read(file.getvalue())
        print(json.dumps([name, lines or []]))


if __name__ == "__main__":
    main()
