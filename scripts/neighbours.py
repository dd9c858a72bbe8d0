#!/usr/bin/env python3
"""Measures a neighbour beside an endpoint that is flooded: docs/performance.md, "Neighbours".

In: a program (`target/release/host`, or that of `make dist`), and the components of `make build`. The neighbour is the iris
example, asked fifty times a second on one connection; the other endpoint is asked by a process with a niceness of 10, without a
pause, by as many connections as a case says: calls that compute for so many milliseconds, or large bodies. Out: a table in
Markdown, p50 and p99 of the neighbour in milliseconds alone and beside each flood, what the flood gets, and what it gets alone;
JSON if a file is named.
"""

import argparse
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOWER = json.dumps({"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}).encode()
CONFIG = """
[server]
listen = "127.0.0.1:0"
[[endpoint]]
name = "neighbour"
plugin = "{components}/iris-wasm.wasm"
model = "{root}/examples/iris-wasm/iris.onnx"
[[endpoint]]
name = "compute"
plugin = "{components}/tests/compute.wasm"
limits = {{ queue = 1024 }}
[[endpoint]]
name = "echo"
plugin = "{components}/tests/echo.wasm"
limits = {{ queue = 1024, body = "32MiB", memory = "256MiB" }}
"""
CALLS = [0.03, 0.2, 1, 3.9, 20, 50]


def post(path, body, kind="text/plain"):
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Client:
    """One connection, with one request at a time."""

    def __init__(self, place):
        self.socket = socket.create_connection(place)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def send(self, request):
        self.socket.sendall(request)
        self.received.clear()

    def receive(self):
        """Reads once; the status when the answer is whole, else `None`."""
        piece = self.socket.recv(1 << 20)
        if not piece:
            raise SystemExit("error: the server closed a connection")
        self.received += piece
        end = self.received.find(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", self.received[:end]) if end >= 0 else None
        if length is None or len(self.received) < end + 4 + int(length[1]):
            return None
        return int(self.received[9:12])

    def ask(self, request):
        self.send(request)
        while (status := self.receive()) is None:
            pass
        return status


def flood(place, request, connections, seconds):
    """Asks without a pause; answers with 200 a second, and the number of others."""
    clients = {}
    poll = select.epoll()
    for _ in range(connections):
        client = Client(place)
        client.send(request)
        clients[client.socket.fileno()] = client
        poll.register(client.socket.fileno(), select.EPOLLIN)
    good, others, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for file, _ in poll.poll(0.1):
            status = clients[file].receive()
            if status is not None:
                good, others = good + (status == 200), others + (status != 200)
                clients[file].send(request)
    return good / seconds, others


def started_flood(place, request, connections, seconds):
    """The same in a process of its own; a function that waits for what it found."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.nice(10)
        os.write(writer, json.dumps(flood(place, request, connections, seconds)).encode())
        os._exit(0)
    os.close(writer)

    def ended():
        os.waitpid(child, 0)
        with os.fdopen(reader) as found:
            return json.load(found)

    return ended


def neighbour(place, seconds):
    """p50 and p99 in milliseconds, of requests that begin every twentieth of a second if the one before has ended."""
    client, request, times = Client(place), post("/neighbour", FLOWER, "application/json"), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        if (status := client.ask(request)) != 200:
            raise SystemExit(f"error: the neighbour got {status}: {bytes(client.received)!r}")
        times.append((time.perf_counter() - begun) * 1e3)
        time.sleep(max(0, 0.02 - (time.perf_counter() - begun)))
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def thousands_of_rounds(place):
    """How many a millisecond takes."""
    client, best = Client(place), float("inf")
    for _ in range(20):
        begun = time.perf_counter()
        client.ask(post("/compute", b"1000"))
        best = min(best, time.perf_counter() - begun)
    return 1000 / (best * 1e3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--components", default=str(ROOT / "target/components"))
    parser.add_argument("--connections", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--calls", type=float, nargs="*", default=CALLS, help="milliseconds")
    parser.add_argument("--bodies", type=int, nargs="*", default=[30_000_000], help="bytes, on eight connections")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", help="a file for the figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "modelhost.toml")
        config.write_text(CONFIG.format(components=os.path.abspath(given.components), root=ROOT))
        with open(os.path.join(folder, "log"), "w+") as log:
            command = [given.program, "serve", "--config", str(config), "--admin-listen", "127.0.0.1:0"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                ready = server.stdout.readline()
                if "http://" not in ready:
                    log.seek(0)
                    sys.exit(f"error: the server did not start: {log.read()}")
                host, port = ready.split("http://")[1].strip().rsplit(":", 1)
                rows = measure((host, int(port)), given)
            finally:
                server.terminate()
                server.wait()
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")


def measure(place, given):
    rate = thousands_of_rounds(place)
    cases = [(f"{call:g} ms a call, {count} connections", post("/compute", str(max(1, round(call * rate))).encode()), count)
             for call in given.calls for count in given.connections]
    cases += [(f"bodies of {size:,} bytes, 8 connections", post("/echo", b"x" * size), 8) for size in given.bodies]
    print("| flood | neighbour p50, ms | p99, ms | the flood, answers a second | the flood alone |\n|---|---|---|---|---|")
    rows = []

    def row(name, found, beside, by_itself):
        rows.append({"flood": name, "p50_ms": found[0], "p99_ms": found[1], "rate": beside, "rate_alone": by_itself})
        rates = " | ".join("" if rate is None else f"{rate:,.0f}" for rate in (beside, by_itself))
        print(f"| {name} | {found[0]:.2f} | {found[1]:.2f} | {rates} |", flush=True)

    row("none", neighbour(place, given.seconds), None, None)
    for name, request, count in cases:
        alone, others = started_flood(place, request, count, given.seconds)()
        ended = started_flood(place, request, count, given.seconds + 1.5)
        # Until the flood is there.
        time.sleep(1)
        found = neighbour(place, given.seconds)
        beside, refused = ended()
        row(name, found, beside, alone)
        if others + refused:
            print(f"{others + refused} answers of the flood were no 200", file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()
