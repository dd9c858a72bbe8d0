#!/usr/bin/env bash
# Runs one binary of tests, as cargo's runner (`make test`), and says at its end which ten took longest. In: the binary and
# its arguments. Out: what the tests print, the exit code of the tests.
#
# libtest measures each test, where tests that run side by side cannot be told apart from outside, but does not say so
# without its unstable options. The variable unlocks them in the binary; with this value no compiler that a test starts
# takes it for leave to be unstable.
set -euo pipefail

# Examples in documentation are no binaries of cargo's.
case $1 in
    */deps/*) ;;
    *) exec "$@" ;;
esac
# Everything that the tests compile, about 2 GB: the default would make way for it, and interpreters be compiled again.
export MODELHOST_CACHE_SIZE=8GiB
# `make lint`'s compiler is not that of the projects that the tests build.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
code=0
RUSTC_BOOTSTRAP=-1 "$@" -Z unstable-options --report-time | tee "$printed" || code=$?
# test NAME ... ok <1.234s>
sed -nE 's/^test (.*) \.\.\. [a-zA-Z]+ <([0-9.]+)s>$/\2 \1/p' "$printed" | sort -rn \
    | awk 'NR == 1 { print "slowest:" } NR <= 10 { printf "%8.1f s  %s\n", $1, $2 }'
exit $code
