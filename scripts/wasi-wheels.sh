#!/usr/bin/env bash
# Builds wheels of packages with native code for handlers in Python, numpy among them, to target/wasi-wheels: those that are named,
# those of the tests (`--tests`), or all that guest-sdk/python/wasi/recipes.toml has. Does nothing for wheels that are there. numpy
# takes two minutes of both cores, Pillow one. `--numpy-tests [FOLDER…]` runs numpy's own tests in a component's Python instead.
. "$(dirname "$0")/lib.sh"

if [ "${1:-}" = --tests ]; then set -- numpy pillow markupsafe pyyaml regex msgpack; fi

scripts/zig.sh
scripts/build-guests-py.sh --tools
pip_install zstandard 0.25.0
pip_install Cython 3.3.1
pip_install ninja 1.13.2
have dpkg-deb || die "the headers of Python come from a package of Debian's, and dpkg-deb is not installed"

if [ "${1:-}" = --numpy-tests ]; then
    shift
    PYTHONDONTWRITEBYTECODE=1 exec nice -n 5 "$VENV/bin/python" guest-sdk/python/wasi/numpy_tests.py target/wasi-wheels target/wasi/numpy-tests "$@"
fi
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/scripts nice -n 5 "$VENV/bin/python" guest-sdk/python/wasi/build.py \
    "$(readlink -f target/tools/zig)" target/wasi-wheels target/wasi "$@" || die "the wheels for handlers could not be built"
