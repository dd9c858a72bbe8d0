#!/usr/bin/env bash
# Measures the host against the native ceiling; run by `make bench`, which builds the host and the components. Arguments
# go to tests/bench/run.py.
. "$(dirname "$0")/lib.sh"

have wrk || apt_install wrk || die "wrk, the load generator, is not installed" \
    "Debian: sudo apt-get install wrk" "macOS: brew install wrk"
scripts/bench-models.sh
# With a profile of its own, as the host has one.
scripts/dist.sh ceiling python3 tests/bench/exercise.py
exec python3 tests/bench/run.py "$@"
