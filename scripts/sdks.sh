#!/usr/bin/env bash
# Makes the packages of the Python and the JavaScript SDK in a folder (target/packages unless an argument says otherwise), and
# prints their paths: a wheel and a tarball of npm. Nothing is downloaded; the wheel is made by a file of the SDK itself.
. "$(dirname "$0")/lib.sh"

OUT=${1:-$ROOT/target/packages}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
have python3 || die "python3 is not installed" "Debian: sudo apt-get install python3"
have npm || die "npm is not installed" "Debian: sudo apt-get install npm"

wheel=$(cd guest-sdk/python && PYTHONDONTWRITEBYTECODE=1 python3 -c \
    'import sys, wheel_of_this_folder; print(wheel_of_this_folder.build_wheel(sys.argv[1]))' "$OUT")
echo "$OUT/$wheel"
echo "$OUT/$(npm pack --silent --pack-destination "$OUT" ./guest-sdk/js)"
