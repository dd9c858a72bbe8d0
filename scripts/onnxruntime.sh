#!/usr/bin/env bash
# Brings ONNX Runtime's shared library to the place where the host looks for it:
# ${XDG_DATA_HOME:-~/.local/share}/modelhost/lib. In: PyPI's `onnxruntime` wheel, of which the one library is taken.
# Out: libonnxruntime.so.VERSION (Linux) or libonnxruntime.VERSION.dylib (macOS).
# `--force` fetches it again.
. "$(dirname "$0")/lib.sh"

VERSION=1.31.1
PLACE=${XDG_DATA_HOME:-$HOME/.local/share}/modelhost/lib

case $(uname -s) in
    Linux) LIBRARY=libonnxruntime.so.$VERSION ;;
    Darwin) LIBRARY=libonnxruntime.$VERSION.dylib ;;
    *) die "no ONNX Runtime library is known for $(uname -s)" "point ORT_DYLIB_PATH at one of version $VERSION" ;;
esac

if [ "${1:-}" != --force ]; then
    if [ -n "${ORT_DYLIB_PATH:-}" ]; then
        # The host prefers this path to the one below; a wrong one would only show at start.
        [ -e "$ORT_DYLIB_PATH" ] || die "ORT_DYLIB_PATH points at nothing: $ORT_DYLIB_PATH" "unset ORT_DYLIB_PATH"
        exit 0
    fi
    if [ -s "$PLACE/$LIBRARY" ]; then exit 0; fi
fi

require_venv
step "fetching ONNX Runtime $VERSION from PyPI (about 20 MB)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The library is the same in the wheel of every Python version, so a Python that is too old or too new for this
# release takes the one for 3.12.
fetch() {
    "$VENV/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --dest "$scratch" "$@" "onnxruntime==$VERSION" >&2
}
fetch || fetch --python-version 3.12 || die "pip could not download onnxruntime $VERSION" \
    "$VENV/bin/python -m pip download --no-deps onnxruntime==$VERSION" \
    "or put $LIBRARY into $PLACE, or point ORT_DYLIB_PATH at it"

python3 - "$scratch" "$LIBRARY" <<'PY' || die "the onnxruntime wheel holds no $LIBRARY"
"""Takes one library out of the wheel in a directory."""
import pathlib, sys, zipfile

place, library = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
    member = next(name for name in wheel.namelist() if name.endswith("/" + library))
    (place / library).write_bytes(wheel.read(member))
PY
mkdir -p "$PLACE"
mv -f "$scratch/$LIBRARY" "$PLACE/.$LIBRARY.$$"
mv -f "$PLACE/.$LIBRARY.$$" "$PLACE/$LIBRARY"
note "$PLACE/$LIBRARY"
