#!/usr/bin/env python3
"""What the benchmark's models gain from batches by themselves on this machine: the most that batching in a server can bring.

Place in the flow: run by hand once `make bench` has made the models, with target/venv/bin/python.
In:  target/bench/{encoder,image}.onnx; batch sizes as arguments, 1 2 4 8 16 without any.
Out: a table: ONNX Runtime's rows a second with a session of one thread on each core, median of five windows, and what that is in
     floating-point operations; before it, how many of them the same cores make of square matrices in NumPy (OpenBLAS).

A model that runs at the speed of a matrix product alone cannot get faster, whoever makes the batches. Operations counted: those of
`Conv`, `Gemm` and `MatMul`, two for each multiplication.
"""

from __future__ import annotations

import math
import os
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "target" / "bench"
CORES = len(os.sched_getaffinity(0))
TOKENS = 32
SIZE = 1024
SECONDS = 1.5
WINDOWS = 5


def rate(work: list[Callable[[], object]], each: float) -> float:
    """How much they do a second, each on a thread of its own, `each` a call."""

    def window() -> float:
        counts = [0] * len(work)
        end = time.perf_counter() + SECONDS

        def repeat(index: int) -> None:
            while time.perf_counter() < end:
                work[index]()
                counts[index] += 1

        threads = [threading.Thread(target=repeat, args=(index,)) for index in range(len(work))]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) * each / (time.perf_counter() - started)

    return statistics.median(window() for _ in range(WINDOWS))


def operations(model: onnx.ModelProto) -> float:
    """Of one row."""
    for value in model.graph.input:
        for place, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value"):
                dimension.dim_value = 1 if place == 0 else TOKENS
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}
    shapes |= {weight.name: list(weight.dims) for weight in graph.initializer}
    count = 0
    for node in graph.node:
        if node.op_type in ("MatMul", "Gemm"):
            count += 2 * math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        elif node.op_type == "Conv":
            # The kernel's shape is output channels, input channels of a group, extents.
            count += 2 * math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
    return count


def session(path: pathlib.Path) -> onnxruntime.InferenceSession:
    """With the host's options."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs(of: onnxruntime.InferenceSession, rows: int) -> dict[str, np.ndarray]:
    """Ones; extents that are free but for the first are tokens."""
    types = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    return {
        value.name: np.ones(
            [rows] + [extent if isinstance(extent, int) else TOKENS for extent in value.shape[1:]], types[value.type]
        )
        for value in of.get_inputs()
    }


def main() -> None:
    """Prints the rate of the product, then the table."""
    batches = [int(argument) for argument in sys.argv[1:]] or [1, 2, 4, 8, 16]
    square = np.random.default_rng(1).random((SIZE, SIZE), np.float32)
    places = [np.empty_like(square) for _ in range(CORES)]
    product = [lambda place=place: np.dot(square, square, out=place) for place in places]
    print(f"{CORES} cores; products of {SIZE} × {SIZE} matrices: {rate(product, 2 * SIZE**3) / 1e9:.0f} GFLOP/s")
    print("model    batch   rows/s   × first   GFLOP/s")
    for name in ("encoder", "image"):
        path = FOLDER / f"{name}.onnx"
        flops, sessions, first = operations(onnx.load(path)), [session(path) for _ in range(CORES)], 0.0
        for rows in batches:
            given = inputs(sessions[0], rows)
            got = rate([lambda one=one: one.run(None, given) for one in sessions], rows)
            first = first or got
            print(f"{name:8} {rows:5} {got:8.1f} {got / first:9.2f} {got * flops / 1e9:9.0f}", flush=True)


if __name__ == "__main__":
    main()
