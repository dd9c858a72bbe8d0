"""A wheel of a folder: the same bytes for the same files."""

import base64
import hashlib
import pathlib
import zipfile

TAG = "cp314-cp314-wasi_wasm32"
# Files that a handler never reads.
LEFT_OUT = {"tests", "__pycache__"}
LEFT_OUT_SUFFIXES = {".pyi", ".pyx", ".pxd", ".c", ".h", ".pyc"}


def pack(content: pathlib.Path, source: pathlib.Path, licences: dict[str, bytes], folder: pathlib.Path) -> pathlib.Path:
    """Packs what is in `content`, with the metadata and the licences of the source distribution and further licences."""
    # `NAME-VERSION`, in the spelling of file names.
    release = source.name
    info = f"{release}.dist-info"
    members = {}
    for path in sorted(content.rglob("*")):
        inner = path.relative_to(content)
        if path.is_file() and not LEFT_OUT & set(inner.parts) and path.suffix not in LEFT_OUT_SUFFIXES:
            members[str(inner)] = path.read_bytes()
    members[f"{info}/METADATA"] = (source / "PKG-INFO").read_bytes()
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: modelhost\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    found = [path for pattern in ("LICEN[CS]E*", "COPYING*") for path in sorted(source.glob(pattern)) if path.is_file()]
    if not found:
        raise SystemExit(f"error: {release} has no licence in its source")
    for name, text in {**{path.name: path.read_bytes() for path in found}, **licences}.items():
        members[f"{info}/licenses/{name}"] = text
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()

    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{release}-{TAG}.whl"
    with zipfile.ZipFile(made.with_suffix(".tmp"), "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    made.with_suffix(".tmp").rename(made)
    return made


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
