#!/usr/bin/env bash
# Keeps components of a release: builds guests against the contract as it is in wit/ and puts them into tests/compatibility/VERSION,
# which every later host is tested against (tests/it/compatibility.rs). Run once for each version of the contract, before it is
# released. In: target/release/host. Out: the components; what each is asked, and answers, is a file of JSON beside it, copied from
# the version before where there is one.
#
# Rust, C and Zig: an interpreter's component is 13 MB and more, and speaks the contract by the same generated code each time.
. "$(dirname "$0")/lib.sh"
. scripts/guest-toolchain.sh

# The tests' guests that are kept, between them every interface of the contract; the others are the template `iris`.
GUESTS=(tensors greet responder batch asked models kv jobs metrics socket)
LANGUAGES=(rust c zig)

version=$(sed -n 's/^package modelhost:handler@\(.*\);$/\1/p' wit/types.wit)
folder=tests/compatibility/$version
host=$ROOT/target/release/host
[ -x "$host" ] || die "the host is not built" "make host"
if ls "$folder"/*.wasm >/dev/null 2>&1; then
    die "$folder has components already, and what is released never changes" "for a version that is not released yet: rm $folder/*.wasm"
fi
require_guest_toolchain
mkdir -p "$folder"
previous=$(find tests/compatibility -mindepth 1 -maxdepth 1 -type d ! -name "$version" | sort -V | tail -1)

# keep FILE NAME
keep() {
    cp "$1" "$folder/$2.wasm"
    if [ ! -e "$folder/$2.json" ] && [ -n "$previous" ]; then cp "$previous/$2.json" "$folder/$2.json"; fi
    [ -e "$folder/$2.json" ] || note "write $folder/$2.json: what it is asked, and what it answers"
}

step "building small guests against $version of the contract"
messages=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$messages" "$work"' EXIT
# What is kept says nothing of the machine that built it.
flags="$GUEST_FLAGS --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=registry --remap-path-prefix=$ROOT=."
env "${GUEST_ENV[@]/"$GUEST_FLAGS"/"$flags"}" cargo build --profile guest --target "$GUEST_TARGET" --target-dir "$ROOT/target/guests-small$GUEST_WAY" \
    --config 'profile.guest.opt-level="s"' --config 'profile.guest.strip=true' --message-format json-render-diagnostics \
    ${GUEST_ARGS[@]+"${GUEST_ARGS[@]}"} -p guests "${GUESTS[@]/#/--example=}" </dev/null >"$messages"
python3 scripts/list-components.py example <"$messages" | while IFS=$'\t' read -r name file; do keep "$file" "$name"; done

scripts/zig.sh
export PATH=$ROOT/target/tools:$PATH
for language in "${LANGUAGES[@]}"; do
    step "building the template iris in $language"
    (cd "$work" && "$host" new "iris-$language" --lang "$language" && "$host" build "iris-$language") >&2
    keep "$work/iris-$language/handler.wasm" "iris_$language"
done
ls -l "$folder" >&2
