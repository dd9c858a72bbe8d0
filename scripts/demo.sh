#!/usr/bin/env bash
# Serves the iris example, sends it the sample request, shows the answer, and stays until Ctrl-C. Run by `make demo`, which
# builds what is needed. In: target/release/host, examples/iris-wasm. The ports are the host's defaults if they are free,
# else any. DEMO_ONCE=1 stops after the answer, for scripts.
. "$(dirname "$0")/lib.sh"

EXAMPLE=examples/iris-wasm
LOG=$ROOT/target/demo.log

# address PORT: 127.0.0.1 with that port, or with port 0 (any) if it is taken.
address() {
    python3 - "$1" <<'PY'
import socket, sys
with socket.socket() as probe:
    # As the host does: a port in TIME_WAIT is free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", int(sys.argv[1])))
        print("127.0.0.1:" + sys.argv[1])
    except OSError:
        print("127.0.0.1:0")
PY
}

ready=$(mktemp)
host=
# Ctrl-C and TERM mean: drain the server, then leave. Nothing else that ends this script may leave a server behind.
stop() {
    trap - INT TERM EXIT
    rm -f "$ready"
    if [ -n "$host" ] && kill -0 "$host" 2>/dev/null; then
        step "stopping the server"
        kill -TERM "$host"
        wait "$host" || { note "the server exited with status $?"; exit 1; }
        note "stopped"
    fi
    exit "${1:-0}"
}
trap 'stop 0' INT TERM
trap 'stop $?' EXIT

step "starting target/release/host serve --config $EXAMPLE/modelhost.toml"
# Job control gives the host a process group of its own: the terminal's Ctrl-C goes to this script alone, and the host
# hears of it once, from `stop`.
set -m
target/release/host serve --config "$EXAMPLE/modelhost.toml" \
    --listen "$(address 8000)" --admin-listen "$(address 8001)" </dev/null >"$ready" 2>"$LOG" &
host=$!
set +m

url=
for _ in $(seq 600); do
    url=$(sed -n 's/^listening on //p' "$ready" | head -n 1)
    if [ -n "$url" ]; then break; fi
    if ! kill -0 "$host" 2>/dev/null; then
        wait "$host" || true
        host=
        cat "$LOG" >&2
        die "the server did not start"
    fi
    sleep 0.1
done
[ -n "$url" ] || { cat "$LOG" >&2; die "the server is not ready after a minute"; }
cat "$ready"

step "curl --data @$EXAMPLE/sample.json $url/iris"
python3 - "$url/iris" "$EXAMPLE/sample.json" <<'PY' || { cat "$LOG" >&2; die "the request failed"; }
"""Posts a JSON file and prints the answer; the proxies of the environment do not apply to loopback."""
import sys, urllib.error, urllib.request

url, sample = sys.argv[1:]
request = urllib.request.Request(url, open(sample, "rb").read(), {"content-type": "application/json"})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    answer = opener.open(request, timeout=30)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
sys.exit(answer.status != 200)
PY

if [ -n "${DEMO_ONCE:-}" ]; then exit 0; fi
step "serving until Ctrl-C; the log is in target/demo.log"
wait "$host" || { status=$?; host=; tail -n 20 "$LOG" >&2; die "the server ended by itself with status $status"; }
host=
