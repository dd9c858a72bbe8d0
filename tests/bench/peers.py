#!/usr/bin/env python3
"""Drives the host beside the servers that its users come from, with the same handler, model and requests.

Place in the flow: `make peers`, after `scripts/peers.sh` has installed each server into an environment of its own.
In:  the host of `make dist` (or `--host`), the iris example, the servers of `peers/`, `wrk`.
Out: a table, and with --chart a picture of it as SVG: server CPU a request, which a machine that also runs the load
generator does not bend.

Each peer is set up as its own guide says, with two workers, for two cores. CPU is that of all its processes. Windows
go round as in `run.py`, and each server's first answer is compared with the expected one.
Linux only. Standard library only.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import run
from servers import START_SECONDS, BenchError, Running
from workloads import DIST, ROOT, WORKLOADS, Server, Workload, different, host

HERE = pathlib.Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = ROOT / "target" / "peers"
IRIS = next(work for work in WORKLOADS if work.name == "iris")
OURS = "modelhost"
TICK = os.sysconf("SC_CLK_TCK")


class TritonIris(Workload):
    """The same request as Triton's protocol has it: the handler's JSON is a string of a tensor."""

    @property
    def path(self) -> str:
        return "/v2/models/iris/infer"

    def wrong(self, answer: bytes) -> str | None:
        text = json.loads(answer)["outputs"][0]["data"][0]
        return different(json.loads(text), json.loads(self.expected.read_bytes()), self.tolerance, "answer")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A server of others."""

    name: str
    package: str
    """Whose version is shown; its environment has the peer's name."""
    command: list[str]
    """Of the environment's `bin`; `PORT` stands for the port."""


PEERS = [
    Peer("FastAPI", "fastapi", ["uvicorn", "fastapi_server:app", "--workers", "2", "--port", "PORT", "--no-access-log"]),
    Peer("LitServe", "litserve", ["python", "litserve_server.py", "PORT"]),
    Peer("BentoML", "bentoml", ["bentoml", "serve", "bentoml_server:Iris", "--host", "127.0.0.1", "--port", "PORT"]),
    Peer("Triton, Python backend", "nvidia-pytriton", ["tritonserver", "--model-repository", str(HERE / "triton")]),
]


def environment_of(peer: Peer) -> pathlib.Path:
    """Where `scripts/peers.sh` has installed it."""
    return ENVIRONMENTS / peer.name.split(",")[0].lower()


class RunningPeer(Running):
    """A started peer: many processes, of one session, that say nothing of being ready."""

    STDOUT = None

    def __init__(self, peer: Peer, work: Workload, environment: dict[str, str], log: pathlib.Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        home = environment_of(peer)
        words = [word.replace("PORT", str(self.port)) for word in peer.command]
        environment = {
            **environment,
            "PATH": f"{home / 'bin'}:{environment['PATH']}",
            "PYTHONPATH": str(HERE),
            "PEER_MODEL": str(work.model),
            "BENTOML_DO_NOT_TRACK": "true",
            "BENTOML_CONFIG_OPTIONS": "api_server.logging.access.enabled=false",
        }
        program = home / "bin" / words[0]
        if words[0] == "tritonserver":
            program, words, environment = triton(home, words, self.port, environment)
        # A server of its own session, in the folder of the apps: `Running` starts programs in the tree's root.
        arguments = ["--fork", "--wait", "env", "-C", str(HERE), str(program), *words[1:]]
        started = Server(peer.name, pathlib.Path("/usr/bin/setsid"), lambda _: arguments)
        super().__init__(started, work, environment, log)

    def _address(self, deadline: float) -> str:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return f"http://127.0.0.1:{self.port}"
            except OSError:
                time.sleep(0.02)
        raise BenchError(f"`{self.server.name}` was not ready after {START_SECONDS:.0f} s\n{self.errors()}")

    def _ask(self, work: Workload) -> bytes:
        # The port is open before the workers are there.
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                request = urllib.request.Request(self.url, work.body.read_bytes(), work.headers)
                with urllib.request.urlopen(request, timeout=5) as response:
                    return response.read()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise BenchError(f"`{self.server.name}`: {error}\n{self.errors()}") from error
                time.sleep(0.05)

    def _processes(self) -> list[pathlib.Path]:
        """All descendants of the started process, in `/proc`."""
        parents: dict[int, list[int]] = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
        found, waiting = [], [self.process.pid]
        while waiting:
            process = waiting.pop()
            found.append(pathlib.Path("/proc") / str(process))
            waiting += parents.get(process, [])
        return found

    def cpu_ns(self) -> int:
        """Of all its processes, in ticks of 10 ms."""
        ticks = 0
        for folder in self._processes():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks * (10**9 // TICK)

    def resident_mib(self) -> float:
        """Memory of all its processes; what they share is counted once."""
        kib = 0
        for folder in self._processes():
            try:
                rollup = (folder / "smaps_rollup").read_text()
            except OSError:
                continue
            kib += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        return kib / 1024

    def stop(self) -> None:
        for folder in reversed(self._processes()):
            try:
                os.kill(int(folder.name), signal.SIGTERM)
            except ProcessLookupError:
                pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            for folder in self._processes():
                try:
                    os.kill(int(folder.name), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.wait()


def triton(home: pathlib.Path, words: list[str], port: int, environment: dict[str, str]):
    """The server that the PyTriton package brings, with the package's own interpreter for the backend."""
    server = next(home.glob("lib/python3*/site-packages/pytriton/tritonserver"))
    stubs = sorted((server / "python_backend_stubs").glob("*/triton_python_backend_stub"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = next((stub for stub in stubs if stub.parent.name == version), None)
    if stub is None:
        raise BenchError(f"Triton's Python backend has no stub for Python {version}")
    backends = ENVIRONMENTS / "triton-backends"
    (backends / "python").mkdir(parents=True, exist_ok=True)
    for file in (server / "backends/python").iterdir():
        (backends / "python" / file.name).unlink(missing_ok=True)
        (backends / "python" / file.name).symlink_to(file)
    (backends / "python" / stub.name).unlink(missing_ok=True)
    (backends / "python" / stub.name).symlink_to(stub)
    words = [*words, "--backend-directory", str(backends), "--http-port", str(port)]
    words += ["--http-address", "127.0.0.1", "--allow-grpc", "false", "--allow-metrics", "false", "--log-info", "false"]
    library = next((home / "lib").glob("python3*/site-packages"))
    paths = {
        "LD_LIBRARY_PATH": f"{server / 'external_libs'}:{environment.get('LD_LIBRARY_PATH', '')}",
        "PYTHONPATH": f"{HERE}:{library}",
    }
    return server / "bin/tritonserver", words, {**environment, **paths}


def works(scratch: pathlib.Path) -> dict[str, Workload]:
    """The workload of each server by its name."""
    body = scratch / "triton.json"
    sample = IRIS.body.read_text()
    tensor = {"name": "sample", "shape": [1], "datatype": "BYTES", "data": [sample]}
    body.write_text(json.dumps({"inputs": [tensor]}))
    fields = {field.name: getattr(IRIS, field.name) for field in dataclasses.fields(IRIS)}
    triton_iris = TritonIris(**{**fields, "body": body})
    return {peer.name: triton_iris if peer.name.startswith("Triton") else IRIS for peer in PEERS} | {OURS: IRIS}


def measure(options: argparse.Namespace, scratch: pathlib.Path) -> list[dict]:
    """A row for each server."""
    environment = run.environment()
    by_name = works(scratch)
    running: list[Running] = []
    try:
        ours = Server(OURS, options.host, host())
        # The first start fills the caches, for all of them: compiled components, compiled Python, files.
        for keep in (False, True):
            for peer in [None, *options.peers]:
                name = peer.name if peer else OURS
                log = scratch / f"{len(running)}-{keep}.log"
                started = (
                    RunningPeer(peer, by_name[name], environment, log)
                    if peer
                    else Running(ours, IRIS, environment, log)
                )
                if keep:
                    running.append(started)
                else:
                    started.stop()
        windows: dict[str, list[dict]] = {each.server.name: [] for each in running}
        for each in running:
            each.window(by_name[each.server.name], options.connections, 1, 0)
        for turn in range(options.windows):
            for each in running[turn % len(running) :] + running[: turn % len(running)]:
                run.progress(f"round {turn + 1} of {options.windows}: {each.server.name}")
                got = each.window(by_name[each.server.name], options.connections, options.seconds, 0)
                windows[each.server.name].append(got)
        run.progress("")
        return [row(each, windows[each.server.name]) for each in running]
    finally:
        for each in running:
            each.stop()


def row(server: Running, windows: list[dict]) -> dict:
    """The medians of a server's windows."""
    middle = {key: statistics.median(window[key] for window in windows) for key in ("cpu_us", "rps", "p50_us", "p99_us")}
    errors = sum(window["errors"] for window in windows)
    if errors:
        raise BenchError(f"`{server.server.name}`: {errors} requests failed\n{server.errors()}")
    return {
        "name": server.server.name,
        **middle,
        "first_answer_ms": server.first_answer_ms,
        "resident_mib": server.resident_mib(),
    }


def table(rows: list[dict], versions: dict[str, str]) -> str:
    """As Markdown."""
    ours = next(row for row in rows if row["name"] == OURS)["cpu_us"]
    lines = [
        "| server | CPU µs a request | × modelhost | req/s | p50 µs | p99 µs | start to first answer, ms | memory, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        name = " ".join(filter(None, [each["name"], versions.get(each["name"])]))
        lines.append(
            f"| {name} | {each['cpu_us']:,.0f} | {each['cpu_us'] / ours:.1f} | {each['rps']:,.0f} | {each['p50_us']:,.0f} "
            f"| {each['p99_us']:,.0f} | {each['first_answer_ms']:,.0f} | {each['resident_mib']:,.0f} |"
        )
    return "\n".join(lines)


def chart(rows: list[dict]) -> str:
    """Bars of CPU a request as an SVG, readable on a light and on a dark page."""
    left, width, high, gap = 190, 720, 26, 10
    most = max(row["cpu_us"] for row in rows)
    parts = []
    for number, each in enumerate(rows):
        top = 40 + number * (high + gap)
        long = max(2.0, (width - left - 90) * each["cpu_us"] / most)
        colour = "#2f6fde" if each["name"] == OURS else "#9aa3ad"
        parts.append(
            f'<text x="{left - 8}" y="{top + 18}" text-anchor="end">{each["name"]}</text>'
            f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{high}" rx="3" fill="{colour}"/>'
            f'<text x="{left + long + 8:.1f}" y="{top + 18}">{each["cpu_us"]:,.0f} µs</text>'
        )
    height = 40 + len(rows) * (high + gap)
    style = "text{font:14px system-ui,sans-serif;fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#adbac7}}"
    head = "CPU of the server for one request: JSON in, handler, iris model, handler, JSON out"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{head}">'
        f'<style>{style}</style><text x="0" y="18">{head}</text>{"".join(parts)}</svg>\n'
    )


def version(peer: Peer) -> str:
    """Of the installed package."""
    code = "import sys, importlib.metadata as metadata; print(metadata.version(sys.argv[1]))"
    return run.output([str(environment_of(peer) / "bin/python"), "-c", code, peer.package])


def main() -> int:
    """1 if a server cannot be started, answers wrongly or fails a request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [peer.name.split(",")[0].lower() for peer in PEERS]
    parser.add_argument("--peers", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--host", type=pathlib.Path, default=DIST / "host", help="the host's program")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--chart", type=pathlib.Path, metavar="FILE", help="write the picture there")
    options = parser.parse_args()
    options.host = options.host.resolve()
    options.peers = [peer for name, peer in zip(names, PEERS) if name in options.peers]
    try:
        where = run.machine(run.library())
        print("; ".join(f"{name}: {value}" for name, value in where.items() if name != "host"), flush=True)
        with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
            rows = measure(options, pathlib.Path(scratch))
    except BenchError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 1
    rows.sort(key=lambda row: row["cpu_us"])
    print(table(rows, {peer.name: version(peer) for peer in options.peers}))
    if options.chart:
        options.chart.write_text(chart(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
