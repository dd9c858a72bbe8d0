"""What is measured: the workloads, the servers that serve them, and the ratios that are the goal.

Place in the flow: `run.py` picks from here, `servers.py` starts and loads it, `report.py` compares with the goals.
Everything to change when a workload, a server or a goal is added is in this file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import struct
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target" / "release"
DIST = ROOT / "target" / "dist"
"""What is measured: built as it is shipped."""
COMPONENTS = ROOT / "target" / "components"
IRIS = ROOT / "examples" / "iris-wasm"
MADE = ROOT / "target" / "bench"
"""Where `models.py` writes to."""

CEILING = "ceiling"
WORKER = "host-worker"
REQUEST = "host-request"
BATCHING = "host-batching"
RESPOND = "host-respond"
"""The same as an application by `respond`."""
HTTP = "host-wasi-http"
"""The same on `wasi:http`, a fresh instance each."""
REUSED = "host-wasi-http-reused"
"""The same with instances that serve again."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """One endpoint under load: what serves it, what is sent, what must come back."""

    name: str
    model: pathlib.Path
    plugin: pathlib.Path | None
    content_type: str
    body: pathlib.Path
    expected: pathlib.Path
    """The answer, JSON."""
    tolerance: float
    """How far a number in an answer may be from the expected one: rounding depends on the machine."""
    servers: tuple[str, ...]
    seconds: int
    """Length of a window, unless the command line gives another."""
    settle_ms: int
    """How long into a window answers do not yet count towards the rate, see `post.lua`."""
    binary: bool = False
    """Whether it is sent and answered by the Open Inference Protocol's binary tensor data extension."""

    @property
    def path(self) -> str:
        """Where the endpoint answers."""
        return f"/v2/models/{self.name}/infer" if self.binary else f"/{self.name}"

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with the body."""
        headers = {"content-type": self.content_type}
        if self.binary:
            headers["inference-header-content-length"] = str(len(header_of(self.body.read_bytes())[1]))
        return headers

    def wrong(self, answer: bytes) -> str | None:
        """What is wrong with the body of an answer."""
        got = first_output(answer) if self.binary else json.loads(answer)
        return different(got, json.loads(self.expected.read_bytes()), self.tolerance, "answer")


@dataclasses.dataclass(frozen=True)
class Server:
    """One way to serve a workload: a program that prints `listening on http://…`."""

    name: str
    binary: pathlib.Path
    arguments: Callable[[Workload], list[str]]
    plugin: pathlib.Path | None = None
    """In place of the workload's."""


@dataclasses.dataclass(frozen=True)
class Goal:
    """Where the ratio of a server's measure to that of another shall be: at least there for req/s, at most else."""

    workload: str
    server: str
    measure: str
    connections: tuple[int, ...]
    limit: float
    then: float | None = None
    """Where to go once `limit` is met."""
    base: str = CEILING
    """The server that it is divided by."""

    def verdict(self, ratio: float, limit: float | None) -> list[str]:
        """A limit, and whether `ratio` keeps it."""
        if limit is None:
            return ["", ""]
        least = self.measure == "rps"
        kept = ratio >= limit if least else ratio <= limit
        return [f"{'≥' if least else '≤'} {limit:.2f}", "met" if kept else "missed"]


def header_of(message: bytes) -> tuple[dict, bytes]:
    """The JSON that a binary message begins with, parsed and as it stands there."""
    text = message.decode("latin-1")
    value, end = json.JSONDecoder().raw_decode(text)
    return value, message[:end]


def first_output(answer: bytes) -> list[float]:
    """The values of a binary answer's only output."""
    header, text = header_of(answer)
    size = header["outputs"][0]["parameters"]["binary_data_size"]
    return [value for (value,) in struct.iter_unpack("<f", answer[len(text) : len(text) + size])]


def different(got: object, expected: object, tolerance: float, where: str) -> str | None:
    """The first place where two JSON values differ; numbers may by `tolerance`."""
    if isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        pairs = [(got[key], value, f"{where}.{key}") for key, value in expected.items()]
    elif isinstance(expected, list) and isinstance(got, list) and len(got) == len(expected):
        pairs = [(one, other, f"{where}[{index}]") for index, (one, other) in enumerate(zip(got, expected))]
    elif got == expected:
        return None
    elif isinstance(expected, float) and isinstance(got, (int, float)):
        return None if math.isclose(got, expected, rel_tol=0, abs_tol=tolerance) else f"{where}: {got} != {expected}"
    else:
        return f"{where}: {got!r:.200} != {expected!r:.200}"
    return next(filter(None, (different(one, other, tolerance, place) for one, other, place in pairs)), None)


def host(*more: str, plugin: pathlib.Path | None = None) -> Callable[[Workload], list[str]]:
    """Arguments of `host serve`; everything that is not named keeps its default. `plugin`: in place of the workload's."""

    def arguments(work: Workload) -> list[str]:
        served = plugin or work.plugin
        return [
            "serve",
            *(("--plugin", str(served)) if served else ()),
            *("--model", str(work.model)),
            *("--name", work.name),
            *("--listen", "127.0.0.1:0"),
            *("--admin-listen", "127.0.0.1:0"),
            *more,
        ]

    return arguments



def application(name: str, component: str, *more: str) -> Server:
    """The workload's handler as an application, one of the tests' guests."""
    plugin = COMPONENTS / "tests" / f"{component}.wasm"
    return Server(name, DIST / "host", host(*more, plugin=plugin), plugin)


SERVERS = [
    Server(CEILING, DIST / "ceiling", lambda work: [work.name, str(work.model), "127.0.0.1:0"]),
    Server(WORKER, DIST / "host", host("--isolation", "worker")),
    Server(REQUEST, DIST / "host", host("--isolation", "request")),
    Server(BATCHING, DIST / "host", host("--max-batch", "16", "--max-delay", "2ms")),
    application(RESPOND, "iris_respond"),
    application(HTTP, "iris_http"),
    application(REUSED, "iris_http", "--reuse-instances"),
]

WORKLOADS = [
    Workload(
        name="iris",
        model=IRIS / "iris.onnx",
        plugin=COMPONENTS / "iris-wasm.wasm",
        content_type="application/json",
        body=IRIS / "sample.json",
        expected=IRIS / "expected.json",
        tolerance=1e-5,
        servers=(CEILING, WORKER, REQUEST, RESPOND, HTTP, REUSED),
        seconds=2,
        settle_ms=0,
    ),
    Workload(
        name="encoder",
        model=MADE / "encoder.onnx",
        plugin=COMPONENTS / "tests" / "encoder.wasm",
        content_type="application/json",
        body=MADE / "encoder.body",
        expected=MADE / "encoder.json",
        tolerance=1e-4,
        servers=(CEILING, WORKER, BATCHING),
        seconds=4,
        settle_ms=500,
    ),
    Workload(
        name="image",
        model=MADE / "image.onnx",
        plugin=COMPONENTS / "tests" / "image.wasm",
        content_type="application/octet-stream",
        body=MADE / "image.body",
        expected=MADE / "image.json",
        tolerance=1e-4,
        servers=(CEILING, WORKER, BATCHING),
        seconds=6,
        settle_ms=1500,
    ),
    Workload(
        name="oip",
        model=MADE / "image.onnx",
        plugin=None,
        content_type="application/octet-stream",
        body=MADE / "oip.body",
        expected=MADE / "oip.json",
        tolerance=1e-3,
        servers=(CEILING, WORKER),
        seconds=6,
        settle_ms=1500,
        binary=True,
    ),
]

GOALS = [
    Goal("iris", WORKER, "cpu_us", (8, 64), 1.25, 1.1),
    Goal("iris", WORKER, "p99_us", (8, 64), 1.25),
    Goal("iris", REQUEST, "cpu_us", (8, 64), 2.5, 2.0),
    # 5 and 15 µs of about 30.
    Goal("iris", RESPOND, "cpu_us", (8, 64), 1.17, base=WORKER),
    Goal("iris", REUSED, "cpu_us", (8, 64), 1.5, base=WORKER),
    Goal("encoder", WORKER, "rps", (1, 8, 64), 0.97),
    Goal("encoder", BATCHING, "rps", (64,), 1.45),
    Goal("encoder", BATCHING, "rps", (1, 8, 64), 0.97, base=WORKER),
    Goal("image", WORKER, "rps", (1, 8, 64), 0.95),
    Goal("oip", WORKER, "rps", (1, 8, 64), 0.95),
    Goal("image", BATCHING, "rps", (1, 8, 64), 0.97, base=WORKER),
]
