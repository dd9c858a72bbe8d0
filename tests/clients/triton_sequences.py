"""Drives a host with sequences of requests as users of `tritonclient` do: over HTTP, over gRPC, and in streams.

Place in the flow: `tests/it/sequences.rs` runs `triton_sequences.py HTTP_HOST:PORT GRPC_HOST:PORT`.
In: a host with `sums` and `neighbour`, both `accumulator` with its state kept, `sums` for two sequences at most, and `orders`, a
handler. Out: exit status 0, or the assertion that failed.
"""

import json
import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from refusals import refused

START = "must specify the START flag"


def given(module, x):
    tensor = module.InferInput("x", list(x.shape), "FP32")
    tensor.set_data_from_numpy(x)
    return [tensor]


class Expected:
    """What the model makes of a sequence, by NumPy."""

    def __init__(self):
        self.state, self.count = np.zeros((1, 2), np.float32), 0

    def next(self, x):
        self.state, self.count = self.state * np.float32(0.5) + x, self.count + 1
        return self.state, self.count


def same(found, expected):
    state, count = expected
    y, n = found.as_numpy("y"), found.as_numpy("n")
    assert np.array_equal(y, state) and n.tolist() == [count], (y, n, expected)


def infer(module, client, ids):
    random = np.random.default_rng(0)
    draw = lambda: random.standard_normal((1, 2), np.float32)
    ask = lambda x, model="sums", **sequence: client.infer(model, given(module, x), **sequence)
    expected = {id: Expected() for id in ids}
    # Interleaved.
    for step in range(5):
        for id, sequence in expected.items():
            x = draw()
            found = ask(x, sequence_id=id, sequence_start=step == 0)
            same(found, sequence.next(x))
    first, second = ids
    third = type(first)(3) if isinstance(first, int) else "third"
    refused("2 sequences are running", lambda: ask(draw(), sequence_id=third, sequence_start=True))
    # The neighbour has its own sequences, of the same names.
    x = draw()
    same(ask(x, "neighbour", sequence_id=third, sequence_start=True, sequence_end=True), Expected().next(x))
    refused(START, lambda: ask(draw(), "neighbour", sequence_id=first))
    # Both of the others go on.
    x = draw()
    same(ask(x, sequence_id=first, sequence_end=True), expected[first].next(x))
    refused(START, lambda: ask(draw(), sequence_id=first))
    x = draw()
    same(ask(x, sequence_id=third, sequence_start=True, sequence_end=True), Expected().next(x))
    # Begun anew in the middle.
    expected[second] = Expected()
    x = draw()
    same(ask(x, sequence_id=second, sequence_start=True), expected[second].next(x))
    x = draw()
    same(ask(x, sequence_id=second, sequence_end=True), expected[second].next(x))
    refused("must specify a non-zero or non-empty correlation ID", lambda: ask(draw()))
    refused("128", lambda: ask(draw(), sequence_id="x" * 129, sequence_start=True))

    # Handlers see the parameters and make of them what they will.
    order = module.InferInput("order", [1], "BYTES")
    order.set_data_from_numpy(np.array([b""], np.object_))
    seen = client.infer("orders", [order], sequence_id=5, sequence_start=True).as_numpy("seen")[0]
    parameters = json.loads(seen)["parameters"]
    assert (parameters["sequence_id"], parameters["sequence_start"]) == (5, True), parameters

    metadata, config = client.get_model_metadata("sums"), client.get_model_config("sums")
    if module is tritonclient.http:
        assert [tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]] == ["x", "y", "n"], metadata
        batching = config["sequence_batching"]
        found = [(state["output_name"], state["input_name"]) for state in batching["state"]]
        idle = batching["max_sequence_idle_microseconds"]
    else:
        assert [tensor.name for tensor in [*metadata.inputs, *metadata.outputs]] == ["x", "y", "n"], metadata
        batching = config.config.sequence_batching
        found = [(state.output_name, state.input_name) for state in batching.state]
        idle = batching.max_sequence_idle_microseconds
    assert sorted(found) == [("count_out", "count_in"), ("state_out", "state_in")], found
    assert idle == 60_000_000, idle


def streams(client):
    """Every request is sent before the first answer is looked at, of two sequences in one stream."""
    module, random, found = tritonclient.grpc, np.random.default_rng(1), queue.Queue()
    client.start_stream(callback=lambda result, error: found.put((result, error)))
    expected, wanted = {"a": Expected(), 9: Expected()}, []
    for step in range(40):
        for id, sequence in expected.items():
            x = random.standard_normal((1, 2), np.float32)
            client.async_stream_infer(
                "sums", given(module, x), sequence_id=id, sequence_start=step == 0, sequence_end=step == 39,
                request_id=f"{id}-{step}",
            )
            wanted.append((f"{id}-{step}", sequence.next(x)))
    for id, values in wanted:
        result, error = found.get(timeout=60)
        assert error is None, error
        assert result.get_response().id == id
        same(result, values)
    # A failure is one request's.
    client.async_stream_infer("sums", given(module, np.zeros((1, 2), np.float32)), sequence_id=9)
    result, error = found.get(timeout=60)
    assert START in error.message(), error
    client.stop_stream()


def main(http, grpc):
    for module, address in [(tritonclient.http, http), (tritonclient.grpc, grpc)]:
        with module.InferenceServerClient(address) as client:
            for ids in (1, 2**63 - 1), ("one", "1"):
                infer(module, client, ids)
    with tritonclient.grpc.InferenceServerClient(grpc) as client:
        streams(client)


main(*sys.argv[1:])
