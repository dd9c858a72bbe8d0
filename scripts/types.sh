#!/usr/bin/env bash
# Installs the checkers of types in Python: tests/clients/types.txt into target/types, and tests/clients/pyright into
# target/pyright. Does nothing for what is there.
. "$(dirname "$0")/lib.sh"

WANTED=tests/clients/types.txt
CHECKER=$ROOT/target/types

npm_install tests/clients/pyright/package.json "$ROOT/target/pyright"
# The checker is started by the name `node`.
ln -sf "$(command -v node)" "$ROOT/target/pyright/node_modules/.bin/node"

if cmp -s "$WANTED" "$CHECKER/installed.txt"; then exit 0; fi
require_venv
step "installing the checker of types from PyPI into target/types (seconds)"
rm -rf "$CHECKER"
python3 -m venv "$CHECKER" >&2
"$CHECKER/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$WANTED" </dev/null >&2 || die \
    "pip could not install the checker of types" \
    "$CHECKER/bin/python -m pip install --requirement $WANTED"
cp "$WANTED" "$CHECKER/installed.txt"
