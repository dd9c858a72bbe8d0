#!/usr/bin/env bash
# Measures the host against the native ceiling; run by `make bench`, which builds the host and the components. Makes the
# models of the larger workloads, target/bench/NAME.onnx, when they are missing or older than their script. Arguments
# go to tests/bench/run.py.
. "$(dirname "$0")/lib.sh"

# What the models are written with, and what says how they have to answer.
ONNX=1.23.2
NUMPY=2.4.6
ONNXRUNTIME=1.31.1

MODELS=$ROOT/target/bench

have wrk || apt_install wrk || die "wrk, the load generator, is not installed" \
    "Debian: sudo apt-get install wrk" "macOS: brew install wrk"
# image.onnx is written last.
if newer_than "$MODELS/image.onnx" tests/bench/models.py; then
    pip_install numpy "$NUMPY"
    pip_install onnx "$ONNX"
    pip_install onnxruntime "$ONNXRUNTIME"
    step "making the models of the larger workloads in target/bench (about 140 MB)"
    "$VENV/bin/python" tests/bench/models.py "$MODELS" </dev/null >&2
fi
# With a profile of its own, as the host has one.
scripts/dist.sh ceiling python3 tests/bench/exercise.py
exec python3 tests/bench/run.py "$@"
