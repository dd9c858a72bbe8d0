#!/usr/bin/env python3
"""Counts the instructions of a request, part by part, so that a change shows what it costs: docs/performance.md.

In: a program (`target/release/host`, or that of `make dist`) and the settings of an endpoint; valgrind. Each request of the
iris example is sent in one piece, on one connection, to a server that has one core. Out: a table in Markdown, and JSON if a
file is named: the instructions of each part, by the function that spends them (not by the one that calls it).

Instructions are counted, not timed: two runs of one program differ by less than two per cent, whatever else the machine does.
The kernel's part is not counted.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BODY = json.dumps({"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3})

# The first pattern that is found in «object function» names the part.
PARTS = [
    ("model: ONNX Runtime", r"^\S*onnxruntime|\bort::|model::onnx"),
    ("guest: compiled code", r"^\?\?\? |^\S*\.so-jit |^\S*memfd"),
    ("guest calls: wasmtime, lifting and lowering", r"wasmtime|plugin::(bindings|convert|instance|lease|state)|trampoline"),
    ("host calls, deadlines, log of a run", r"plugin::"),
    ("allocator", r"\bmi_|_mi_|mimalloc|__rust_(de|re)?alloc|^\S*libc\S* (malloc|free|calloc|realloc)\b"),
    ("copies and comparisons: libc", r"^\S*(libc|ld-linux)\S* "),
    ("connection: hyper, HTTP", r"hyper|httparse|\bhttp::|http_body|server::(listen|switch|head|http|serve|body)|axum|tower|bytes::"),
    ("admission, generation, observers", r"endpoint::|endpoint\.rs|rollout::|capture::|keys::"),
    ("pipeline", r"pipeline::|schema::|json::|serde"),
    ("model: queue and handle", r"model::"),
    ("metrics and logs", r"telemetry::|prometheus|tracing"),
    ("runtime: tokio", r"tokio|mio::|futures"),
]


def parse(path):
    """Instructions by «object function» of one dump in callgrind's format (valgrind's manual, «Callgrind Format»)."""
    names, costs = {"fn": {}, "ob": {}}, collections.Counter()
    place, skip = {"fn": "", "ob": ""}, False
    definition = re.compile(r"^(fn|ob)=\((\d+)\)(?: (.*))?$")
    for line in pathlib.Path(path).read_text(errors="replace").splitlines():
        if found := definition.match(line):
            kind, number, name = found.groups()
            if name is not None:
                names[kind][number] = name
            place[kind] = names[kind].get(number, "?")
        elif found := re.match(r"^c(fn|ob)=\((\d+)\) (.*)$", line):
            # A name is defined where it is met first, also as one that is called.
            names[found[1]][found[2]] = found[3]
        elif line.startswith("calls="):
            skip = True
        elif re.match(r"^[0-9+*-]\S* \d+", line):
            if not skip:
                costs[f"{os.path.basename(place['ob'])} {place['fn']}"] += int(line.split()[1])
            skip = False
    return costs


class Server:
    """The program under valgrind, on one core."""

    def __init__(self, program, arguments, folder):
        self.out = os.path.join(folder, "callgrind.out")
        pinned = ["taskset", "-c", "0"] if shutil.which("taskset") else []
        command = [*pinned, "valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={self.out}", program, "serve",
                   *arguments, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        ready = self.process.stdout.readline()
        if "http://" not in ready:
            self.log.seek(0)
            sys.exit(f"error: the server did not start: {self.log.read()}")
        host, port = ready.split("http://")[1].strip().rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)))

    def receive(self):
        if not (piece := self.connection.recv(65536)):
            self.log.seek(0)
            sys.exit(f"error: the server closed the connection: {self.log.read()}")
        return piece

    def ask(self, count, path):
        request = f"POST {path} HTTP/1.1\r\nhost: iris\r\ncontent-type: application/json\r\n" \
                  f"content-length: {len(BODY)}\r\n\r\n{BODY}".encode()
        for _ in range(count):
            self.connection.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += self.receive()
            head, body = answer.split(b"\r\n\r\n", 1)
            if not head.startswith(b"HTTP/1.1 200"):
                sys.exit(f"error: {answer.decode()}")
            length = int(re.search(rb"content-length: (\d+)", head)[1])
            while len(body) < length:
                body += self.receive()

    def control(self, *order):
        subprocess.run(["callgrind_control", *order, str(self.process.pid)], check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def measure(program, arguments, path, warm, requests):
    """Instructions of one request by part, and by function."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, arguments, folder)
        try:
            server.ask(warm, path)
            server.control("-z")
            server.ask(requests, path)
            server.control("-d")
        finally:
            server.stop()
        dump = next(pathlib.Path(folder).glob("callgrind.out*.1"), None)
        if dump is None:
            sys.exit("error: callgrind wrote nothing")
        costs = parse(dump)
    parts, functions = collections.Counter(), collections.defaultdict(collections.Counter)
    for name, cost in costs.items():
        part = next((part for part, pattern in PARTS if re.search(pattern, name)), "the rest")
        parts[part] += cost / requests
        functions[part][name] += cost / requests
    return parts, functions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--config", default=str(ROOT / "examples/iris-wasm/modelhost.toml"))
    parser.add_argument("--path", default="/iris")
    parser.add_argument("--isolation", choices=["worker", "request"], nargs="+", default=["worker", "request"])
    parser.add_argument("--warm", type=int, default=500)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--functions", type=int, default=0, help="the most expensive functions of each part")
    parser.add_argument("--json", help="a file for the figures")
    given = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("error: valgrind is not installed\nhint: apt-get install valgrind")
    found = {}
    for isolation in given.isolation:
        # A pool of four fits into the address space that valgrind leaves.
        arguments = ["--config", given.config, "--isolation", isolation, "--plugin-instances", "4"]
        found[isolation] = measure(given.program, arguments, given.path, given.warm, given.requests)
    order = [part for part, _ in PARTS] + ["the rest"]
    print("| part | " + " | ".join(f"`isolation = {isolation}`" for isolation in found) + " |")
    print("|---|" + "---|" * len(found))
    for part in order:
        print(f"| {part} | " + " | ".join(f"{parts[part]:,.0f}" for parts, _ in found.values()) + " |")
    print("| **a request** | " + " | ".join(f"**{sum(parts.values()):,.0f}**" for parts, _ in found.values()) + " |")
    for isolation, (_, functions) in found.items():
        for part in order if given.functions else []:
            print(f"\n{isolation}, {part}:")
            for name, cost in functions[part].most_common(given.functions):
                print(f"{cost:10,.0f}  {name[:150]}")
    if given.json:
        figures = {isolation: {"parts": parts, "total": sum(parts.values())} for isolation, (parts, _) in found.items()}
        pathlib.Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
