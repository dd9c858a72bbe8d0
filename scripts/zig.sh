#!/usr/bin/env bash
# Installs Zig from PyPI, with which handlers in C, C++ and Zig are built, into target/venv, and names it target/tools/zig.
# Does nothing if it is there.
. "$(dirname "$0")/lib.sh"

pip_install ziglang 0.16.0
zig=$("$VENV/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
mkdir -p target/tools
ln -sfn "$zig" target/tools/zig
