#!/usr/bin/env bash
# Builds the Python guest of the tests, tests/guests-py/iris, to target/components/tests/iris_py.wasm, with componentize-py from
# PyPI. Does nothing while the component is newer than its sources. `--tools` only gets the tools.
. "$(dirname "$0")/lib.sh"

COMPONENTIZE_PY=0.25.0
SOURCE=tests/guests-py/iris
OUT=$TEST_COMPONENTS/iris_py.wasm

if [ "${1:-}" != --tools ]; then newer_than "$OUT" "$SOURCE" wit scripts/build-guests-py.sh || exit 0; fi
pip_install componentize-py "$COMPONENTIZE_PY"
if [ "${1:-}" = --tools ]; then exit 0; fi

step "building the Python guest (about 20 s)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$VENV/bin/componentize-py" --quiet --wit-path wit --world handler \
    componentize --python-path "$SOURCE" --output "$scratch/iris.wasm" iris </dev/null >&2 \
    || die "componentize-py could not build $SOURCE"
publish "$scratch/iris.wasm" "$OUT"
touch "$OUT"
