#!/usr/bin/env python3
"""Serves the two larger models on the CPU and on a GPU, compares the answers, and prints one table.

Place in the flow: `make gpu-check`, after the tests; `scripts/gpu-check.sh` brings what is needed and says what is missing.
In:  target/release/host, the components and models that `workloads.py` names, `ORT_DYLIB_PATH`, `wrk`, `nvidia-smi`.
Out: one row for each model, device, batching and number of connections; 1 if an answer differed or a request failed.

One server runs at a time, so that what the GPU's memory grows by is that server's. Every answer is compared with the
expected one, which the CPU gave when the models were made: one before the load and a burst of them after it, so that
joined requests are among them.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import urllib.request

from report import table
from servers import BenchError, Running
from workloads import RELEASE, WORKLOADS, Server, Workload, host

BATCHING = ["--max-batch", "16", "--max-delay", "2ms"]
VARIANTS = [
    (device, batching, Server(f"{device}, batching {batching}", RELEASE / "host", host("--device", device, *more)))
    for device in ("cpu", "cuda")
    for batching, more in (("off", []), ("on", BATCHING))
]
BURST = 64
"""Answers that are compared after the load."""


def smi(query: str) -> list[str]:
    """What `nvidia-smi` says of the first GPU."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"nvidia-smi: {error}") from error
    return [part.strip() for part in done.stdout.splitlines()[0].split(",")]


def memory_mib() -> float:
    """Memory of the GPU that is in use."""
    return float(smi("memory.used")[0])


def differing(server: Running, work: Workload) -> str | None:
    """Sends a burst of the workload's request; the first difference from the expected answer."""

    def ask(_: int) -> str | None:
        request = urllib.request.Request(server.url, work.body.read_bytes(), {"content-type": work.content_type})
        with urllib.request.urlopen(request, timeout=60) as response:
            return work.wrong(response.read())

    with concurrent.futures.ThreadPoolExecutor(BURST) as pool:
        try:
            return next(filter(None, pool.map(ask, range(BURST))), None)
        except OSError as error:
            return str(error)


def measure(work: Workload, variant: Server, options: argparse.Namespace, scratch: pathlib.Path) -> list[dict]:
    """One entry for each number of connections."""
    before = memory_mib()
    # A setting in the caller's shell would reach the host.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MODELHOST_")}
    server = Running(variant, work, clean, scratch / "host.log")
    try:
        server.window(work, 8, 1, 0)
        windows = []
        for connections in options.connections:
            window = server.window(work, connections, options.seconds, options.seconds * 100)
            windows.append({"connections": connections, **window})
        wrong = differing(server, work)
        grown = memory_mib() - before
        if wrong:
            raise BenchError(f"`{variant.name}` gave a wrong answer to {work.name} under load: {wrong}")
        return [{**window, "gpu_mib": grown, "resident_mib": server.resident_mib()} for window in windows]
    finally:
        server.stop()


def rows(work: Workload, device: str, batching: str, windows: list[dict]) -> list[list[str]]:
    """The table's rows of one variant."""
    return [
        [work.name, device, batching, str(window["connections"]), f"{window['rps']:,.1f}"]
        + [f"{window[key]:,.0f}" for key in ("p50_us", "p99_us", "cpu_us", "gpu_mib", "resident_mib")]
        + [str(window["errors"])]
        for window in windows
    ]


def main() -> int:
    """Runs everything; 1 if anything differed or failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], metavar="N")
    parser.add_argument("--seconds", type=int, default=5, help="length of a window")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every window and the machine there")
    options = parser.parse_args()
    head = ["model", "device", "batching", "connections", "req/s", "p50 µs", "p99 µs", "CPU µs/req"]
    lines = [head + ["GPU MiB", "resident MiB", "errors"]]
    results: list[dict] = []
    failed: list[str] = []
    try:
        name, driver, total = smi("name,driver_version,memory.total")
        machine = {
            "gpu": f"{name}, {total} MiB",
            "driver": driver,
            "cores": len(os.sched_getaffinity(0)),
            "kernel": f"{platform.system()} {platform.release()}",
            "onnxruntime": os.environ.get("ORT_DYLIB_PATH", "found by the host"),
        }
        print("; ".join(f"{what}: {value}" for what, value in machine.items()), flush=True)
    except BenchError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 1
    for work in (work for work in WORKLOADS if work.name in ("encoder", "image")):
        for device, batching, variant in VARIANTS:
            print(f"    {work.name}, {variant.name}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
                try:
                    windows = measure(work, variant, options, pathlib.Path(scratch))
                except BenchError as error:
                    failed.append(str(error))
                    continue
            results += [{"model": work.name, "device": device, "batching": batching, **each} for each in windows]
            lines += rows(work, device, batching, windows)
            if errors := sum(window["errors"] for window in windows):
                failed.append(f"{work.name}, {variant.name}: {errors} requests failed")
    print("\n" + table(lines, left=3), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "windows": results}, indent=1))
    for error in failed:
        print(f"gpu-check: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
