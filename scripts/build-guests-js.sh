#!/usr/bin/env bash
# Builds the JavaScript guests of the tests, tests/guests-js/iris and application, to target/components/tests/iris_js.wasm
# and application_js.wasm. Does nothing while the last component is newer than its sources. `--tools` only gets the tools.
#
# The engine is SpiderMonkey. QuickJS (jco's `--backend quickjs`) makes a component of an eighth of the size, ten times faster
# a call, but componentize-qjs 0.4.5 gives the borrowed `context` back only after the call, which the component model
# forbids: every call traps with "borrow handles still remain at the end of the call".
. "$(dirname "$0")/lib.sh"

SOURCE=tests/guests-js
IRIS=$TEST_COMPONENTS/iris_js.wasm
OUT=$TEST_COMPONENTS/application_js.wasm
WORK=$ROOT/target/guests-js

if [ "${1:-}" != --tools ]; then newer_than "$OUT" "$SOURCE" wit scripts/build-guests-js.sh || exit 0; fi
require_rust

npm_install "$SOURCE/package.json" "$WORK"

if [ "${1:-}" = --tools ]; then exit 0; fi

step "building the JavaScript guests (about 40 s)"
# WASI's interfaces come from the wasmtime that the host is built with.
wasi=$(wasmtime_wit wasmtime-wasi)/src/p2/wit/deps
rm -rf "$WORK/wit"
mkdir -p "$WORK/wit/deps/modelhost"
cp "$SOURCE/iris/world.wit" "$WORK/wit"
cp wit/*.wit "$WORK/wit/deps/modelhost"
cp -r wit/deps/blobstore "$WORK/wit/deps"
for package in io clocks filesystem; do
    mkdir "$WORK/wit/deps/$package"
    cp "$wasi/$package.wit" "$WORK/wit/deps/$package"
done
# Without http and fetch-event the component imports no network.
"$WORK/node_modules/.bin/jco" componentize "$SOURCE/iris/iris.js" --wit "$WORK/wit" --world-name iris \
    --disable http fetch-event --out "$WORK/iris.wasm" </dev/null >"$WORK/log" 2>&1 \
    || { cat "$WORK/log" >&2; die "jco could not build $SOURCE/iris"; }
publish "$WORK/iris.wasm" "$IRIS"

# StarlingMonkey has WASI in a version of its own, and no sockets.
rm -rf "$WORK/wit"
mkdir -p "$WORK/wit/deps"
cp "$SOURCE/application/world.wit" "$WORK/wit"
for package in cli clocks filesystem http io random; do
    sed -e '/wasi:sockets/d' -e 's/0\.2\.1[1-9]/0.2.10/g' \
        "$(wasmtime_wit wasmtime-wasi-http)/wit/deps/$package.wit" >"$WORK/wit/deps/$package.wit"
done
"$WORK/node_modules/.bin/jco" componentize "$SOURCE/application/app.js" --wit "$WORK/wit" --world-name application \
    --out "$WORK/application.wasm" </dev/null >"$WORK/log" 2>&1 \
    || { cat "$WORK/log" >&2; die "jco could not build $SOURCE/application"; }
publish "$WORK/application.wasm" "$OUT"
touch "$OUT"
