#!/usr/bin/env bash
# Names Prometheus and its tool target/tools/prometheus and target/tools/promtool, for the tests of metrics, alerts and the
# dashboard: the machine's own, or Debian's, which is installed. Does nothing if they are there.
. "$(dirname "$0")/lib.sh"

if ! have prometheus || ! have promtool; then
    apt_install prometheus || die "no Prometheus, which the tests of metrics start" \
        "Debian: sudo apt-get install prometheus" "macOS: brew install prometheus"
fi
mkdir -p target/tools
for program in prometheus promtool; do
    ln -sfn "$(command -v "$program")" "target/tools/$program"
done
