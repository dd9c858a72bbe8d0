"""A container image of the host, without a container engine: an archive in the OCI image layout.

Place in the flow: `scripts/package.py image` collects what is installed and calls `image`.
In:  the installed files by path below /usr, the engine's library, the machine's own shared libraries and certificates.
Out: `modelhost-VERSION-ARCH.oci.tar`, which `podman load`, `skopeo` and `docker load` read.

The image has no shell and no package manager: the program, ONNX Runtime, the shared libraries that the two are linked with,
the certificates that outgoing requests are checked by, the locale en_US.UTF-8, and two users. It runs as 65532 and writes to
/var/cache/modelhost alone.

Invariant: two images of the same files are the same bytes.
Source: the OCI image specification 1.1 (image layout, manifest, configuration).
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator

USER = 65532
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Models that split texts into words (TF-IDF) want it by name, to change the case of letters. `C.UTF-8`, which libc brings, is
# not taken for it.
LOCALE, LOCALE_SOURCE = "en_US", "/usr/share/i18n/locales/en_US"
# Every address of the container: which of its ports others reach is said where it is run. The administration stays inside, for
# `modelhost status` and the others run there.
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "MODELHOST_LISTEN": "0.0.0.0:8000",
    "MODELHOST_CACHE_DIR": "/var/cache/modelhost",
    "MODELHOST_LOG_FORMAT": "json",
    # Kubernetes kills after 30.
    "MODELHOST_DRAIN_TIMEOUT": "20s",
}
PORTS = ["8000/tcp", "8002/tcp"]
ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nmodelhost:x:{USER}:{USER}:modelhost:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nmodelhost:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
# What the demo is served with, until arguments say otherwise.
COMMAND = ["demo"]


class Missing(Exception):
    """What the image needs and the machine does not have."""


def linked(file: pathlib.Path, run: Callable[..., str]) -> Iterator[str]:
    """The shared libraries that the dynamic linker finds for `file`, itself among them, by the paths it looks at."""
    for line in run("ldd", file).splitlines():
        found = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
        if found:
            yield found[2]
        elif "not found" in line:
            raise Missing(f"{file.name} needs{line.split('=>')[0].rstrip()}, which is not on this machine")


def contents(
    files: dict[str, bytes], binary: pathlib.Path, engine: pathlib.Path, run: Callable[..., str]
) -> dict[str, bytes]:
    """The files of the image by their paths."""
    tree = {f"usr/{path}": content for path, content in files.items() if not path.startswith("share/man/")}
    tree |= {path: text.encode() for path, text in ACCOUNTS.items()}
    tree[f"usr/lib/{engine.name}"] = engine.read_bytes()
    libraries = sorted({*linked(binary, run), *linked(engine, run)})
    for library in libraries:
        tree[library.lstrip("/")] = pathlib.Path(library).read_bytes()
    if not os.path.isfile(CERTIFICATES):
        raise Missing(f"{CERTIFICATES} is missing\nhint: Debian: sudo apt-get install ca-certificates")
    tree[CERTIFICATES.lstrip("/")] = pathlib.Path(CERTIFICATES).read_bytes()
    return tree | locale(run)


def locale(run: Callable[..., str]) -> dict[str, bytes]:
    """The tables of the locale en_US.UTF-8, of this machine's libc, which is the image's."""
    if not os.path.isfile(LOCALE_SOURCE):
        raise Missing(f"{LOCALE_SOURCE} is missing\nhint: Debian: sudo apt-get install locales")
    with tempfile.TemporaryDirectory() as scratch:
        made = pathlib.Path(scratch, f"{LOCALE}.utf8")
        run("localedef", "--no-archive", "-i", LOCALE, "-f", "UTF-8", str(made))
        files = [path for path in sorted(made.rglob("*")) if path.is_file()]
        return {f"usr/lib/locale/{path.relative_to(scratch)}": path.read_bytes() for path in files}


def layer(tree: dict[str, bytes]) -> bytes:
    """The files as a tar archive, with their folders, in order; nothing in it tells when or where it was made."""
    owned = {"var/cache/modelhost": USER}
    # Where models and handlers are mounted, and what the engine mounts by itself.
    folders = {*owned, "mnt", "tmp", "proc", "dev", "sys", "run"}
    for path in [*tree, *owned]:
        folders |= {str(parent) for parent in pathlib.PurePosixPath(path).parents if str(parent) != "."}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folders):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            entry.uid = entry.gid = owned.get(path, 0)
            archive.addfile(entry)
        for path, content in sorted(tree.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            entry.mode = 0o755 if path.startswith("usr/bin/") or "/ld-linux" in path else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def image(tree: dict[str, bytes], version: str, machine: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes the archive of the image and returns its path."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def document(value: dict) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    plain = layer(tree)
    labels = {
        "org.opencontainers.image.title": "modelhost",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {port: {} for port in PORTS},
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ["/usr/bin/modelhost"],
            "Cmd": COMMAND,
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(document(configuration), "config.v1+json"),
        "layers": [blob(gzip.compress(plain, 9, mtime=0), "layer.v1.tar+gzip")],
        "annotations": labels,
    }
    described = blob(document(manifest), "manifest.v1+json") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": f"modelhost:{version}"},
    }
    members = {
        "oci-layout": document({"imageLayoutVersion": "1.0.0"}),
        "index.json": document({"schemaVersion": 2, "manifests": [described]}),
        **blobs,
    }
    path = folder / f"modelhost-{version}-{architecture}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return path
