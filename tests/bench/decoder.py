#!/usr/bin/env python3
"""Measures the tokens a second of examples/decoder-wasm beside the same loop in native Rust.

Place in the flow: run by hand, after `cargo build --release --workspace --bins` or `make bench`, which builds both as they are
shipped, and `scripts/build-guests.sh examples`.
In:  a model of examples/decoder-wasm/make.py, and the folder with both binaries. Out: a row for each number of streams.

Both servers run all the time and get windows in turn; a ratio is taken between the two windows of a round. A window is
a number of streams, each of which asks for the next text as soon as it has one. All texts of all windows have to be the
same. Linux only, because of the CPU clock. Standard library only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import pathlib
import tempfile
import threading
import time
import urllib.parse

from report import ratios, spread, table
from run import environment, machine, output
from servers import BenchError, Running
from workloads import CEILING, COMPONENTS, ROOT, Server

PROMPT = "Once upon a time"
HOST = "host"


class Stream:
    """What `Running` has to know of a workload."""

    name = "decoder"
    path = "/decoder/generate"
    headers = {"content-type": "application/json"}

    def __init__(self, model: pathlib.Path, tokens: int, folder: pathlib.Path):
        self.model, self.tokens, self.answer = model, tokens, None
        self.body = folder / "body.json"
        self.body.write_text(json.dumps({"prompt": PROMPT, "tokens": tokens}))

    def wrong(self, answer: bytes) -> str | None:
        """Both servers have to stream the same text to its end."""
        self.answer = self.answer or answer
        is_whole = answer.count(b"data: ") == self.tokens + 1 and b"event: done" in answer
        return None if is_whole and answer == self.answer else f"{len(answer)} bytes"


def window(running: Running, work: Stream, streams: int, seconds: float) -> dict:
    """Tokens a second, and the CPU time of a token."""
    address = urllib.parse.urlsplit(running.url)
    counts, failures = [0] * streams, []
    end = time.monotonic() + seconds

    def ask(index: int) -> None:
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        while time.monotonic() < end and not failures:
            connection.request("POST", address.path, work.body.read_bytes(), work.headers)
            response = connection.getresponse()
            answer = b""
            while piece := response.read1():
                answer += piece
                counts[index] += piece.count(b'"token"') if time.monotonic() < end else 0
            if wrong := work.wrong(answer):
                failures.append(wrong)

    threads = [threading.Thread(target=ask, args=[index]) for index in range(streams)]
    before, started = running.cpu_ns(), time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    after, took = running.cpu_ns(), time.monotonic() - started
    for thread in threads:
        thread.join()
    if failures:
        raise BenchError(f"`{running.server.name}` gave a wrong answer: {failures[0]}\n{running.errors()}")
    tokens = sum(counts)
    return {"rate": tokens / took, "cpu_us": (after - before) / 1e3 / max(tokens, 1)}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "dist", metavar="FOLDER")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 8], metavar="N")
    parser.add_argument("--tokens", type=int, default=200, help="of each text")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    serve = ["serve", "--name", "decoder", "--plugin", str(COMPONENTS / "decoder-wasm.wasm"), "--model"]
    listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    servers = [
        Server(CEILING, options.binaries / "ceiling", lambda work: ["decoder", str(work.model), "127.0.0.1:0"]),
        Server(HOST, options.binaries / "host", lambda work: [*serve, str(work.model), *listen]),
    ]
    started_with = environment()
    where = {**machine(started_with["ORT_DYLIB_PATH"]), "host": output([str(options.binaries / "host"), "--version"])}
    print("; ".join(f"{name}: {value}" for name, value in where.items()), flush=True)
    rows = [["streams", "ceiling, tokens/s", "host, tokens/s", "host × ceiling", "CPU µs a token", "of the host"]]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = pathlib.Path(scratch)
        work = Stream(options.model.resolve(), options.tokens, folder)
        running: list[Running] = []
        try:
            for server in servers:
                running.append(Running(server, work, started_with, folder / f"{server.name}.log"))
            for streams in options.streams:
                rounds: dict[str, list[dict]] = {server.name: [] for server in servers}
                for turn in range(options.windows):
                    for each in running[turn % 2 :] + running[: turn % 2]:
                        rounds[each.server.name].append(window(each, work, streams, options.seconds))
                middle = {
                    (name, key): sorted(each[key] for each in windows)[len(windows) // 2]
                    for name, windows in rounds.items()
                    for key in ("rate", "cpu_us")
                }
                rows.append(
                    [str(streams), f"{middle[CEILING, 'rate']:,.0f}", f"{middle[HOST, 'rate']:,.0f}"]
                    + [spread(ratios(rounds, HOST, CEILING, "rate"))]
                    + [f"{middle[CEILING, 'cpu_us']:.0f}", f"{middle[HOST, 'cpu_us']:.0f}"]
                )
        finally:
            for each in running:
                each.stop()
    print(table(rows, left=1))


if __name__ == "__main__":
    main()
