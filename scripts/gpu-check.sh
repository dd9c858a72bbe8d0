#!/usr/bin/env bash
# All checks that need a GPU, and the measurements, in one go; run by `make gpu-check`.
#
#   gpu-check.sh [ARGUMENT…]        checks and measures; the arguments go to tests/bench/gpu.py
#   gpu-check.sh --pack FOLDER      on a machine without a GPU: builds, and puts everything that the check needs into
#                                   FOLDER, in parts of at most PART_SIZE (60M)
#   gpu-check.sh --unpack FOLDER    on the machine with the GPU: puts the parts into target/
#
# In:  a GPU that `nvidia-smi` lists, python3, wrk. ONNX Runtime for CUDA: ORT_DYLIB_PATH, or target/gpu, where pip puts
#      it. NVIDIA's libraries beside it, in target/gpu, in a Python environment's `nvidia` packages, or known to the system.
# Out: the tests' names, one table, and the exit status: 0 only if every answer of the GPU was the CPU's.
#
# A machine that was sent the packed parts needs neither a compiler nor a network.
. "$(dirname "$0")/lib.sh"

ONNXRUNTIME=1.31.1
GPU=$ROOT/target/gpu
TESTS=$GPU/it
PART_SIZE=${PART_SIZE:-60M}
# What the check runs and serves, below target/.
NEEDED=(release/host gpu/it bench/encoder.onnx bench/encoder.body bench/encoder.json bench/image.onnx bench/image.body
    bench/image.json components/tests/encoder.wasm components/tests/image.wasm
    components/tests/models.wasm)

# The library that `ORT_DYLIB_PATH` names, or that pip has put into target/gpu; empty without.
runtime() {
    if [ -n "${ORT_DYLIB_PATH:-}" ]; then
        echo "$ORT_DYLIB_PATH"
    else
        find "$GPU/onnxruntime/capi" -name 'libonnxruntime.so.*' 2>/dev/null | sort | tail -n 1
    fi
}

# fetch_runtime PACKAGE [OPTION…]: ONNX Runtime for CUDA, from PyPI into target/gpu.
fetch_runtime() {
    require_venv
    step "fetching $1 $ONNXRUNTIME from PyPI into target/gpu (with NVIDIA's libraries 1.6 GB)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: --upgrade \
        --target "$GPU" "${@:2}" "$1==$ONNXRUNTIME" >&2 || die "pip could not install $1 $ONNXRUNTIME" \
        "$VENV/bin/python -m pip install --target target/gpu '$1==$ONNXRUNTIME'" \
        "or point ORT_DYLIB_PATH at the libonnxruntime.so.1.x of an onnxruntime-gpu package"
}

# Builds what NEEDED names, as far as this machine can.
build() {
    require_rust
    make --no-print-directory build
    scripts/bench-models.sh
    step "building the tests"
    local made
    made=$(cargo test --release --workspace --no-run --message-format json 2>/dev/null </dev/null |
        python3 -c '
import json, sys
found = [m["executable"] for m in map(json.loads, sys.stdin)
         if m.get("reason") == "compiler-artifact" and m["target"]["name"] == "it" and m.get("executable")]
print(found[-1] if found else "")')
    [ -n "$made" ] || die "the tests do not build" "cargo test --release --workspace --no-run"
    mkdir -p "$GPU"
    cp -f "$made" "$TESTS"
}

pack() {
    local folder=$1 scratch
    build
    # Only the runtime itself: NVIDIA's libraries are larger and may be there already.
    [ -n "$(runtime)" ] || fetch_runtime onnxruntime-gpu --no-deps
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder's name as it is now.
    trap "rm -rf '$scratch'" EXIT
    step "packing"
    for path in "${NEEDED[@]}"; do
        mkdir -p "$scratch/$(dirname "$path")"
        cp -f "target/$path" "$scratch/$path"
    done
    strip "$scratch/release/host" "$scratch/gpu/it"
    # The main library, under its own name, and those that it opens for CUDA.
    mkdir -p "$scratch/gpu/onnxruntime/capi" "$scratch/gpu/wrk"
    cp -fL "$(runtime)" "$(dirname "$(runtime)")"/libonnxruntime_providers_{shared,cuda}.so "$scratch/gpu/onnxruntime/capi/"
    # The load generator with what it links to besides the C library, which nothing else there shall see.
    cp -fL "$(command -v wrk)" "$scratch/gpu/wrk/wrk.bin"
    ldd "$(command -v wrk)" | awk '$3 ~ /(luajit|ssl|crypto)/ { print $3 }' | xargs -I{} cp -fL {} "$scratch/gpu/wrk/"
    printf '#!/bin/sh\nhere=$(dirname "$0")\nLD_LIBRARY_PATH=$here exec "$here/wrk.bin" "$@"\n' >"$scratch/gpu/wrk/wrk"
    chmod +x "$scratch/gpu/wrk/wrk"
    mkdir -p "$folder"
    rm -f "$folder"/gpu-check.*
    tar -C "$scratch" -cz . | split -b "$PART_SIZE" - "$folder/gpu-check."
    du -h "$folder"/gpu-check.* >&2
    note "send this source tree and the parts, then there: scripts/gpu-check.sh --unpack FOLDER && scripts/gpu-check.sh"
}

unpack() {
    mkdir -p target
    cat "$1"/gpu-check.* | tar -C target -xz
}

case ${1:-} in
    --pack) pack "${2:?--pack needs a folder}" && exit ;;
    --unpack) unpack "${2:?--unpack needs a folder}" && exit ;;
esac

have nvidia-smi || die "there is no NVIDIA driver: nvidia-smi is not installed" "run this on a machine with a GPU"
nvidia-smi --list-gpus | grep -q '^GPU ' || die "there is no GPU" "nvidia-smi --list-gpus has to list one"
nvidia-smi --list-gpus >&2

PATH=$GPU/wrk:$PATH
missing=()
for path in "${NEEDED[@]}"; do [ -e "target/$path" ] || missing+=("target/$path"); done
if [ ${#missing[@]} -gt 0 ]; then
    have cargo || die "not built: ${missing[*]}" "install Rust from https://rustup.rs" \
        "or build on another machine: scripts/gpu-check.sh --pack FOLDER"
    build
fi
have wrk || apt_install wrk || die "wrk, the load generator, is not installed" "Debian: sudo apt-get install wrk"
[ -n "$(runtime)" ] || fetch_runtime 'onnxruntime-gpu[cuda,cudnn]'
ORT_DYLIB_PATH=$(realpath "$(runtime)")
[ -e "$(dirname "$ORT_DYLIB_PATH")/libonnxruntime_providers_cuda.so" ] || die \
    "$ORT_DYLIB_PATH has no libonnxruntime_providers_cuda.so beside it" "point ORT_DYLIB_PATH into an onnxruntime-gpu package"

# NVIDIA's libraries of the Python environment, behind those that the host finds by itself.
nvidia=$(python3 -c '
import pathlib, importlib.util as util
spec = util.find_spec("nvidia")
folders = spec.submodule_search_locations if spec else []
print(":".join(str(lib) for folder in folders for lib in sorted(pathlib.Path(folder).glob("*/lib"))))')
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$nvidia
export ORT_DYLIB_PATH LD_LIBRARY_PATH PATH E2E_ROOT=$ROOT
note "ONNX Runtime: $ORT_DYLIB_PATH"

# Both always run: where the tests fail, the figures are a lead.
failed=()
step "the tests that need a GPU"
"$TESTS" --ignored device:: --test-threads 1 </dev/null || failed+=("tests")
step "measuring"
python3 tests/bench/gpu.py "$@" </dev/null || failed+=("measurements")
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
step "every answer of the GPU was the CPU's"
