#!/usr/bin/env bash
# Installs the clients that the tests drive against the host, tests/clients/requirements.txt, into target/clients: an
# environment of its own, for their dependencies do not agree with those of the guests' tools. Does nothing if they are there.
. "$(dirname "$0")/lib.sh"

WANTED=tests/clients/requirements.txt
CLIENTS=$ROOT/target/clients

if cmp -s "$WANTED" "$CLIENTS/installed.txt"; then exit 0; fi
require_venv
step "installing the clients of the tests from PyPI into target/clients (about a minute)"
rm -rf "$CLIENTS"
python3 -m venv "$CLIENTS" >&2
"$CLIENTS/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$WANTED" </dev/null >&2 || die \
    "pip could not install the clients of the tests" "$CLIENTS/bin/python -m pip install --requirement $WANTED"
cp "$WANTED" "$CLIENTS/installed.txt"
