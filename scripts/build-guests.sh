#!/usr/bin/env bash
# Builds the Rust handlers to components: every handler under examples/ to target/components/NAME.wasm, the libraries for handlers
# (guest-sdk/library, examples/*-library) to target/components/library/NAME.wasm, the tests' guests (the examples of tests/guests) to
# target/components/tests/NAME.wasm. In: `examples`, `libraries` and `tests` as arguments say which; all without any.
# Cargo decides what is out of date; a component that came out the same is left untouched.
. "$(dirname "$0")/lib.sh"
. scripts/guest-toolchain.sh

[ $# -gt 0 ] || set -- examples libraries tests
require_guest_toolchain

# build DESTINATION KIND CARGO_ARGUMENT…: builds the cdylibs of KIND (`lib` or `example`) and publishes them.
build() {
    local destination=$1 kind=$2 name file
    shift 2
    # Two compilers must not share a directory: each would throw the other's work away.
    local directory=$ROOT/target/guests$GUEST_WAY
    local messages=$ROOT/target/guests-messages.$$.json
    mkdir -p "$ROOT/target"
    # shellcheck disable=SC2064 # The name is fixed now; it is a local.
    trap "rm -f '$messages'" EXIT
    # ${array[@]+…}: bash before 4.4 (macOS) calls an empty array unset.
    env "${GUEST_ENV[@]}" cargo build --profile guest --target "$GUEST_TARGET" \
        --target-dir "$directory" --message-format json-render-diagnostics \
        ${GUEST_ARGS[@]+"${GUEST_ARGS[@]}"} "$@" </dev/null >"$messages"
    python3 scripts/list-components.py "$kind" <"$messages" | while IFS=$'\t' read -r name file; do
        publish "$file" "$destination/$name.wasm"
    done
}

# A guest that no test and no benchmark names is not compiled: what it shows would never be looked at.
require_tests() {
    local file name
    for file in tests/guests/examples/*.rs tests/guests/wat/*.wat; do
        name=$(basename "${file%.*}")
        grep -rqE "(tests/|guest\(\"|assembled(_with)?\(\"|application\([A-Z]+, \")$name\"|wat/$name\.wat" tests/it tests/bench host/src \
            || die "no test names the guest $file" "name it in a file of tests/it, or delete it"
    done
}

for what in "$@"; do
    case $what in
        examples)
            step "building the example handlers"
            packages=()
            for manifest in examples/*-wasm/Cargo.toml; do packages+=(-p "$(basename "$(dirname "$manifest")")"); done
            build "$COMPONENTS" lib --lib "${packages[@]}"
            ;;
        libraries)
            step "building the libraries for handlers"
            packages=()
            for manifest in {guest-sdk/library/*,examples/*-library}/Cargo.toml; do packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest")"); done
            build "$COMPONENTS/library" lib --lib "${packages[@]}"
            ;;
        tests)
            require_tests
            step "building the tests' guests"
            build "$TEST_COMPONENTS" example --examples -p guests
            ;;
        *) die "unknown argument \`$what\`" "scripts/build-guests.sh [examples] [libraries] [tests]" ;;
    esac
done
