#!/usr/bin/env python3
"""Measures examples/ocr-wasm and examples/vad-wasm beside the Python packages whose models they have.

Place in the flow: run by hand with target/clients/bin/python, after `scripts/clients.sh`, `scripts/example-models.sh` and
`scripts/build-guests.sh examples`.
In:  the host's binary. Out: CPU time for each image, and for a second of audio; the packages' in this very process.

Both run a model on one thread, and one request at a time: CPU time is what is compared, since it stays the same on a machine
that does other things as well. Each figure is the least of several, in turn. Linux only, because of the CPU clock.
"""

from __future__ import annotations

import argparse
import io
import logging
import pathlib
import subprocess
import sys
import time
import urllib.request

from report import table
from workloads import ROOT

sys.path.insert(0, str(ROOT / "tests" / "clients"))
import ocr  # noqa: E402
import vad  # noqa: E402


class Host:
    """`host serve` with the configuration of an example."""

    def __init__(self, binary: pathlib.Path, example: str):
        config = ROOT / "examples" / f"{example}-wasm" / "modelhost.toml"
        listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        command = [str(binary), "serve", "--config", str(config), *listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.url = f"{line.removeprefix('listening on ').strip()}/{example}"

    def post(self, body: bytes) -> bytes:
        """A request, answered to its end."""
        with urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=120) as response:
            return response.read()

    def cpu(self) -> float:
        """CPU time of all threads so far, in seconds; see `servers.py`."""
        return time.clock_gettime_ns((~self.process.pid << 3) | 2) / 1e9

    def stop(self) -> None:
        """In order."""
        self.process.terminate()
        self.process.wait()


def images(binary: pathlib.Path, times: int) -> list[list[str]]:
    """A row an image."""
    logging.disable()
    read = ocr.RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)
    host = Host(binary, "ocr")
    rows = [["image", "pixels", "lines", "package, CPU ms", "host, CPU ms", "host × package"]]
    try:
        for name, image in ocr.images():
            file = io.BytesIO()
            image.save(file, "JPEG" if name.endswith("jpg") else "PNG", quality=90)
            body = file.getvalue()
            lines, _ = read(body)
            package = own = float("inf")
            for _ in range(times):
                before = time.process_time()
                read(body)
                package, before = min(package, time.process_time() - before), host.cpu()
                host.post(body)
                own = min(own, host.cpu() - before)
            size = f"{image.width} × {image.height}"
            rows.append([name, size, str(len(lines or [])), f"{package * 1e3:.0f}", f"{own * 1e3:.0f}", f"{own / package:.2f}"])
    finally:
        host.stop()
    return rows


def audio(binary: pathlib.Path, times: int) -> list[list[str]]:
    """One row."""
    samples = vad.spoken()
    floats, seconds = samples.astype("f4") / 32768, len(samples) / vad.RATE
    model = str(ROOT / "target" / "models" / "silero_vad.onnx")
    host = Host(binary, "vad")
    package = own = float("inf")
    try:
        for _ in range(times):
            before = host.cpu()
            host.post(samples.tobytes())
            own = min(own, host.cpu() - before)
            found = vad.probabilities(model, floats)
            # Loading the model is no part of it.
            next(found)
            before = time.process_time()
            list(found)
            package = min(package, time.process_time() - before)
    finally:
        host.stop()
    head = ["", "ONNX Runtime in Python, CPU ms", "host, CPU ms", "host × Python"]
    return [head, ["a second of audio", f"{package / seconds * 1e3:.2f}", f"{own / seconds * 1e3:.2f}", f"{own / package:.2f}"]]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", type=pathlib.Path, default=ROOT / "target" / "dist" / "host", metavar="FILE")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    for measure in [images, audio]:
        print(table(measure(options.host, options.times), left=1), flush=True)
        print()


main()
