#!/usr/bin/env bash
# Makes the models of the larger workloads, a request for each and its answer: target/bench/NAME.onnx, .body and .json,
# when they are missing or older than their script. For `make bench` and `make gpu-check`.
. "$(dirname "$0")/lib.sh"

# What the models are written with, and what says how they have to answer.
ONNX=1.23.2
NUMPY=2.4.6
ONNXRUNTIME=1.31.1

MODELS=$ROOT/target/bench

# image.onnx is written last.
if newer_than "$MODELS/image.onnx" tests/bench/models.py; then
    pip_install numpy "$NUMPY"
    pip_install onnx "$ONNX"
    pip_install onnxruntime "$ONNXRUNTIME"
    step "making the models of the larger workloads in target/bench (about 140 MB)"
    "$VENV/bin/python" tests/bench/models.py "$MODELS" </dev/null >&2
fi
