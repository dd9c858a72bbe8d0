#!/usr/bin/env bash
# Packs a built host: gets what compresses the wheel, then runs scripts/package.py with the same arguments.
. "$(dirname "$0")/lib.sh"

# libdeflate, whose best level makes a wheel 4 in a hundred smaller than zlib's.
pip_install deflate 0.9.0
exec "$VENV/bin/python" scripts/package.py "$@"
