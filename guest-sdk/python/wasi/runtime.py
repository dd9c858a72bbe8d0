"""The Python that handlers run on, as native code is compiled and linked for it: its libraries and standard library from inside
componentize-py, its headers from Debian's `libpython3.14-dev`, the functions of the compiler from Zig's sources.

Everything goes into one folder and is only read afterwards; what of it is in a wheel is the functions of the compiler.
"""

import io
import pathlib
import re
import runpy
import shutil
import subprocess
import tarfile

import wasm

MINOR = "3.14"
SUFFIX = ".cpython-314-wasm32-wasi.so"
# Symbols by which the libraries in componentize-py are told apart: their names are not beside them.
LIBRARIES = {
    "libpython3.14.so": "Py_Initialize",
    "libc.so": "malloc",
    "libc++.so": "_ZNSt3__26localeC1Ev",
    "libc++abi.so": "__cxa_demangle",
    "libwasi-emulated-process-clocks.so": "times",
    "libwasi-emulated-signal.so": "raise",
    "libwasi-emulated-getpid.so": "getpid",
    "libwasi-emulated-mman.so": "mmap",
}
SYSCONFIG = "_sysconfigdata__wasi_wasm32-wasi.py"


class Runtime:
    """Where its parts are."""

    def __init__(self, folder: pathlib.Path, zig: pathlib.Path) -> None:
        self.zig = zig
        self.lib = folder / "lib"
        self.include = folder / "include"
        self.sysconfig = folder / SYSCONFIG

    def libraries(self, cxx: bool) -> list[pathlib.Path]:
        """In the order in which the linker is to look into them."""
        names = [name for name in LIBRARIES if name != "libc.so" and (cxx or "c++" not in name)]
        return [self.lib / name for name in [*names, "libc.so"]]

    def variables(self) -> dict:
        """What `sysconfig.get_config_vars` has there."""
        return runpy.run_path(str(self.sysconfig))["build_time_vars"]


def prepare(folder: pathlib.Path, zig: pathlib.Path) -> Runtime:
    runtime = Runtime(folder, zig)
    runtime.lib.mkdir(parents=True)
    version = libraries(runtime)
    headers(folder, runtime, version)
    root = zig.parent / "lib"
    subprocess.run(
        [
            zig, "build-lib", "-target", "wasm32-wasi", "-fPIC", "-OReleaseFast", "-static", "--name", "compiler_rt",
            "--cache-dir", folder / "zig-cache", "--global-cache-dir", folder / "zig-cache", root / "compiler_rt.zig",
        ],
        cwd=runtime.lib,
        check=True,
    )
    shutil.rmtree(folder / "zig-cache")
    return runtime


def libraries(runtime: Runtime) -> str:
    """Unpacks what componentize-py has in compressed frames. Returns the version of its Python."""
    # Not of this environment's where the compiler runs, which reads only where things are.
    import componentize_py
    import zstandard

    program = next(pathlib.Path(componentize_py.__file__).parent.glob("componentize_py*.so")).read_bytes()
    missing = dict(LIBRARIES)
    for found in re.finditer(re.escape(b"\x28\xb5\x2f\xfd"), program):
        try:
            content = zstandard.ZstdDecompressor().decompressobj().decompress(program[found.start() :])
        except zstandard.ZstdError:
            continue
        if wasm.is_module(content):
            names = wasm.exports(content)
            for library in [library for library, symbol in missing.items() if symbol in names]:
                (runtime.lib / library).write_bytes(content)
                del missing[library]
        elif content[257:262] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                if SYSCONFIG in archive.getnames():
                    runtime.sysconfig.write_bytes(archive.extractfile(SYSCONFIG).read())
    if missing or not runtime.sysconfig.exists():
        raise SystemExit(f"error: componentize-py has no {', '.join(missing) or SYSCONFIG}; expected version 0.25")
    version = re.search(rb"\b" + re.escape(MINOR.encode()) + rb"\.(\d+)\b", (runtime.lib / "libpython3.14.so").read_bytes())
    return f"{MINOR}.{int(version[1])}" if version else f"{MINOR}.0"


def headers(folder: pathlib.Path, runtime: Runtime, version: str) -> None:
    """Debian's, with `pyconfig.h` for WASI and the version of the Python that runs: any patch release's are the same otherwise."""
    package = debian_package(folder / "debian", f"libpython{MINOR}-dev")
    subprocess.run(["dpkg-deb", "-x", package, folder / "debian/unpacked"], check=True)
    unpacked = folder / "debian/unpacked/usr/include"
    shutil.copytree(unpacked / f"python{MINOR}", runtime.include)
    names = (next(unpacked.glob(f"*-linux-gnu/python{MINOR}/pyconfig.h"))).read_text()
    (runtime.include / "pyconfig.h").write_text(pyconfig(names, runtime.variables()))
    patch = int(version.rpartition(".")[2])
    level = runtime.include / "patchlevel.h"
    text = re.sub(r"(#define PY_MICRO_VERSION\s+)\d+", rf"\g<1>{patch}", level.read_text())
    level.write_text(re.sub(r'(#define PY_VERSION\s+)".*"', rf'\g<1>"{version}"', text))
    shutil.rmtree(folder / "debian")


def pyconfig(template: str, variables: dict) -> str:
    """A `pyconfig.h` with the names of another platform's, and the values of this one."""
    names = re.findall(r"^(?:#\s*define|/\* #\s*undef)\s+([A-Za-z_]\w*)", template, re.M)
    lines = ["#ifndef Py_PYCONFIG_H", "#define Py_PYCONFIG_H"]
    for name in dict.fromkeys(names):
        value = variables.get(name)
        # Declarations are asked for by `#if`, the others by `#ifdef`.
        if name != "Py_PYCONFIG_H" and value is not None and (value != 0 or name.startswith("HAVE_DECL")):
            lines.append(f"#define {name} {value}".rstrip())
    return "\n".join([*lines, "#endif", ""])


def debian_package(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A package of Debian's newest suite, from the mirror that the machine is set up with; nothing is installed."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], text=True, capture_output=True, check=True
    ).stdout.split()
    mirror = next((site.rstrip("/") for site in targets if site.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        raise SystemExit("error: apt has no mirror of Debian\nhint: build the wheels on Debian")
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(f"deb [signed-by={key}] {mirror} sid main\n")
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        # The folder is this user's.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(word for option, value in options.items() for word in ("-o", f"{option}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", name], cwd=folder, check=True)
    return next(folder.glob(f"{name}_*.deb"))
