#!/usr/bin/env bash
# Fuzzes what reads bytes of strangers: fuzz.sh [TARGET [SECONDS]]; every target for a minute without arguments. Ends with the
# first finding, which stays in tests/fuzz/artifacts.
. "$(dirname "$0")/lib.sh"

require_rust
if ! cargo fuzz --version >/dev/null 2>&1; then
    step "installing cargo-fuzz (a minute)"
    cargo install --quiet --locked cargo-fuzz >&2 || die "cargo-fuzz could not be installed" "cargo install cargo-fuzz"
fi
# The coverage flags of the compiler are unstable; this admits them on a stable toolchain.
export RUSTC_BOOTSTRAP=1
unset CARGO_TARGET_DIR
seconds=${2:-60}
targets=${1:-$(cargo fuzz list --fuzz-dir tests/fuzz)}
for target in $targets; do
    step "fuzzing $target for $seconds s"
    seeds=tests/fuzz/seeds/$target
    mkdir -p "tests/fuzz/corpus/$target"
    # No sanitizer: the code is safe Rust, a finding is a panic, a hang or memory without bound.
    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none "$target" "tests/fuzz/corpus/$target" \
        ${seeds:+$([ -d "$seeds" ] && echo "$seeds")} -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 >&2
done
