#!/usr/bin/env bash
# Builds the Python guests of the tests, tests/guests-py/{iris,apps,concurrent,application}, to target/components/tests/NAME_py.wasm,
# with componentize-py from PyPI. Does nothing while the last component is newer than its sources. `--tools` only gets the tools.
. "$(dirname "$0")/lib.sh"

COMPONENTIZE_PY=0.25.0
SOURCE=tests/guests-py
OUT=$TEST_COMPONENTS/application_py.wasm

if [ "${1:-}" != --tools ]; then newer_than "$OUT" "$SOURCE" wit scripts/build-guests-py.sh || exit 0; fi
pip_install componentize-py "$COMPONENTIZE_PY"
if [ "${1:-}" = --tools ]; then exit 0; fi

step "building the Python guests (about a minute)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$VENV/bin/componentize-py" --quiet --wit-path wit --world handler \
    componentize --python-path "$SOURCE/iris" --output "$scratch/iris.wasm" iris </dev/null >&2 \
    || die "componentize-py could not build $SOURCE/iris"
publish "$scratch/iris.wasm" "$TEST_COMPONENTS/iris_py.wasm"
# WASI's interfaces come from the wasmtime that the host is built with.
wasi=$(wasmtime_wit wasmtime-wasi-http)/wit/deps
mkdir -p "$scratch/wit/deps/modelhost"
cp "$SOURCE/apps/world.wit" "$scratch/wit"
cp wit/*.wit "$scratch/wit/deps/modelhost"
cp -r wit/deps/blobstore "$scratch/wit/deps"
for package in cli clocks filesystem http io random sockets; do cp "$wasi/$package.wit" "$scratch/wit/deps"; done
"$VENV/bin/componentize-py" --quiet --wit-path "$scratch/wit" --world python-application \
    componentize --python-path "$SOURCE/apps" --output "$scratch/apps.wasm" app </dev/null >&2 \
    || die "componentize-py could not build $SOURCE/apps"
publish "$scratch/apps.wasm" "$TEST_COMPONENTS/apps_py.wasm"
"$VENV/bin/componentize-py" --quiet --wit-path "$(wasmtime_wit wasmtime-wasi-http)/src/p3/wit" --world wasi:http/service@0.3.0 \
    componentize --python-path "$SOURCE/concurrent" --output "$scratch/concurrent.wasm" app </dev/null >&2 \
    || die "componentize-py could not build $SOURCE/concurrent"
publish "$scratch/concurrent.wasm" "$TEST_COMPONENTS/concurrent_py.wasm"
"$VENV/bin/componentize-py" --quiet --wit-path "$(wasmtime_wit wasmtime-wasi-http)/wit" --world wasi:http/proxy@0.2.12 \
    componentize --python-path "$SOURCE/application" --output "$scratch/application.wasm" app </dev/null >&2 \
    || die "componentize-py could not build $SOURCE/application"
publish "$scratch/application.wasm" "$OUT"
touch "$OUT"
