"""The ways in which a package's native modules are built: each fills a folder with what is to be installed.

A package says in its recipe (`recipes.toml`) which way it goes: `modules` of C, by the compiler alone; `meson`; `cargo`, for Rust
with PyO3. A recipe with none of them is a package in Python whose native part may be left out.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import crates
from runtime import MINOR, SUFFIX, Runtime

HERE = pathlib.Path(__file__).resolve().parent


class Tools:
    """Programs as other tools want them: single files that take only arguments."""

    def __init__(self, folder: pathlib.Path, runtime: Runtime, jobs: int) -> None:
        self.folder, self.runtime, self.jobs = folder, runtime, jobs
        self.environment = os.environ | {"WASI_ZIG": str(runtime.zig)}
        root = runtime.lib.parent
        python = sys.executable
        self.cc = self.program("cc", f"{python} -S {HERE}/cc.py {root} c")
        self.cxx = self.program("c++", f"{python} -S {HERE}/cc.py {root} c++")
        self.ar = self.program("ar", f"{runtime.zig} ar")
        # Meson looks for it on the path.
        cython = self.program("path/cython", f"{python} -m cython")
        self.environment["PATH"] = f"{cython.parent}:{os.environ['PATH']}"
        self.ninja = self.program("ninja", f"{python} -m ninja")
        self.python = self.program("python", f"{python} {HERE}/meson_python.py {root}")

    def program(self, name: str, command: str) -> pathlib.Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
        return path

    def run(self, *command: object, cwd: pathlib.Path, **environment: str) -> None:
        """Runs a command, whose output is shown only if it fails."""
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, env=self.environment | environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout[-8000:]}\nerror: `{' '.join(map(str, command))}` failed")


def build(recipe: dict, source: pathlib.Path, content: pathlib.Path, tools: Tools) -> None:
    """Builds a package into `content`, as it is to lie in `site-packages`."""
    content.mkdir(parents=True)
    for edit in recipe.get("patches", []):
        change(edit, source)
    if "beside" in recipe:
        shutil.copytree(HERE / recipe["beside"], source / recipe["beside"])
    for folder in recipe.get("python", []):
        shutil.copytree(source / folder, content / pathlib.Path(folder).name, dirs_exist_ok=True)
    folders = crates.folders(crate_of(recipe["cargo"], source)) if "cargo" in recipe else {}
    for module in recipe.get("modules", []):
        c_module(module, source, content, folders, tools)
    for path in recipe.get("licences", []):
        of = files(source, folders, path)[0]
        shutil.copy(of, source / f"LICENSE-{path.split('/')[0].removeprefix('crate:')}")
    if "meson" in recipe:
        meson(recipe["meson"], source, content, tools)
    if "cargo" in recipe:
        cargo(recipe["cargo"], source, content, tools)
    for path in recipe.get("without", []):
        for found in list(content.glob(path)):
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    for edit in recipe.get("edits", []):
        change(edit, content)


def change(edit: dict, folder: pathlib.Path) -> None:
    file = folder / edit["file"]
    text = file.read_text()
    if "find" in edit and text.count(edit["find"]) != 1:
        raise SystemExit(f"error: {edit['file']} is not the one that the recipe knows: `{edit['find']}`")
    file.write_text(text.replace(edit["find"], edit["replace"]) if "find" in edit else text + edit["append"])


def files(source: pathlib.Path, folders: dict[str, pathlib.Path], pattern: str) -> list[pathlib.Path]:
    """Files of the source, or with `crate:NAME/` before their path of a crate that the package's depends on."""
    name, _, inner = pattern.removeprefix("crate:").partition("/")
    folder, inner = (folders[name], inner) if pattern.startswith("crate:") else (source, pattern)
    found = sorted(folder.glob(inner)) if inner.strip(".") else [folder]
    if not found:
        raise SystemExit(f"error: no file `{pattern}` in the source")
    return found


def c_module(module: dict, source: pathlib.Path, content: pathlib.Path, folders: dict[str, pathlib.Path], tools: Tools) -> None:
    """A module of C sources."""
    output = content / (module["name"].replace(".", "/") + SUFFIX)
    output.parent.mkdir(parents=True, exist_ok=True)
    include = [path for pattern in module.get("include", []) for path in files(source, folders, pattern)]
    without = re.compile(module.get("without", r"(?!)"))
    sources = [path for pattern in module["sources"] for path in files(source, folders, pattern) if not without.search(path.name)]
    flags = ["-O2", "-DNDEBUG", "-w", *(f"-I{path}" for path in [tools.runtime.include, *include])]
    tools.run(tools.cc, "-shared", *flags, *(f"-D{word}" for word in module.get("define", [])), *sources, "-o", output, cwd=source)


def meson(recipe: dict, source: pathlib.Path, content: pathlib.Path, tools: Tools) -> None:
    """A package that Meson builds."""
    build, installed = source / "build-wasi", source / "installed-wasi"
    binaries = {"c": tools.cc, "cpp": tools.cxx, "ar": tools.ar, "python": tools.python}
    machine = {"system": "wasi", "cpu_family": "wasm32", "cpu": "wasm32", "endian": "little"}
    (source / "wasi.cross").write_text(
        "[binaries]\n"
        + "".join(f"{name} = '{path}'\n" for name, path in binaries.items())
        + "pkg-config = '/bin/false'\n[host_machine]\n"
        + "".join(f"{name} = '{value}'\n" for name, value in machine.items())
        + "[properties]\nneeds_exe_wrapper = true\nskip_sanity_check = true\nlongdouble_format = 'IEEE_QUAD_LE'\n"
    )
    command = [sys.executable, source / recipe["program"]] if "program" in recipe else [sys.executable, "-m", "mesonbuild.mesonmain"]
    tools.run(
        *command, "setup", build, "--cross-file", "wasi.cross", "--prefix=/", "-Dbuildtype=release", "-Db_ndebug=if-release",
        *(f"-D{option}" for option in recipe["options"]), cwd=source, NINJA=str(tools.ninja),
    )
    tools.run(tools.ninja, "-C", build, f"-j{tools.jobs}", cwd=source)
    tools.run(
        *command, "install", "-C", build, "--no-rebuild", "--destdir", installed, "--tags", "runtime,python-runtime",
        cwd=source, NINJA=str(tools.ninja),
    )
    shutil.copytree(installed / f"lib/python{MINOR}/site-packages", content, dirs_exist_ok=True)
    # What a package says of its build has no path of this machine.
    for said in content.rglob("__config__.py"):
        said.write_text(said.read_text().replace(f"{tools.folder}/", ""))


def crate_of(recipe: dict, source: pathlib.Path) -> pathlib.Path:
    """The folder of a package's crate, which is a workspace of its own: none of the folders above is."""
    manifest = source / recipe.get("folder", ".") / "Cargo.toml"
    if "[workspace]" not in manifest.read_text():
        manifest.write_text(manifest.read_text() + "\n[workspace]\n")
    return manifest.parent


def cargo(recipe: dict, source: pathlib.Path, content: pathlib.Path, tools: Tools) -> None:
    """A package whose native module is a crate that uses PyO3."""
    top, source = source, crate_of(recipe, source)
    init = "PyInit_" + recipe["module"].rpartition(".")[2]
    config = source / "pyo3-wasi.txt"
    config.write_text(
        f"implementation=CPython\nversion={MINOR}\nshared=true\nabi3=false\npointer_width=32\n"
        "build_flags=\nsuppress_build_script_link_lines=true\n"
    )
    # Paths of this machine stay out of panics' texts.
    flags = [
        "-Crelocation-model=pic", "-Clink-self-contained=no", "-Clinker-flavor=gcc", f"-Clinker={tools.cc}",
        f"-Clink-arg=-Wl,--export={init}", "-Ctarget-feature=+simd128", f"--remap-path-prefix={source}=.",
        f"--remap-path-prefix={pathlib.Path.home()}=~", "-Cdebuginfo=0", "-Cstrip=symbols", "-Cpanic=abort",
    ]
    tools.run(
        "cargo", "rustc", "--release", "--lib", "--crate-type", "cdylib", "--locked", "--target", "wasm32-wasip2", "--target-dir", source / "build-wasi",
        f"-j{tools.jobs}", *recipe.get("arguments", []), cwd=source, PYO3_CONFIG_FILE=str(config),
        CC_wasm32_wasip2=str(tools.cc), AR_wasm32_wasip2=str(tools.ar), CRATE_CC_NO_DEFAULTS="1",
        CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS=" ".join(flags), **recipe.get("environment", {}),
    )
    # In the source, whose licences go into the wheel.
    (top / "LICENSE-crates.txt").write_text(crates.licences(source, "wasm32-wasip2"))
    output = content / (recipe["module"].replace(".", "/") + SUFFIX)
    output.parent.mkdir(parents=True, exist_ok=True)
    built = source / "build-wasi/wasm32-wasip2/release"
    shutil.copy(next(built.glob("*.wasm"), None) or next(built.glob("*.so")), output)
