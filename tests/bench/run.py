#!/usr/bin/env python3
"""Drives the host and the native ceiling side by side and prints what the host costs on top.

Place in the flow: `make bench`, after `make build` and `scripts/bench.sh`'s own steps.
In:  what `workloads.py` names: binaries, handler components, models; ONNX Runtime's library, `wrk`.
Out: tables for each workload, the goals beside what was measured, and with --json every single window.

How it measures, and why:
- All servers of a workload run all the time; load goes to one after the other in short windows, in an order that
  rotates. A ratio is taken between windows of the same round, so what disturbs the machine for longer than a round
  cancels out.
- Server CPU per request is the figure to trust where requests take microseconds: user and system time of the server's
  process, read from its CPU clock in nanoseconds before and after a window, over the requests answered in it. Requests
  a second on a machine shared with the load generator say less there. Where the model takes milliseconds the load
  generator takes nothing, and requests a second are what counts.
- An answer of each server is compared with the expected one before the load; the expected one was not made by any of
  them. A failed request fails the run, a missed goal does not: nothing here is a timed test.

Linux only, because of the CPU clock. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

from report import report
from servers import BenchError, Running
from workloads import DIST, ROOT, SERVERS, WORKLOADS, Server, Workload


def measure(work: Workload, options: argparse.Namespace, environment: dict[str, str]) -> dict:
    """Runs all windows of a workload. Returns `windows[connections][server]`, in the order of the rounds."""
    servers = chosen_servers(work, options)
    seconds, settle_ms = lengths(work, options)
    running: list[Running] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        try:
            for index, server in enumerate(servers):
                progress(f"{work.name}: starting {server.name}")
                log = pathlib.Path(scratch) / f"{index}.log"
                # The first start fills the caches (compiled component, files); the second is what a restart costs.
                Running(server, work, environment, log).stop()
                running.append(Running(server, work, environment, log))
            for each in running:
                each.window(work, 8, 1, 0)
            windows: dict[int, dict[str, list[dict]]] = {}
            for connections in options.connections:
                rounds = windows.setdefault(connections, {server.name: [] for server in servers})
                for turn in range(options.windows):
                    progress(f"{work.name}: {connections} connections, round {turn + 1} of {options.windows}")
                    first = turn % len(running)
                    for each in running[first:] + running[:first]:
                        got = each.window(work, connections, seconds, settle_ms)
                        rounds[each.server.name].append(got)
            progress("")
            return {
                "windows": windows,
                "first_answer_ms": {each.server.name: each.first_answer_ms for each in running},
                "resident_mib": {each.server.name: each.resident_mib() for each in running},
            }
        finally:
            for each in running:
                each.stop()


def chosen_servers(work: Workload, options: argparse.Namespace) -> list[Server]:
    """The workload's servers that the command line does not leave out."""
    return [server for server in SERVERS if server.name in work.servers and server.name in options.servers]


def lengths(work: Workload, options: argparse.Namespace) -> tuple[int, int]:
    """Length of a window in seconds, and how much of it, in milliseconds, the server has for settling."""
    seconds = options.seconds or work.seconds
    return seconds, min(work.settle_ms, seconds * 1000 // 3)


def progress(text: str) -> None:
    """One line that overwrites itself, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def library() -> str:
    """ONNX Runtime's library: one for all servers, or the ratios would compare two engines."""
    if given := os.environ.get("ORT_DYLIB_PATH"):
        return given
    data = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share")
    found = sorted((data / "modelhost" / "lib").glob("libonnxruntime.so*"))
    if not found:
        raise BenchError("ONNX Runtime's library is not there\nhint: run `make setup`, or set ORT_DYLIB_PATH")
    return str(found[-1])


def environment() -> dict[str, str]:
    """What servers are started with."""
    # A setting in the caller's shell would reach the host alone and bend the comparison.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MODELHOST_")}
    return {**clean, "ORT_DYLIB_PATH": library()}


def machine(onnxruntime: str) -> dict[str, str]:
    """What the figures depend on."""
    cpus = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in cpus if line.startswith("model name")), "unknown CPU")
    version = [str(DIST / "host"), "--version"]
    commit = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return {
        "cpu": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "kernel": f"{platform.system()} {platform.release()}",
        "host": f"{output(version)} ({output(commit)})",
        "onnxruntime": pathlib.Path(onnxruntime).resolve().name,
        "load generator": output(["wrk", "--version"]).split(" [")[0],
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def output(command: list[str]) -> str:
    """First line a command prints, or why there is none; for the machine line only."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError as error:
        return error.strerror
    return lines[0] if lines else "unknown"


def require(options: argparse.Namespace) -> None:
    """Names everything that is missing, with the command that brings it, before anything starts."""
    missing: dict[str, str] = {}
    if sys.platform != "linux":
        missing["Linux"] = "the CPU clock of another process is read the Linux way"
    if not shutil.which("wrk"):
        missing["`wrk`"] = "`apt-get install wrk` on Debian or Ubuntu"
    for work in options.workloads:
        needed = [work.model, work.plugin, work.body, work.expected]
        for server in chosen_servers(work, options):
            needed += [server.binary, server.plugin]
        for path in (path for path in needed if path and not path.exists()):
            missing[f"`{path.relative_to(ROOT)}`, for {work.name}"] = "run `make bench`, which makes it"
    if missing:
        raise BenchError("\n".join(f"missing: {what}\nhint: {hint}" for what, hint in missing.items()))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    works, names = ([each.name for each in known] for known in (WORKLOADS, SERVERS))
    usual = ", ".join(f"{work.seconds} for {work.name}" for work in WORKLOADS)
    parser.add_argument("--workloads", nargs="+", default=works, choices=works, metavar="NAME", help=", ".join(works))
    parser.add_argument("--servers", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], metavar="N")
    parser.add_argument("--windows", type=int, default=5, help="windows for each server and connection count")
    parser.add_argument("--seconds", type=int, help=f"length of a window, else {usual}")
    parser.add_argument("--quick", action="store_true", help="two windows of one second: does it run, not how fast")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every window and the machine there")
    options = parser.parse_args()
    if options.quick:
        options.windows, options.seconds = 2, 1
    if min(options.windows, *options.connections) < 1 or (options.seconds is not None and options.seconds < 1):
        parser.error("--windows, --seconds and --connections start at 1")
    options.workloads = [work for work in WORKLOADS if work.name in options.workloads]
    for work in options.workloads:
        if not chosen_servers(work, options):
            parser.error(f"{work.name} is served by none of the --servers, only by {', '.join(work.servers)}")
    return options


def main() -> int:
    """Runs every workload; 1 if a request failed or nothing could be run."""
    options = arguments()
    try:
        require(options)
        started_with = environment()
        where = machine(started_with["ORT_DYLIB_PATH"])
        print("; ".join(f"{name}: {value}" for name, value in where.items()), flush=True)
        results, errors = {}, 0
        for work in options.workloads:
            results[work.name] = measure(work, options, started_with)
            errors += report(work, results[work.name], lengths(work, options)[0])
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps({"machine": where, "workloads": results}, indent=1))
    if errors:
        print(f"\nbench: {errors} requests failed", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
