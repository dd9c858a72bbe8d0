#!/usr/bin/env bash
# Builds target/dist/BIN as it is shipped: all crates optimised as one, and by a profile of its own. In: the name of a
# program of the workspace, then the command that exercises it, which gets the path of the program to start as its last
# argument. Out: target/dist/BIN, and the counts of the run beside it, target/dist/BIN.profdata.
#
# With PROFILE=FILE the counts are those of an earlier run, and one build is all: a release keeps them with its sources. Cargo
# makes the folder of the sources part of functions' names, so they count in a folder of the same path.
#
# Otherwise it takes three steps: the program is built so that it counts which way its code goes; the command makes it serve; it is built again
# with the counts, which tell the compiler what to lay out together and what to put out of the way. A profile is made anew
# when the program that counts has changed.
. "$(dirname "$0")/lib.sh"

[ $# -ge 2 ] || die "usage: scripts/dist.sh BIN COMMAND…"
BIN=$1
shift
# Given a target, cargo keeps the flags away from what runs at build time.
TARGET=$(rustc -vV | sed -n 's/^host: //p')
PROFILES=$ROOT/target/pgo/profiles/$BIN
MERGED=$PROFILES.profdata
export CARGO_TARGET_DIR=$ROOT/target/pgo
BUILT=$CARGO_TARGET_DIR/$TARGET/dist/$BIN

PROFDATA=$(rustc --print sysroot)/lib/rustlib/$TARGET/bin/llvm-profdata
[ -x "$PROFDATA" ] || { have rustup && limited 300 rustup component add llvm-tools </dev/null >&2; } || die \
    "llvm-profdata is not installed" "rustup component add llvm-tools"

# build FLAGS: the program, with the features that the whole workspace agrees on. Both builds need the same settings but for
# FLAGS: names of functions, by which counts are found, depend on them.
build() { RUSTFLAGS=$1 cargo build --profile dist --workspace --bin "$BIN" --target "$TARGET" </dev/null; }

if [ -n "${PROFILE:-}" ]; then
    [ -s "$PROFILE" ] || die "PROFILE names no file: $PROFILE" "it is the target/dist/$BIN.profdata of an earlier \`make dist\`"
    MERGED=$(realpath "$PROFILE")
else
    step "building a $BIN that counts (the first time takes a quarter of an hour)"
    # Without a place for the counts, which the run names: so programs share what they have in common.
    build "-Cprofile-generate --cfg profiling"
    COUNTING=$PROFILES/$BIN
    if [ ! -s "$MERGED" ] || ! cmp -s "$BUILT" "$COUNTING"; then
        rm -rf "$PROFILES" "$MERGED"
        mkdir -p "$PROFILES"
        cp "$BUILT" "$COUNTING"
        step "exercising it (a minute)"
        LLVM_PROFILE_FILE=$PROFILES/%p.profraw "$@" "$COUNTING"
        "$PROFDATA" merge -o "$MERGED" "$PROFILES"/*.profraw ||
            die "$COUNTING has left no counts: does it end in order?"
    fi
    publish "$MERGED" "$ROOT/target/dist/$BIN.profdata"
fi
step "building target/dist/$BIN with what was counted (as long again)"
build "-Cprofile-use=$MERGED"
publish "$BUILT" "$ROOT/target/dist/$BIN"
if [ "$BIN" = host ]; then ln -f "$ROOT/target/dist/host" "$ROOT/target/dist/modelhost"; fi
