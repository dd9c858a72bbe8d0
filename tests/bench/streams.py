#!/usr/bin/env python3
"""Measures what an event of a stream costs the host, and the same of a native server.

Place in the flow: run by hand, after `cargo build --release --workspace --bins` or `make bench`, which builds both as they are
shipped, and `scripts/build-guests.sh`.
In:  the folder with both binaries. Out: a row for each server: CPU time of an event, the process's own and the kernel's for it, how
often a thread of it gave the processor up, and memory of an open stream.

One server after the other serves so many streams of server-sent events, an event each in every pause. All of a window's
events count: what came of them is read by this process, which takes a part of the same processors. A write to a socket
of the same machine includes the way to the reader, up to its waking. Linux only. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import select
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.parse

from report import table
from run import environment
from servers import BenchError
from workloads import CEILING, COMPONENTS, ROOT

SERVERS = (CEILING, "host-respond", "host-wasi-http")
TICK = os.sysconf("SC_CLK_TCK")
FOREVER = 10**8
"""More events than any window has."""


class Served:
    """A started server. `path` is that of a stream."""

    def __init__(self, name: str, command: list[str], path: str, log: pathlib.Path):
        self.name, self.path = name, path
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log.open("wb"), env=environment(), cwd=ROOT
        )
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on http://"):
            raise BenchError(f"`{name}` printed {line!r} where its address belongs\n{log.read_text()[-2000:]}")
        self.address = urllib.parse.urlsplit(line.split()[-1])

    def cpu_us(self) -> tuple[float, float]:
        """CPU time so far: the process's own, and the kernel's for it."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) * 1e6 / TICK, int(fields[12]) * 1e6 / TICK

    def switches(self) -> int:
        """How often its threads gave the processor up by themselves."""
        count = 0
        for status in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/status"):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            count += int(fields["voluntary_ctxt_switches"])
        return count

    def memory_kib(self) -> int:
        """Resident memory now."""
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 1024

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


class Readers:
    """Open streams, and how many events came of them."""

    def __init__(self) -> None:
        self.poll, self.sockets, self.events = select.epoll(), {}, 0

    def open(self, server: Served, path: str) -> None:
        reader = socket.create_connection((server.address.hostname, server.address.port))
        reader.sendall(f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode())
        reader.setblocking(False)
        self.sockets[reader.fileno()] = reader
        self.poll.register(reader, select.EPOLLIN)

    def read(self, until: float) -> None:
        """Takes what comes until then."""
        while (left := until - time.monotonic()) > 0:
            for number, _ in self.poll.poll(left):
                part = self.sockets[number].recv(1 << 16)
                if not part:
                    raise BenchError("a stream has ended")
                self.events += part.count(b"data: ")

    def close(self) -> None:
        for reader in self.sockets.values():
            reader.close()


def measure(server: Served, options: argparse.Namespace) -> list[str]:
    """A row of the table."""
    warm = Readers()
    warm.open(server, server.path)
    warm.read(time.monotonic() + 0.5)
    warm.close()
    before, readers = server.memory_kib(), Readers()
    for index in range(options.streams):
        readers.open(server, server.path)
        if index % 50 == 49:
            readers.read(time.monotonic() + options.pause / 20_000)
    readers.read(time.monotonic() + 2)
    memory = (server.memory_kib() - before) / options.streams
    windows = []
    for _ in range(options.windows):
        cpu, switches, events = server.cpu_us(), server.switches(), readers.events
        readers.read(time.monotonic() + options.seconds)
        count = readers.events - events
        user, system = (now - then for now, then in zip(server.cpu_us(), cpu))
        windows.append((user / count, system / count, (server.switches() - switches) / count, count / options.seconds))
    readers.close()
    user, system, switches, rate = (statistics.median(column) for column in zip(*windows))
    totals = sorted(window[0] + window[1] for window in windows)
    return [server.name, f"{rate:,.0f}", f"{user:.1f}", f"{system:.1f}"] + [
        f"{statistics.median(totals):.1f} ({totals[0]:.1f}–{totals[-1]:.1f})", f"{switches:.2f}", f"{memory:.0f}"
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "dist", metavar="FOLDER")
    names = ", ".join(SERVERS)
    parser.add_argument("--servers", nargs="+", default=SERVERS, choices=SERVERS, metavar="NAME", help=names)
    parser.add_argument("--streams", type=int, default=1000, metavar="N")
    parser.add_argument("--pause", type=int, default=100, help="milliseconds between two events of a stream")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    serve = [str(options.binaries / "host"), "serve", "--name", "e", "--concurrency", str(options.streams + 50)]
    serve += ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--plugin"]
    ticks = f"/ticks/{FOREVER}?ms={options.pause}"
    servers = [
        (SERVERS[0], [str(options.binaries / "ceiling"), "streams", "none", "127.0.0.1:0"], ticks),
        (SERVERS[1], [*serve, str(COMPONENTS / "tests" / "responder.wasm")], f"/e{ticks}"),
        (
            SERVERS[2],
            [*serve, str(COMPONENTS / "tests" / "application.wasm")],
            f"/e/stream?events={FOREVER}&pause_ms={options.pause}",
        ),
    ]
    print(f"load before the run: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores", flush=True)
    rows = [["server", "events/s", "CPU µs an event: own", "kernel's", "together"]]
    rows[0] += ["switches an event", "KiB a stream"]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for name, command, path in servers:
            if name not in options.servers:
                continue
            server = Served(name, command, path, pathlib.Path(scratch) / f"{name}.log")
            try:
                rows.append(measure(server, options))
            finally:
                server.stop()
    print(table(rows, left=1))


if __name__ == "__main__":
    main()
