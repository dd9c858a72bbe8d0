#!/usr/bin/env bash
# Installs the clients that the tests drive against the host, tests/clients/requirements.txt, into target/clients: an
# environment of its own, for their dependencies do not agree with those of the guests' tools; what the examples are compared
# with, tests/clients/examples.txt, into the same; and perf_analyzer, a program, with what it is linked with,
# tests/clients/perf-analyzer.txt, into target/clients/perf; OpenAI's client for JavaScript into target/clients/js; TensorFlow
# Serving's client, tests/clients/tf-serving.txt. Does nothing if they are there. `--python`: the first alone.
. "$(dirname "$0")/lib.sh"

WANTED=tests/clients/requirements.txt
EXAMPLES=tests/clients/examples.txt
PERF=tests/clients/perf-analyzer.txt
TF_SERVING=tests/clients/tf-serving.txt
CLIENTS=$ROOT/target/clients

require_venv
if ! cmp -s "$WANTED" "$CLIENTS/installed.txt"; then
    step "installing the clients of the tests from PyPI into target/clients (about a minute)"
    rm -rf "$CLIENTS"
    python3 -m venv "$CLIENTS" >&2
    "$CLIENTS/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$WANTED" </dev/null >&2 || die \
        "pip could not install the clients of the tests" "$CLIENTS/bin/python -m pip install --requirement $WANTED"
    cp "$WANTED" "$CLIENTS/installed.txt"
fi
if [ "${1:-}" = --python ]; then exit 0; fi

npm_install tests/clients/openai/package.json "$CLIENTS/js"
ln -sf "$(command -v node)" "$CLIENTS/js/node"

if ! cmp -s "$EXAMPLES" "$CLIENTS/examples.txt"; then
    step "installing what the examples are compared with from PyPI into target/clients (about half a minute)"
    # The list is complete, and some packages ask for others that the tests do without (a display, torch) or for an older Python.
    "$CLIENTS/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
        --requirement "$EXAMPLES" </dev/null >&2 || die "pip could not install what the examples are compared with" \
        "$CLIENTS/bin/python -m pip install --no-deps --requirement $EXAMPLES"
    cp "$EXAMPLES" "$CLIENTS/examples.txt"
fi

if ! cmp -s "$TF_SERVING" "$CLIENTS/tf-serving.txt"; then
    step "installing TensorFlow Serving's client from PyPI into target/clients"
    # One after the other: both have files of the client, and the later ones are to stay.
    grep -v '^#' "$TF_SERVING" | while read -r package; do
        "$CLIENTS/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$package" </dev/null >&2 || exit 1
    done || die "pip could not install TensorFlow Serving's client" \
        "$CLIENTS/bin/python -m pip install --no-deps tensorflow-serving-api"
    cp "$TF_SERVING" "$CLIENTS/tf-serving.txt"
fi

if ! "$VENV/bin/python" -c 'import ctypes; ctypes.CDLL("libb64.so.0d")' 2>/dev/null; then
    apt_install libb64-0d || die "libb64, which perf_analyzer is linked with, is not installed" \
        "Debian: sudo apt-get install libb64-0d"
fi
if cmp -s "$PERF" "$CLIENTS/perf/installed.txt"; then exit 0; fi
step "fetching perf_analyzer from PyPI into target/clients/perf"
rm -rf "$CLIENTS/perf"
"$CLIENTS/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$CLIENTS/perf" --requirement "$PERF" </dev/null >&2 || die "pip could not download perf_analyzer" \
    "$CLIENTS/bin/python -m pip download --no-deps --requirement $PERF"
"$CLIENTS/bin/python" - "$CLIENTS/perf" <<'PYTHON'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
wanted = {"perf_analyzer", "libcudart.so.12"}
for wheel in list(folder.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename.rsplit("/", 1)[-1]
            if name in wanted:
                (folder / name).write_bytes(archive.read(entry))
                (folder / name).chmod(0o755)
    wheel.unlink()
PYTHON
cp "$PERF" "$CLIENTS/perf/installed.txt"
