#!/usr/bin/env bash
# Builds the runtime of handlers in JavaScript on QuickJS, guest-sdk/quickjs, to target/components/engine/quickjs.wasm, by Zig's
# compiler. QuickJS itself (quickjs-ng) comes from crates.io, with the sources of the crate `rquickjs-sys`. Does nothing while the
# module is newer than its sources.
. "$(dirname "$0")/lib.sh"

SOURCE=guest-sdk/quickjs
OUT=target/components/engine/quickjs.wasm
WORK=$ROOT/target/quickjs
CRATE=rquickjs-sys
VERSION=0.14.0

newer_than "$OUT" "$SOURCE" scripts/build-quickjs.sh || exit 0
require_rust
scripts/zig.sh

# All that is there is linked, so nothing of former sources may be.
rm -f "$WORK"/*.o
# Cargo checks what it gets against the registry's checksum.
mkdir -p "$WORK/crate/src"
touch "$WORK/crate/src/lib.rs"
cat >"$WORK/crate/Cargo.toml" <<MANIFEST
[package]
name = "quickjs-sources"
version = "0.0.0"
edition = "2024"
[dependencies]
$CRATE = { version = "=$VERSION", default-features = false }
[workspace]
MANIFEST
engine=$(cargo metadata --format-version 1 --manifest-path "$WORK/crate/Cargo.toml" \
    | python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1]:
        print(os.path.join(os.path.dirname(package["manifest_path"]), "quickjs"))' "$CRATE")
[ -f "$engine/quickjs.c" ] || die "the crate $CRATE $VERSION has no quickjs/quickjs.c"

step "building the runtime of QuickJS (a minute)"
flags=(--target=wasm32-wasi -O3 -DNDEBUG -D_GNU_SOURCE -mcpu=generic+simd128+bulk_memory+nontrapping_fptoint+sign_ext -fno-sanitize=undefined)
compile() { # compile FILE [FLAG…]
    "$ROOT/target/tools/zig" cc "${flags[@]}" "${@:2}" -I"$engine" -c "$1" -o "$WORK/$(basename "$1" .c).o"
}
# For WASI the engine checks no depth of recursion, as the stack of machine code is not the module's. An instance ends there, where an
# error is due: so it is checked, and functions that take little of the module's stack for much of the other are made to take more.
python3 - "$engine/quickjs.c" "$WORK/quickjs.c" <<'PATCH'
import re, sys
text = open(sys.argv[1]).read()
limit = re.compile(r"(\nstatic void update_stack_limit\(JSRuntime \*rt\)\n\{\n#if )defined\(__wasi__\)")
text, found = limit.subn(r"\g<1>0", text)
for name, room in [("js_parse_assign_expr2", 768), ("json_parse_value", 128), ("js_json_to_str", 128)]:
    start = re.compile(r"(\nstatic [^;{}]*\b" + name + r"\([^;{}]*\)\n\{)")
    text, count = start.subn(r'\g<1> char room[%d]; __asm__ volatile("" : : "r"(room));' % room, text)
    found += count
if found != 4:
    sys.exit("error: quickjs.c is not the one that this script knows")
open(sys.argv[2], "w").write(text)
PATCH
compile "$WORK/quickjs.c" -w
for file in dtoa libregexp libunicode; do compile "$engine/$file.c" -w; done
for file in "$SOURCE"/*.c; do compile "$file" -std=gnu23 -Wall -Wextra -Werror; done
"$ROOT/target/tools/zig" cc "${flags[@]}" -mexec-model=reactor "$WORK"/*.o -Wl,--strip-all -Wl,-z,stack-size=1048576 \
    -Wl,--export=frame -Wl,--gc-sections -o "$WORK/quickjs.wasm"
mkdir -p "$(dirname "$OUT")"
publish "$WORK/quickjs.wasm" "$OUT"
publish "$engine/LICENSE" "$(dirname "$OUT")/quickjs.LICENSE"
touch "$OUT"
