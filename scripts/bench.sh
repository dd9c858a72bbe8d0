#!/usr/bin/env bash
# Measures the host against the native ceiling; run by `make bench`, which builds the host and the components. Arguments go to
# tests/bench/run.py.
. "$(dirname "$0")/lib.sh"

have wrk || apt_install wrk || die "wrk, the load generator, is not installed" \
    "Debian: sudo apt-get install wrk" "macOS: brew install wrk"
step "building the native ceiling"
# `--workspace` as in the Makefile: with the features that the dependencies are already compiled with.
cargo build --release --workspace --bins </dev/null
exec python3 tests/bench/run.py "$@"
