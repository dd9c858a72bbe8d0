#!/usr/bin/env bash
# Installs the testers of the OpenAPI document: tests/clients/openapi.txt into target/openapi, an environment of its own, for
# their dependencies do not agree with those of the clients; and the linter, tests/clients/redocly, into target/redocly. Does
# nothing for what is there.
. "$(dirname "$0")/lib.sh"

WANTED=tests/clients/openapi.txt
TESTERS=$ROOT/target/openapi
LINTER=$ROOT/target/redocly

npm_install tests/clients/redocly/package.json "$LINTER"
# The linter is started by the name `node`.
ln -sf "$(command -v node)" "$LINTER/node_modules/.bin/node"

if cmp -s "$WANTED" "$TESTERS/installed.txt"; then exit 0; fi
require_venv
step "installing the testers of the OpenAPI document from PyPI into target/openapi (about a minute)"
rm -rf "$TESTERS"
python3 -m venv "$TESTERS" >&2
"$TESTERS/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$WANTED" </dev/null >&2 || die \
    "pip could not install the testers of the OpenAPI document" \
    "$TESTERS/bin/python -m pip install --requirement $WANTED"
cp "$WANTED" "$TESTERS/installed.txt"
