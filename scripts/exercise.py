#!/usr/bin/env python3
"""Has a host serve what its users send, so that a profile of it can be made.

Place in the flow: `scripts/dist.sh` runs it with a host that counts which way its code goes.
In:  the path of a host, before it which share of the requests is sent, if not all; the iris example's component and model; ONNX Runtime's library where the host finds it; tritonclient.
Out: exit status 0 once every request is answered as it should be and the host has ended in order.

What is not sent here is taken for rare, and laid out of the way: so every protocol takes part, HTTP with JSON the most.
"""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import tritonclient.grpc
import tritonclient.http

ROOT = pathlib.Path(__file__).resolve().parents[1]
IRIS = ROOT / "examples" / "iris-wasm"
BODY = (IRIS / "sample.json").read_bytes().strip()
LABEL = json.loads((IRIS / "expected.json").read_bytes())["class_label"]
FLOWER = np.array([list(json.loads(BODY).values())], np.float32)
MANY = np.repeat(FLOWER, 1000, axis=0)
"""A request that is work by its size."""

CLIENTS = 4
"""How many of each kind send at the same time: more than are answered at once."""

SHARE = float(sys.argv[1]) if len(sys.argv) > 2 else 1.0


def times(number):
    """So often something is sent."""
    return range(max(1, round(number * SHARE)))


def post(address, path, body, status):
    """A client that keeps its connection."""
    connection = http.client.HTTPConnection(address)

    def send():
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == status, (answer.status, text)
        return text

    return send


def flowers(address, grpc):
    send = post(address, "/iris", BODY, 200)
    for _ in times(6000):
        assert json.loads(send())["class_label"] == LABEL


def mistakes(address, grpc):
    for body, status in [(b"{", 400), (b"{}", 400), (BODY[:-1] + b',"more":[1,2,3]}', 200)]:
        send = post(address, "/iris", body, status)
        for _ in times(200):
            send()


def questions(address, grpc):
    connection = http.client.HTTPConnection(address)
    for path in ["/v2/health/ready", "/v2/models/iris", "/v2"] * len(times(100)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, (path, answer.status)


def rows(address, grpc):
    send = post(address, "/iris", json.dumps(MANY.tolist()), 200)
    for _ in times(200):
        assert len(json.loads(send())[1]) == len(MANY)


def tensors(module, client, requests, **settings):
    """Sends flowers as a tensor, by one of tritonclient's modules: one in nearly every request, many in some."""
    for flowers, number in [(FLOWER, requests), (MANY, requests // 20)]:
        tensor = module.InferInput("input", list(flowers.shape), "FP32")
        tensor.set_data_from_numpy(flowers, **settings)
        for _ in times(number):
            found = client.infer("iris", [tensor]).as_numpy("probabilities")
            assert found.shape == (len(flowers), 3) and not found.argmax(axis=1).any(), found


def binary(address, grpc):
    tensors(tritonclient.http, tritonclient.http.InferenceServerClient(address), 1500, binary_data=True)


def numbers(address, grpc):
    tensors(tritonclient.http, tritonclient.http.InferenceServerClient(address), 1000, binary_data=False)


def calls(address, grpc):
    tensors(tritonclient.grpc, tritonclient.grpc.InferenceServerClient(grpc), 2000)


HANDLER = ["--plugin", str(ROOT / "target/components/iris-wasm.wasm"), "--bare-tensors"]
"""It reads JSON alone: tensors go past it to the model."""
HOSTS = [
    ([*HANDLER, "--isolation", "worker"], [flowers, mistakes, questions, binary, numbers, calls]),
    ([*HANDLER, "--isolation", "request"], [flowers, mistakes]),
    (["--max-batch", "8", "--max-delay", "1ms"], [rows, questions, binary, numbers, calls]),
]
"""What hosts are started with, one after the other, and what is sent to them."""


def exercise(host, settings, kinds):
    """One host from start to end."""
    addresses = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]
    # Without the cache the compiler of handlers takes part.
    model = ["--model", str(IRIS / "iris.onnx"), "--name", "iris", "--cache-dir", "none"]
    command = [host, "serve", *model, *addresses, *settings]
    # A setting in the caller's shell would make it another host.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MODELHOST_")}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    failures = []

    def run(client, *addresses):
        try:
            client(*addresses)
        except Exception as failure:  # Said below, by the thread that ends the program.
            failures.append(f"{client.__name__}: {type(failure).__name__}: {failure}")

    try:
        # `listening on http://HOST:PORT`, `admin on …`, `grpc on HOST:PORT`.
        lines = [process.stdout.readline().split() for _ in range(3)]
        if not all(lines):
            sys.exit(f"it does not start: {' '.join(command)}")
        address, _, grpc = (line[-1].removeprefix("http://") for line in lines)
        threads = [threading.Thread(target=run, args=(kind, address, grpc)) for kind in kinds for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            failures.append(f"it ended with {process.returncode}")
    finally:
        process.kill()
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    for each in HOSTS:
        exercise(sys.argv[-1], *each)
