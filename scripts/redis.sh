#!/usr/bin/env bash
# Names a Redis server target/tools/redis-server, for the tests: the machine's own, or Debian's, which is installed. Does nothing
# if it is there.
. "$(dirname "$0")/lib.sh"

server=$(command -v redis-server || true)
if [ -z "$server" ]; then
    # The package has the server under the name of its checker, which is the same program; that of the server's own name would
    # start one.
    server=/usr/bin/redis-check-rdb
    [ -x "$server" ] || apt_install redis-tools || die "no Redis server, which the tests of shared values start" \
        "Debian: sudo apt-get install redis-tools" "macOS: brew install redis"
fi
mkdir -p target/tools
ln -sfn "$server" target/tools/redis-server
