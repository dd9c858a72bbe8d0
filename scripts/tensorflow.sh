#!/usr/bin/env bash
# Brings TensorFlow's C library to the place where the host looks for it when a SavedModel is to be loaded:
# ${XDG_DATA_HOME:-~/.local/share}/modelhost/lib/tensorflow. In: PyPI's TensorFlow wheel, of which two libraries are taken and,
# where `strip` is installed, freed of their symbol tables (855 MB become 635 MB). Out: that folder, complete or not there:
# the two libraries and `version`. `--force` fetches them again.
. "$(dirname "$0")/lib.sh"

VERSION=2.21.0
PLACE=${XDG_DATA_HOME:-$HOME/.local/share}/modelhost/lib
FOLDER=$PLACE/tensorflow

# The wheel named after the CPU is the smaller one, but it is made for one platform only; the other one is for the
# CPU as well on the two platforms below.
case $(uname -s)-$(uname -m) in
    Linux-x86_64) PACKAGE=tensorflow-cpu ;;
    Linux-aarch64 | Darwin-arm64) PACKAGE=tensorflow ;;
    *) die "no TensorFlow library is known for $(uname -sm)" "point MODELHOST_TENSORFLOW_LIB at a folder with one" ;;
esac
case $(uname -s) in
    Darwin) LIBRARIES=(libtensorflow_cc.2.dylib libtensorflow_framework.2.dylib) ;;
    *) LIBRARIES=(libtensorflow_cc.so.2 libtensorflow_framework.so.2) ;;
esac

if [ "${1:-}" != --force ]; then
    if [ -n "${MODELHOST_TENSORFLOW_LIB:-}" ]; then
        # The host prefers this folder to the one below; a wrong one would only show at start.
        [ -e "$MODELHOST_TENSORFLOW_LIB/${LIBRARIES[0]}" ] || die \
            "MODELHOST_TENSORFLOW_LIB names a folder without ${LIBRARIES[0]}: $MODELHOST_TENSORFLOW_LIB" \
            "unset MODELHOST_TENSORFLOW_LIB"
        exit 0
    fi
    # The folder was put there as a whole, so what its version says is true of the libraries.
    if [ "$(cat "$FOLDER/version" 2>/dev/null)" = "$VERSION" ]; then exit 0; fi
fi

require_venv
step "fetching TensorFlow $VERSION from PyPI (about 270 MB, for SavedModels)"
mkdir -p "$PLACE"
# Beside the destination and not in /tmp, which may be small, and from where a move is no rename.
scratch=$(mktemp -d "$PLACE/.tensorflow.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# The libraries are the same in the wheel of every Python version, so a Python that is too old or too new for this
# release takes the one for 3.12.
fetch() {
    "$VENV/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --no-cache-dir --dest "$scratch" "$@" "$PACKAGE==$VERSION" >&2
}
fetch || fetch --python-version 3.12 || die "pip could not download $PACKAGE $VERSION" \
    "$VENV/bin/python -m pip download --no-deps $PACKAGE==$VERSION" \
    "or put ${LIBRARIES[*]} into a folder and point MODELHOST_TENSORFLOW_LIB at it"

python3 - "$scratch" "${LIBRARIES[@]}" <<'PY' || die "the wheel of $PACKAGE $VERSION holds no ${LIBRARIES[*]}"
"""Takes libraries out of the wheel in a directory, into `lib` below it, and removes the wheel."""
import pathlib, shutil, sys, zipfile

place, libraries = pathlib.Path(sys.argv[1]), sys.argv[2:]
wheel = next(place.glob("*.whl"))
(place / "lib").mkdir()
with zipfile.ZipFile(wheel) as archive:
    for library in libraries:
        with archive.open(f"tensorflow/{library}") as source, open(place / "lib" / library, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
wheel.unlink()
PY
chmod 755 "$scratch/lib" "$scratch/lib"/*
# A macOS library carries a signature that stripping would break.
if [ "$(uname -s)" = Linux ] && have strip; then strip --strip-all "$scratch/lib"/*; fi
printf '%s\n' "$VERSION" >"$scratch/lib/version"
# A process that has the old libraries loaded keeps them: they are moved away and removed, never written to.
if [ -e "$FOLDER" ]; then mv "$FOLDER" "$scratch/old"; fi
mv "$scratch/lib" "$FOLDER"
note "$FOLDER"
