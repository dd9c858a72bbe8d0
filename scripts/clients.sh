#!/usr/bin/env bash
# Installs the programs of others that the tests drive against the host: the field's clients, tests/clients/requirements.txt,
# into target/clients, and the testers of its OpenAPI document, tests/clients/openapi.txt, into target/openapi. Environments of
# their own, for their dependencies agree neither with each other nor with those of the guests' tools. Does nothing if they are there.
. "$(dirname "$0")/lib.sh"

# install LIST ENVIRONMENT WHAT
install() {
    if cmp -s "$1" "$2/installed.txt"; then return; fi
    require_venv
    step "installing $3 from PyPI into ${2#"$ROOT"/} (about a minute)"
    rm -rf "$2"
    python3 -m venv "$2" >&2
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$1" </dev/null >&2 || die \
        "pip could not install $3" "$2/bin/python -m pip install --requirement $1"
    cp "$1" "$2/installed.txt"
}

install tests/clients/requirements.txt "$ROOT/target/clients" "the clients of the tests"
install tests/clients/openapi.txt "$ROOT/target/openapi" "the testers of the OpenAPI document"
