#!/usr/bin/env python3
"""Measures the template `iris` of every language: size, build, and the time of a request in the sandbox.

In: a host that makes and builds the projects, and optionally another that serves them (`make dist` builds the one to measure);
the languages, else all of them, `js:quickjs` on QuickJS. Out: a table in Markdown. A build is the second one, in seconds
of processors. `warm` is the time of the stages pre_inference and post_inference
in an instance that has served before, `fresh` the same with an instance for every request, by the host's own metrics: the lowest
of the means of rounds of 50 requests, since what else the machine does only adds to it.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANGUAGES = ["rust", "c", "cpp", "zig", "go", "python", "js", "ts", "js:quickjs", "ts:quickjs"]
FLOWER = json.dumps({"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3})
ROUND = 50
STAGE = re.compile(r'modelhost_stage_duration_seconds_(sum|count)\{.*stage="(pre|post)_inference".*\} (\S+)')


def address(line):
    return line.split("http://")[1].strip()


def get(place, method, path, body=None, connection=None):
    connection = connection or http.client.HTTPConnection(place, timeout=120)
    connection.request(method, path, body)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"error: {path} answered {answer.status}: {text.decode()}")
    return text.decode()


def totals(admin):
    """Seconds and calls of both stages."""
    found = {"sum": 0.0, "count": 0.0}
    for kind, stage, value in STAGE.findall(get(admin, "GET", "/metrics")):
        # Both stages are one request.
        found[kind] += float(value) if kind == "sum" or stage == "pre" else 0
    return found


def request_us(host, project, isolation, count):
    """Microseconds of a request in the sandbox."""
    config = project / "modelhost.toml"
    command = [host, "serve", "--config", config, "--isolation", isolation, "--listen", "127.0.0.1:0",
               "--admin-listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        listen, admin = (address(server.stdout.readline()) for _ in range(2))
        connection = http.client.HTTPConnection(listen, timeout=120)
        for _ in range(count // 10):
            get(listen, "POST", "/", FLOWER, connection)
        rounds = []
        for _ in range(count // ROUND):
            before = totals(admin)
            for _ in range(ROUND):
                get(listen, "POST", "/", FLOWER, connection)
            after = totals(admin)
            rounds.append((after["sum"] - before["sum"]) / (after["count"] - before["count"]) * 1e6)
    finally:
        server.terminate()
        server.wait()
    return min(rounds)


def processor_seconds():
    """Time that processes which have ended took on processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default=ROOT / "target/release/host")
    parser.add_argument("--serve-with", help="the host that serves; the same without it")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("languages", nargs="*", default=LANGUAGES)
    arguments = parser.parse_args()
    tools = ROOT / "target/tools"
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    print("| `--lang` | component | build, CPU | warm, µs | fresh, µs |\n|---|---|---|---|---|", flush=True)
    for language in arguments.languages:
        with tempfile.TemporaryDirectory() as folder:
            name, _, engine = language.partition(":")
            subprocess.run([arguments.host, "new", "iris", "--lang", name], cwd=folder, check=True, capture_output=True)
            project = pathlib.Path(folder) / "iris"
            if engine:
                with (project / "modelhost.toml").open("a") as config:
                    config.write(f'\n[build]\nengine = "{engine}"\n')
            subprocess.run([arguments.host, "build"], cwd=project, check=True, capture_output=True)
            before = processor_seconds()
            subprocess.run([arguments.host, "build"], cwd=project, check=True, capture_output=True)
            took = processor_seconds() - before
            size = (project / "handler.wasm").stat().st_size / 1e6
            serving = arguments.serve_with or arguments.host
            warm = request_us(serving, project, "worker", arguments.requests)
            fresh = request_us(serving, project, "request", max(200, arguments.requests // 10))
        print(f"| `{language}` | {size:.2f} MB | {took:.1f} s | {warm:.1f} | {fresh:.0f} |", flush=True)


if __name__ == "__main__":
    main()
