"""Starts a server and loads it, one window at a time.

Place in the flow: `run.py` decides what runs when.
In:  a server and a workload of `workloads.py`, the environment to start it in.
Out: its address, once it has given the right answer; then for each window what `wrk` and the CPU clock say.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import time
import urllib.request

from workloads import ROOT, Server, Workload

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 60.0
STOP_SECONDS = 40.0


class BenchError(Exception):
    """What keeps the benchmark from running, in words for the user."""


class Running:
    """A started server. `url` is where the workload is, `first_answer_ms` how long it took to answer there."""

    STDOUT: int | None = subprocess.PIPE
    """Where standard output goes; `None` is the log. A pipe that is full holds the server up."""

    def __init__(self, server: Server, work: Workload, environment: dict[str, str], log: pathlib.Path):
        self.server = server
        self.log = log
        started = time.monotonic()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(server.binary), *server.arguments(work)],
                stdout=errors if self.STDOUT is None else self.STDOUT,
                stderr=errors,
                env=environment,
                cwd=ROOT,
            )
        try:
            self.url = self._address(started + START_SECONDS) + work.path
            answer = self._ask(work)
            self.first_answer_ms = (time.monotonic() - started) * 1e3
            self._check(work, answer)
        except BaseException:
            self.stop()
            raise

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

    def _ask(self, work: Workload) -> bytes:
        """Sends the workload's request once; the answer's body."""
        request = urllib.request.Request(self.url, work.body.read_bytes(), work.headers)
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
                return response.read()
        except OSError as error:
            raise BenchError(f"`{self.server.name}`: {error}\n{self.errors()}") from error

    def _check(self, work: Workload, answer: bytes) -> None:
        """Compares an answer with the expected one."""
        try:
            wrong = work.wrong(answer)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            raise BenchError(f"`{self.server.name}` gave a wrong answer: {wrong}: {answer[:500]!r}")

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

    def window(self, work: Workload, connections: int, seconds: float, settle_ms: int) -> dict:
        """Loads the server for `seconds` over `connections`, each sending its next request once answered."""
        before = self.cpu_ns()
        load = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
            + ["-s", str(HERE / "post.lua"), self.url],
            env={
                **os.environ,
                "BENCH_BODY": str(work.body),
                "BENCH_HEADERS": "\n".join(f"{name}: {value}" for name, value in work.headers.items()),
                "BENCH_SETTLE_MS": str(settle_ms),
            },
            capture_output=True,
            text=True,
        )
        after = self.cpu_ns()
        lines = [line for line in load.stdout.splitlines() if line.startswith("{")]
        if load.returncode != 0 or not lines:
            raise BenchError(f"wrk failed: {load.stderr or load.stdout}")
        got = json.loads(lines[-1])
        if not got["counted"]:
            raise BenchError(f"`{self.server.name}` answered nothing in {seconds} s\n{self.errors()}")
        return {
            "rps": got["counted"] / (got["counted_us"] / 1e6),
            "cpu_us": (after - before) / 1e3 / got["requests"],
            "cores": (after - before) / 1e3 / got["duration_us"],
            "errors": got["status_errors"] + got["socket_errors"],
            **got,
        }

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for a server that does not heed it."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
