#!/usr/bin/env python3
"""Packs a built host for those who install it: as a Python wheel, as a Debian package, as a container image. Packs the libraries
for handlers as a wheel of their own, which goes beside the first; the other two packages have them. So it does the wheels of native
packages for handlers in Python, which no other package has.

In:   the host's binary; of the tree LICENSE, docs/install.md, packaging/, examples/iris-wasm and its component; `cargo
      metadata`. Needs binutils, dpkg-deb for the Debian package, and of Python what `scripts/package.sh` gets. The image takes
      ONNX Runtime's library from where `scripts/onnxruntime.sh` brings it.
Out:  one file in the folder that is named, whose path is printed; with `--symbols FILE` the binary's symbols for debuggers. As a
      `tree` the files themselves, with completions, below the folder: `make install`.

What is installed is the same in each kind of package, below its prefix: `bin/modelhost` without symbols, the demo's files,
the manual. The list of what it is made of (CycloneDX) is inside the package. Two packages of the same binary are the same bytes.

Invariant: the wheel's tag is true: it is read from the versions of the C library's functions that the binary wants.
"""

import argparse
import base64
import gzip
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import image
from linked import linked as linked_crates
from smallzip import smallzip

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "modelhost"
SUMMARY = "A model server that runs a sandboxed WebAssembly handler around every prediction"
# What pip installs beside it for `modelhost[EXTRA]`; the program finds the libraries there.
EXTRAS = {
    "onnx": ["onnxruntime>=1.20,<2"],
    "gpu": ["onnxruntime-gpu[cuda,cudnn]>=1.22,<2"],
    "tensorflow": [
        "tensorflow-cpu>=2.21,<3; platform_machine == 'x86_64'",
        "tensorflow>=2.21,<3; platform_machine != 'x86_64'",
    ],
}
# Shared libraries that every Linux with the tag's C library has (PEP 600).
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|util|gcc_s)\.so\.\d+|ld-linux.*\.so\.\d+")


def main() -> None:
    parser = argparse.ArgumentParser(description="Packs a built host.")
    parser.add_argument("kind", choices=["wheel", "deb", "image", "tree", "library", "python"])
    parser.add_argument("binary", type=pathlib.Path, help="the host; for `library` and `python` the folder of what they have")
    parser.add_argument("folder", type=pathlib.Path, help="where the package goes")
    parser.add_argument("--symbols", type=pathlib.Path, help="where the binary's symbols go")
    arguments = parser.parse_args()
    if platform.system() != "Linux":
        sys.exit(f"error: packages are made on Linux, this is {platform.system()}")
    metadata = cargo_metadata()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.kind == "library":
        print(data_wheel("library", "Libraries for handlers", libraries(arguments.binary), metadata, arguments.folder.resolve()))
        return
    if arguments.kind == "python":
        packages = python_packages(arguments.binary)
        print(data_wheel("python", "Native packages for handlers in Python", packages, metadata, arguments.folder.resolve()))
        return
    with tempfile.TemporaryDirectory() as scratch:
        stripped = strip(arguments.binary, pathlib.Path(scratch), arguments.symbols)
        files = installed(stripped, pathlib.Path(scratch))
        if arguments.kind != "wheel":
            # The wheel is small without them.
            files |= libraries(ROOT / "target/components/library")
        make = {"wheel": wheel, "deb": deb, "image": container_image, "tree": tree}[arguments.kind]
        print(make(files, metadata, arguments.folder.resolve(), pathlib.Path(scratch)))


def run(*command: object) -> str:
    """What a command prints; its failure ends the script with what it said."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, capture_output=True)
    except FileNotFoundError:
        package = {"dpkg-deb": "dpkg", "cargo": "cargo", "rustc": "rustc"}.get(str(command[0]), "binutils")
        sys.exit(f"error: {command[0]} is not installed\nhint: Debian: sudo apt-get install {package}")
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}\n{done.stderr.strip()}")
    return done.stdout


def existing(path: str, make: str) -> pathlib.Path:
    if not (ROOT / path).is_file():
        sys.exit(f"error: {path} is missing\nhint: {make}")
    return ROOT / path


def strip(binary: pathlib.Path, scratch: pathlib.Path, symbols: pathlib.Path | None) -> pathlib.Path:
    """The binary as it is installed; a debugger finds the symbols by their file's name, beside it or where it is told."""
    if not binary.is_file():
        sys.exit(f"error: {binary} is missing\nhint: make host")
    stripped = scratch / NAME
    link = []
    if symbols:
        run("objcopy", "--only-keep-debug", binary.resolve(), symbols.absolute())
        link = [f"--add-gnu-debuglink={symbols.absolute()}"]
    run("objcopy", "--strip-all", *link, binary.resolve(), stripped)
    return stripped


def installed(binary: pathlib.Path, scratch: pathlib.Path) -> dict[str, bytes]:
    """What lies below the prefix, by path."""
    files = {f"bin/{NAME}": binary.read_bytes()}
    component = existing("target/components/iris-wasm.wasm", "make examples")
    built, beside = "../../target/components/iris-wasm.wasm", component.name
    config = (ROOT / "examples/iris-wasm/modelhost.toml").read_text()
    endpoint = config[config.index("[[endpoint]]"):]
    if built not in endpoint:
        sys.exit(f"error: examples/iris-wasm/modelhost.toml does not name {built}")
    demo = {
        "modelhost.toml": f"# What `{NAME} demo` serves. Paths are relative to this file.\n\n".encode()
        + endpoint.replace(built, beside).encode(),
        beside: component.read_bytes(),
        **{name: (ROOT / "examples/iris-wasm" / name).read_bytes() for name in ("iris.onnx", "sample.json")},
    }
    files |= {f"share/{NAME}/demo/{name}": content for name, content in demo.items()}
    run(binary, "man", scratch / "man")
    files |= {f"share/man/man1/{page.name}": page.read_bytes() for page in sorted((scratch / "man").iterdir())}
    return files


def libraries(folder: pathlib.Path) -> dict[str, bytes]:
    """The project's own libraries for handlers and the engine of those in JavaScript, by path below the prefix."""
    names = sorted(path.name for path in (ROOT / "guest-sdk/library").iterdir() if (path / "Cargo.toml").is_file())
    files = [folder / f"{name}.wasm" for name in names]
    for file in files:
        if not file.is_file():
            sys.exit(f"error: {file} is missing\nhint: make libraries")
    engine = [folder.parent / "engine" / name for name in ("quickjs.wasm", "quickjs.LICENSE")]
    if not all(file.is_file() for file in engine):
        sys.exit(f"error: {engine[0]} is missing\nhint: make libraries")
    return {f"share/{NAME}/{file.parent.name}/{file.name}": file.read_bytes() for file in files + engine}


def python_packages(folder: pathlib.Path) -> dict[str, bytes]:
    """The wheels of native packages for handlers in Python, each with its licences inside, by path below the prefix."""
    wheels = sorted(folder.glob("*.whl"))
    if not any(wheel.name.startswith("numpy-") for wheel in wheels):
        sys.exit(f"error: {folder} has no wheel of numpy\nhint: make wasi-wheels")
    return {f"share/{NAME}/wheels/{wheel.name}": wheel.read_bytes() for wheel in wheels}


def data_wheel(extra: str, summary: str, files: dict[str, bytes], metadata: dict, folder: pathlib.Path) -> pathlib.Path:
    """A zip of files that the host finds beside itself, for an environment that has the host."""
    version = host_package(metadata)["version"]
    release = f"{NAME}_{extra}-{version}"
    info = f"{release}.dist-info"
    members = {f"{release}.data/data/{path}": content for path, content in files.items()}
    members |= {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.4\nName: {NAME}-{extra}\nVersion: {version}\nSummary: {summary} of {NAME}\n"
            "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.9\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    return zipped(folder / f"{release}-py3-none-any.whl", info, members)


def cargo_metadata() -> dict:
    target = re.search(r"^host: (.*)$", run("rustc", "-vV"), re.M)[1]
    return json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))


def host_package(metadata: dict) -> dict:
    return next(package for package in metadata["packages"] if package["name"] == "host")


def sbom(metadata: dict) -> bytes:
    """The crates that are linked into the host, and which of them needs which: CycloneDX 1.6.

    The workspace's own crates are the host: what they need, it needs.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    host = host_package(metadata)
    lock = (ROOT / "Cargo.lock").read_text()
    checksum = r'\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"'
    checksums = {found[:2]: found[2] for found in re.findall(checksum, lock)}

    linked = linked_crates(metadata, host["id"])
    own = {package for package in linked if packages[package]["source"] is None}
    linked[host["id"]] = [needed for package in own for needed in linked[package]]
    linked = {
        package: [other for other in needed if other not in own]
        for package, needed in linked.items() if package == host["id"] or package not in own
    }

    def reference(package: str) -> str:
        name = NAME if package == host["id"] else packages[package]["name"]
        return f"pkg:cargo/{name}@{packages[package]['version']}"

    def component(package: dict) -> dict:
        found = checksums.get((package["name"], package["version"]))
        # Old manifests separate alternatives with a slash.
        licence = (package["license"] or "").replace("/", " OR ")
        return {
            "type": "library",
            "bom-ref": reference(package["id"]),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(package["id"]),
            **({"licenses": [{"expression": licence}]} if licence else {}),
            **({"hashes": [{"alg": "SHA-256", "content": found}]} if found else {}),
        }

    itself = component(host) | {"type": "application", "name": NAME}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": itself},
        "components": sorted(
            (component(packages[package]) for package in linked if package != host["id"]),
            key=lambda component: component["bom-ref"],
        ),
        "dependencies": sorted(
            ({"ref": reference(package), "dependsOn": sorted({*map(reference, needed)})}
             for package, needed in linked.items()),
            key=lambda entry: entry["ref"],
        ),
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def wanted(binary: bytes) -> tuple[str, set[str]]:
    """The newest version of the C library that the binary wants functions of, `2.34`; the libraries that it names."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(binary)
        file.flush()
        versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", file.name))
        libraries = re.findall(r"Shared library: \[(.*)\]", run("readelf", "-dW", file.name))
    newest = max((int(major), int(minor)) for major, minor in versions)
    return f"{newest[0]}.{newest[1]}", set(libraries)


def tag(binary: bytes) -> str:
    glibc, libraries = wanted(binary)
    foreign = sorted(library for library in libraries if not SYSTEM.fullmatch(library))
    if foreign:
        sys.exit(f"error: the binary needs {', '.join(foreign)}, which not every Linux has")
    return f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"


def wheel(files: dict[str, bytes], metadata: dict, folder: pathlib.Path, _scratch: pathlib.Path) -> pathlib.Path:
    """A zip of the files, and of what pip wants to know of them."""
    version = host_package(metadata)["version"]
    release = f"{NAME}-{version}"
    binary = f"bin/{NAME}"
    kind = tag(files[binary])
    # pip puts scripts into the environment's `bin`, data below its prefix.
    members = {
        f"{release}.data/scripts/{NAME}" if path == binary else f"{release}.data/data/{path}": content
        for path, content in files.items()
    }
    extras = "".join(
        f"Provides-Extra: {extra}\n" + "".join(f"Requires-Dist: {requirement(text, extra)}\n" for text in texts)
        for extra, texts in EXTRAS.items()
    )
    description = (ROOT / "docs/install.md").read_text()
    info = f"{release}.dist-info"
    members |= {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {SUMMARY}\n"
            f"License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.9\n{extras}"
            f"Description-Content-Type: text/markdown\n\n{description}"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {kind}\n".encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{info}/sboms/{NAME}.cdx.json": sbom(metadata),
    }
    return zipped(folder / f"{release}-{kind}.whl", info, members)


def zipped(path: pathlib.Path, info: str, members: dict[str, bytes]) -> pathlib.Path:
    """A wheel of these files, with the list of them."""
    record = [f"{path},sha256={digest(content)},{len(content)}" for path, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path.write_bytes(smallzip(members, {member for member in members if "/scripts/" in member}))
    return path


def requirement(text: str, extra: str) -> str:
    """`text` for those who asked for `extra`."""
    name, _, marker = text.partition("; ")
    condition = f"extra == '{extra}'"
    return f"{name}; {marker} and {condition}" if marker else f"{name}; {condition}"


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


# Where Debian's shells look for completions.
COMPLETIONS = {
    "bash": f"share/bash-completion/completions/{NAME}",
    "zsh": f"share/zsh/vendor-completions/_{NAME}",
    "fish": f"share/fish/vendor_completions.d/{NAME}.fish",
}

# And in a prefix of one's own.
OWN_COMPLETIONS = COMPLETIONS | {"zsh": f"share/zsh/site-functions/_{NAME}"}

# Scripts of the package have nothing to do where there is no systemd, as in a container.
UNLESS_SYSTEMD = "command -v systemctl >/dev/null && [ -d ${SYSTEMD_RUN:-/run/systemd/system} ] || exit 0\n"
# The service ends before its program goes, and a newer program serves at once.
MAINTAINER_SCRIPTS = {
    "postinst": f"""if [ "$1" = configure ]; then
    systemctl daemon-reload 2>/dev/null || true
    systemctl try-restart {NAME}.service || echo "{NAME}: not restarted, see: journalctl -u {NAME}" >&2
fi
""",
    "prerm": f"""if [ "$1" = remove ]; then
    systemctl stop {NAME}.service || true
fi
""",
    # Whether it is enabled stays known until the package is purged.
    "postrm": f"""if [ "$1" = purge ]; then
    rm -f /etc/systemd/system/multi-user.target.wants/{NAME}.service
fi
systemctl daemon-reload 2>/dev/null || true
""",
}


def deb(files: dict[str, bytes], metadata: dict, folder: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """The files below /usr, a service that is not started by itself, and its configuration, which is the operator's."""
    host = host_package(metadata)
    glibc, _ = wanted(files[f"bin/{NAME}"])
    machine = platform.machine()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    manual = "share/man/"
    usr = {path: content for path, content in files.items() if not path.startswith(manual)}
    usr |= {f"{path}.gz": gzip.compress(content, mtime=0) for path, content in files.items() if path.startswith(manual)}
    usr |= {path: run(scratch / NAME, "completions", shell).encode() for shell, path in COMPLETIONS.items()}
    usr |= {
        f"lib/systemd/system/{NAME}.service": (ROOT / f"packaging/{NAME}.service").read_bytes(),
        f"share/doc/{NAME}/copyright": (ROOT / "LICENSE").read_bytes(),
        f"share/doc/{NAME}/{NAME}.cdx.json": sbom(metadata),
    }
    tree = {f"usr/{path}": content for path, content in usr.items()}
    tree[f"etc/{NAME}/modelhost.toml"] = (ROOT / "packaging/modelhost.toml").read_bytes()
    size = sum(map(len, tree.values())) // 1024
    tree["DEBIAN/conffiles"] = f"/etc/{NAME}/modelhost.toml\n".encode()
    tree["DEBIAN/control"] = (
        f"Package: {NAME}\nVersion: {host['version']}\nArchitecture: {architecture}\nInstalled-Size: {size}\n"
        f"Maintainer: the {NAME} authors <{NAME}@localhost>\nSection: net\nPriority: optional\n"
        f"Depends: libc6 (>= {glibc}), libgcc-s1\nDescription: {SUMMARY}\n"
        " ONNX Runtime's library is not part of the package; see docs/install.md of the sources.\n"
    ).encode()
    tree |= {f"DEBIAN/{name}": f"#!/bin/sh\nset -e\n{UNLESS_SYSTEMD}{script}".encode() for name, script in MAINTAINER_SCRIPTS.items()}
    root = scratch / "root"
    for path, content in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        is_run = path.startswith("usr/bin/") or path.removeprefix("DEBIAN/") in MAINTAINER_SCRIPTS
        (root / path).chmod(0o755 if is_run else 0o644)
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
    path = folder / f"{NAME}_{host['version']}_{architecture}.deb"
    # Times are no later than this one.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path)
    return path


def tree(files: dict[str, bytes], _metadata: dict, folder: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """The files below a prefix, each put in its place whole: a program that runs goes on."""
    files = files | {path: run(scratch / NAME, "completions", shell).encode() for shell, path in OWN_COMPLETIONS.items()}
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".{place.name}.new")
        new.write_bytes(content)
        new.chmod(0o755 if path.startswith("bin/") else 0o644)
        new.rename(place)
    return folder / f"bin/{NAME}"


def container_image(
    files: dict[str, bytes], metadata: dict, folder: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path:
    """The files below /usr with the engine and all that they are linked with; image.py."""
    libraries = engine_libraries()
    if not libraries:
        sys.exit("error: ONNX Runtime's library is missing\nhint: scripts/onnxruntime.sh")
    files = files | {f"share/doc/{NAME}/{NAME}.cdx.json": sbom(metadata)}
    try:
        tree = image.contents(files, scratch / NAME, libraries[-1], run)
    except image.Missing as missing:
        sys.exit(f"error: {missing}")
    return image.image(tree, host_package(metadata)["version"], platform.machine(), folder)


def engine_libraries() -> list[pathlib.Path]:
    """The ONNX Runtimes that the host would take here, the one that it would prefer last."""
    named = os.environ.get("ORT_DYLIB_PATH")
    home = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share")
    found = sorted((home / NAME / "lib").glob("libonnxruntime.so.*"))
    return [path.resolve() for path in ([pathlib.Path(named)] if named else found)]


if __name__ == "__main__":
    main()
