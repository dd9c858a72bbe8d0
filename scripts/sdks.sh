#!/usr/bin/env bash
# Makes the packages of the SDKs in a folder (target/packages unless an argument says otherwise), and prints their paths: a wheel,
# a tarball of npm, a folder that is a proxy of Go modules (`GOPROXY=file://…`), a tarball for C and C++, and one for `zig fetch`.
# Nothing is downloaded; the wheel is made by a file of the SDK itself.
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

python3 - "$OUT" <<'PYTHON'
"""Packs the SDKs whose packages are nothing but their files; the same bytes each time."""
import gzip, io, json, pathlib, sys, tarfile, zipfile

OUT, VERSION = pathlib.Path(sys.argv[1]), "0.1.0"


def files(folder):
    skipped = {".zig-cache", "zig-out", "tests"}
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(path.relative_to(folder), path) for path in found if not skipped & set(path.relative_to(folder).parts)]


def tarball(folder, name):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for inner, path in files(folder):
            entry = tarfile.TarInfo(f"{name}-{VERSION}/{inner}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            archive.addfile(entry, path.open("rb"))
    target = OUT / f"{name}-{VERSION}.tar.gz"
    target.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
    print(target)


go = pathlib.Path("guest-sdk/go")
module = (go / "go.mod").read_text().split()[1]
proxy = OUT / "go" / module / "@v"
proxy.mkdir(parents=True, exist_ok=True)
(proxy / "list").write_text(f"v{VERSION}\n")
(proxy / f"v{VERSION}.info").write_text(json.dumps({"Version": f"v{VERSION}"}))
(proxy / f"v{VERSION}.mod").write_bytes((go / "go.mod").read_bytes())
with zipfile.ZipFile(proxy / f"v{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for inner, path in files(go):
        archive.writestr(zipfile.ZipInfo(f"{module}@v{VERSION}/{inner}"), path.read_bytes(), zipfile.ZIP_DEFLATED)
print(OUT / "go")
tarball(pathlib.Path("guest-sdk/c"), "modelhost-guest-c")
tarball(pathlib.Path("guest-sdk/zig"), "modelhost-guest-zig")
PYTHON
