#!/usr/bin/env bash
# Measures the host beside FastAPI, LitServe, BentoML and Triton's Python backend; run by `make peers`, which builds the
# host. Installs each of them from PyPI into an environment of its own, target/peers/NAME. Arguments go to
# tests/bench/peers.py.
. "$(dirname "$0")/lib.sh"

PEERS=$ROOT/target/peers

have wrk || apt_install wrk || die "wrk, the load generator, is not installed" \
    "Debian: sudo apt-get install wrk" "macOS: brew install wrk"
require_venv
for wanted in tests/bench/peers/*.txt; do
    name=$(basename "$wanted" .txt)
    if cmp -s "$wanted" "$PEERS/$name/installed.txt"; then continue; fi
    step "installing $name from PyPI into target/peers/$name"
    rm -rf "${PEERS:?}/$name"
    mkdir -p "$PEERS"
    python3 -m venv "$PEERS/$name" >&2
    "$PEERS/$name/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted" </dev/null >&2 || die \
        "pip could not install $name" "$PEERS/$name/bin/python -m pip install --requirement $wanted"
    cp "$wanted" "$PEERS/$name/installed.txt"
done
exec python3 tests/bench/peers.py "$@"
