#!/usr/bin/env bash
# Builds the unit tests in a folder and runs them: `tests/run.sh FOLDER`. By Zig's compiler; with
# `CC="gcc -fsanitize=address"` it looks for leaks too. `CXX="zig c++"` tests the wrappers in C++ as well, for
# which Zig builds its library, once, in minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=$1
FLAGS="-Wall -Wextra -Werror -fsanitize=undefined -Iinclude"

# All but what needs a request of the host.
for source in src/*.c tests/*.c; do
    case $source in src/app.c | src/contract.c) continue ;; esac
    # shellcheck disable=SC2086
    ${CC:-zig cc} -std=c17 $FLAGS -c "$source" -o "$OUT/${source//\//-}.o"
done
for test in test kv jobs metrics blobs outbound socket form router; do
    own=("$OUT/tests-$test.c.o")
    for object in "$OUT"/src-*.o; do
        # Routes and batches ask for the request, which their own test stands in for.
        case $test-$object in
            router-*) ;;
            *-"$OUT"/src-router.c.o | *-"$OUT"/src-batch.c.o) continue ;;
        esac
        own+=("$object")
    done
    ${CC:-zig cc} -fsanitize=undefined "${own[@]}" -lm -o "$OUT/$test"
    "$OUT/$test"
done
if [ -n "${CXX:-}" ]; then
    # shellcheck disable=SC2046,SC2086
    $CXX -std=c++23 -fno-exceptions -fno-rtti $FLAGS tests/wrappers.cpp \
        $(ls "$OUT"/src-*.o | grep -v -e router -e batch) -lm -o "$OUT/wrappers"
    "$OUT/wrappers"
fi
