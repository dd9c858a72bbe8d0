#!/usr/bin/env python3
"""Drives the host and the native ceiling side by side and prints what the host costs on top.

Place in the flow: `make bench`, after `make build` and `cargo build --release -p e2e --bin ceiling`.
In:  the binaries, the handler components and models of WORKLOADS, ONNX Runtime's library, `wrk`.
Out: a table for each workload, the goals beside what was measured, and with --json every single window.

How it measures, and why:
- All servers run all the time; load goes to one after the other in short windows, in an order that rotates. A
  ratio is taken between windows of the same round, so what disturbs the machine for longer than a round cancels out.
- Server CPU per request is the figure to trust: user and system time of the server's process, read from its CPU
  clock in nanoseconds before and after a window, over the requests answered in it. Requests a second on a machine
  shared with the load generator say less; they are printed all the same.
- An answer of each server is compared with the expected one before the load. A failed request fails the run, a
  missed goal does not: nothing here is a timed test.

Linux only, because of the CPU clock. Standard library only.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import platform
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
RELEASE = ROOT / "target" / "release"
IRIS = ROOT / "examples" / "iris-wasm"
START_SECONDS = 60.0
STOP_SECONDS = 40.0


class BenchError(Exception):
    """What keeps the benchmark from running, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """One endpoint under load: what serves it, what is sent, what must come back."""

    name: str
    path: str
    model: pathlib.Path
    plugin: pathlib.Path
    content_type: str
    body: bytes
    check: Callable[[bytes], str | None]
    """Takes the answer's body; returns what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Server:
    """One way to serve a workload: a program that prints `listening on http://…`."""

    name: str
    binary: pathlib.Path
    arguments: Callable[[Workload], list[str]]


@dataclasses.dataclass(frozen=True)
class Goal:
    """Where a server's ratio to the ceiling shall be: at least there for req/s, at most for all else."""

    workload: str
    server: str
    measure: str
    connections: tuple[int, ...]
    limit: float
    then: float | None = None
    """Where to go once `limit` is met."""

    def verdict(self, ratio: float, limit: float | None) -> list[str]:
        """A limit, and whether `ratio` keeps it."""
        if limit is None:
            return ["", ""]
        least = self.measure == "rps"
        kept = ratio >= limit if least else ratio <= limit
        return [f"{'≥' if least else '≤'} {limit:.2f}", "met" if kept else "missed"]


def check_iris(answer: bytes) -> str | None:
    """The example's own answer, floats within what another machine's rounding may change."""
    expected = json.loads((IRIS / "expected.json").read_bytes())
    got = json.loads(answer)
    pairs = zip(got.pop("probabilities"), expected.pop("probabilities"), strict=True)
    same = all(math.isclose(one, other, abs_tol=1e-5) for one, other in pairs) and got == expected
    return None if same else "wrong answer"


def host_arguments(isolation: str) -> Callable[[Workload], list[str]]:
    """Arguments of `host serve`; everything that is not named keeps its default."""

    def arguments(work: Workload) -> list[str]:
        return [
            "serve",
            *("--plugin", str(work.plugin)),
            *("--model", str(work.model)),
            *("--name", work.name),
            *("--listen", "127.0.0.1:0"),
            *("--admin-listen", "127.0.0.1:0"),
            *("--isolation", isolation),
        ]

    return arguments


CEILING = "ceiling"
WORKER = "host-worker"
REQUEST = "host-request"

# The first server is the one that the others are divided by.
SERVERS = [
    Server(CEILING, RELEASE / "ceiling", lambda work: [str(work.model), "127.0.0.1:0"]),
    Server(WORKER, RELEASE / "host", host_arguments("worker")),
    Server(REQUEST, RELEASE / "host", host_arguments("request")),
]

WORKLOADS = [
    Workload(
        name="iris",
        path="/iris",
        model=IRIS / "iris.onnx",
        plugin=ROOT / "target" / "components" / "iris-wasm.wasm",
        content_type="application/json",
        body=(IRIS / "sample.json").read_bytes(),
        check=check_iris,
    ),
]

GOALS = [
    Goal("iris", WORKER, "cpu_us", (8, 64), 1.25, 1.1),
    Goal("iris", WORKER, "p99_us", (8, 64), 1.25),
    Goal("iris", REQUEST, "cpu_us", (8, 64), 2.5, 2.0),
]

MEASURES = {"cpu_us": "CPU a request", "p99_us": "p99", "rps": "req/s"}


class Running:
    """A started server. `url` is where the workload is, `first_answer_ms` how long it took to answer there."""

    def __init__(self, server: Server, work: Workload, environment: dict[str, str], log: pathlib.Path):
        self.server = server
        self.log = log
        started = time.monotonic()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(server.binary), *server.arguments(work)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=ROOT,
            )
        try:
            self.url = self._address(started + START_SECONDS) + work.path
            self._check(work)
        except BaseException:
            self.stop()
            raise
        self.first_answer_ms = (time.monotonic() - started) * 1e3

    def _address(self, deadline: float) -> str:
        """Reads `listening on http://HOST:PORT`, which a server prints once it can answer."""
        stdout, text = self.process.stdout, b""
        while b"\n" not in text:
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(stdout.fileno(), 4096) if ready else b""
            if not part:
                why = "ended" if ready else f"was not ready after {START_SECONDS:.0f} s"
                raise BenchError(f"`{self.server.name}` {why}: {self.process.args}\n{self.errors()}")
            text += part
        line = text.split(b"\n", 1)[0].decode()
        if not line.startswith("listening on http://"):
            raise BenchError(f"`{self.server.name}` printed {line!r} where its address belongs")
        return line.removeprefix("listening on ")

    def _check(self, work: Workload) -> None:
        """Sends the workload's request once and compares the answer."""
        request = urllib.request.Request(self.url, work.body, {"content-type": work.content_type})
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
                answer = response.read()
            wrong = work.check(answer)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BenchError(f"`{self.server.name}`: {error}\n{self.errors()}") from error
        if wrong:
            raise BenchError(f"`{self.server.name}`: {wrong}: {answer[:500]!r}")

    def errors(self) -> str:
        """The end of what the server wrote to standard error."""
        return self.log.read_text(errors="replace")[-2000:]

    def cpu_ns(self) -> int:
        """CPU time of all threads so far, those that have ended included."""
        # The clock id that clock_getcpuclockid(3) makes: the complement of the process id, then the kernel's
        # CPUCLOCK_SCHED. Ticks of /proc/PID/stat would be 10 ms, a few per cent of a short window.
        return time.clock_gettime_ns((~self.process.pid << 3) | 2)

    def resident_mib(self) -> float:
        """Resident memory now."""
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for a server that does not heed it."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def window(running: Running, work: Workload, body: pathlib.Path, connections: int, seconds: int) -> dict:
    """Loads one server for `seconds` over `connections`, each sending its next request once answered."""
    before = running.cpu_ns()
    load = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
        + ["-s", str(HERE / "post.lua"), running.url],
        env={**os.environ, "BENCH_BODY": str(body), "BENCH_CONTENT_TYPE": work.content_type},
        capture_output=True,
        text=True,
    )
    after = running.cpu_ns()
    lines = [line for line in load.stdout.splitlines() if line.startswith("{")]
    if load.returncode != 0 or not lines:
        raise BenchError(f"wrk failed: {load.stderr or load.stdout}")
    got = json.loads(lines[-1])
    if not got["requests"]:
        raise BenchError(f"`{running.server.name}` answered nothing in {seconds} s\n{running.errors()}")
    return {
        "rps": got["requests"] / (got["duration_us"] / 1e6),
        "cpu_us": (after - before) / 1e3 / got["requests"],
        "errors": got["status_errors"] + got["socket_errors"],
        **got,
    }


def measure(work: Workload, options: argparse.Namespace, environment: dict[str, str]) -> dict:
    """Runs all windows of a workload. Returns `windows[connections][server]`, in the order of the rounds."""
    servers = [server for server in SERVERS if server.name in options.servers]
    running: list[Running] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        body = pathlib.Path(scratch) / "body"
        body.write_bytes(work.body)
        try:
            for index, server in enumerate(servers):
                log = pathlib.Path(scratch) / f"{index}.log"
                # The first start fills the caches (compiled component, files); the second is what a restart costs.
                Running(server, work, environment, log).stop()
                running.append(Running(server, work, environment, log))
            for each in running:
                window(each, work, body, 8, 1)
            windows: dict[int, dict[str, list[dict]]] = {}
            for connections in options.connections:
                rounds = windows.setdefault(connections, {server.name: [] for server in servers})
                for turn in range(options.windows):
                    progress(f"{work.name}: {connections} connections, round {turn + 1} of {options.windows}")
                    first = turn % len(running)
                    for each in running[first:] + running[:first]:
                        got = window(each, work, body, connections, options.seconds)
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


def progress(text: str) -> None:
    """One line that overwrites itself, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def ratios(rounds: dict[str, list[dict]], server: str, key: str) -> list[float]:
    """A server's measure over the ceiling's, round by round."""
    return [mine[key] / base[key] for mine, base in zip(rounds[server], rounds.get(CEILING, [])) if base[key]]


def spread(values: list[float]) -> str:
    """`1.19 (1.15–1.22)`: median, least and most."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def table(rows: list[list[str]], left: int) -> str:
    """Columns as wide as they need to be: the first `left` flush left, the rest flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def report(work: Workload, measured: dict, options: argparse.Namespace) -> int:
    """Prints a workload's tables; returns the number of failed requests."""
    errors = 0
    head = ["connections", "server", "req/s", "p50 µs", "p99 µs", "CPU µs/req"]
    rows = [head + ["CPU × ceiling", "p99 × ceiling", "req/s × ceiling", "errors"]]
    for connections, rounds in measured["windows"].items():
        for server, windows in rounds.items():
            median = {key: statistics.median(each[key] for each in windows) for key in windows[0]}
            failed = sum(each["errors"] for each in windows)
            errors += failed
            rows.append(
                [str(connections), server, f"{median['rps']:,.0f}", f"{median['p50_us']:.0f}"]
                + [f"{median['p99_us']:.0f}", f"{median['cpu_us']:.1f}"]
                + [spread(ratios(rounds, server, key)) for key in ("cpu_us", "p99_us", "rps")]
                + [str(failed)]
            )
    print(f"\n{work.name}: POST {work.path}, {len(work.body)} bytes; medians of {options.windows} windows", end="")
    print(f" of {options.seconds} s; ratios window by window: median (least–most)\n")
    print(table(rows, left=2))

    rows = [["ratio", "server", "connections", "measured", "goal", "", "then", ""]]
    for goal in (goal for goal in GOALS if goal.workload == work.name):
        for connections in goal.connections:
            rounds = measured["windows"].get(connections, {})
            values = ratios(rounds, goal.server, goal.measure) if goal.server in rounds else []
            if values:
                ratio = statistics.median(values)
                rows.append(
                    [f"{MEASURES[goal.measure]} × ceiling", goal.server, str(connections), f"{ratio:.2f}"]
                    + goal.verdict(ratio, goal.limit)
                    + goal.verdict(ratio, goal.then)
                )
    if len(rows) > 1:
        print("\n" + table(rows, left=2))

    rows = [["server", "restart to first answer, ms", "resident after load, MiB"]]
    for server, first in measured["first_answer_ms"].items():
        rows.append([server, f"{first:.0f}", f"{measured['resident_mib'][server]:.0f}"])
    print("\n" + table(rows, left=1))
    return errors


def library() -> str:
    """ONNX Runtime's library: one for all servers, or the ratios would compare two engines."""
    if given := os.environ.get("ORT_DYLIB_PATH"):
        return given
    data = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share")
    found = sorted((data / "modelhost" / "lib").glob("libonnxruntime.so*"))
    if not found:
        raise BenchError("ONNX Runtime's library is not there\nhint: run `make setup`, or set ORT_DYLIB_PATH")
    return str(found[-1])


def machine(onnxruntime: str) -> dict[str, str]:
    """What the figures depend on."""
    cpus = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in cpus if line.startswith("model name")), "unknown CPU")
    version = [str(RELEASE / "host"), "--version"]
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
    missing = []
    if sys.platform != "linux":
        missing.append("Linux: the CPU clock of another process is read the Linux way")
    if not shutil.which("wrk"):
        missing.append("`wrk`\nhint: `apt-get install wrk` on Debian or Ubuntu")
    for server in (server for server in SERVERS if server.name in options.servers):
        if not server.binary.exists():
            build = "make build" if server.binary.name == "host" else "cargo build --release -p e2e --bin ceiling"
            missing.append(f"`{server.binary.relative_to(ROOT)}`, for {server.name}\nhint: run `{build}`")
    for path in (path for work in options.workloads for path in (work.model, work.plugin)):
        if not path.exists():
            missing.append(f"`{path.relative_to(ROOT)}`\nhint: run `make build`")
    if missing:
        raise BenchError("missing: " + "\nmissing: ".join(missing))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [server.name for server in SERVERS]
    parser.add_argument("--windows", type=int, default=5, help="windows for each server and connection count")
    parser.add_argument("--seconds", type=int, default=2, help="length of a window")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], metavar="N")
    parser.add_argument("--servers", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="two windows of one second: does it run, not how fast")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every window and the machine there")
    options = parser.parse_args()
    if options.quick:
        options.windows, options.seconds = 2, 1
    if min(options.windows, options.seconds, *options.connections) < 1:
        parser.error("--windows, --seconds and --connections start at 1")
    options.workloads = WORKLOADS
    return options


def main() -> int:
    """Runs every workload; 1 if a request failed or nothing could be run."""
    options = arguments()
    try:
        require(options)
        onnxruntime = library()
        # A setting in the caller's shell would reach the host alone and bend the comparison.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MODELHOST_")}
        where = machine(onnxruntime)
        print("; ".join(f"{name}: {value}" for name, value in where.items()))
        results, errors = {}, 0
        for work in options.workloads:
            results[work.name] = measure(work, options, {**clean, "ORT_DYLIB_PATH": onnxruntime})
            errors += report(work, results[work.name], options)
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
