"""Wheels of native packages for handlers in Python, from PyPI's source distributions: `build.py ZIG OUT WORK [PACKAGE…]`.

In:   `recipes.toml`, a recipe for each package; Zig, componentize-py, Cython and Ninja in the environment (scripts/wasi-wheels.sh).
Out:  a wheel of each package in OUT. A wheel that was made of the same recipe by the same scripts and tools is left as it is.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import tomllib
from importlib.metadata import version

import fetch
import runtime
import ways
import wheel

HERE = pathlib.Path(__file__).resolve().parent
JOBS = 2


def main() -> None:
    zig, out, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    recipes = tomllib.loads((HERE / "recipes.toml").read_text())
    wanted = sys.argv[4:] or list(recipes)
    if unknown := [name for name in wanted if name not in recipes]:
        raise SystemExit(f"error: no recipe for {', '.join(unknown)}\nhint: recipes.toml has {', '.join(recipes)}")
    scripts = scripts_digest()
    stale = {name: digest for name in wanted if not is_made(name, digest := recipe_digest(recipes[name], scripts), out, work)}
    if not stale:
        return
    target = work / "runtime"
    # Half a folder, of a build that was interrupted, is not there.
    complete = target / scripts
    if not complete.exists():
        shutil.rmtree(target, ignore_errors=True)
        print("==> unpacking componentize-py's Python and getting its headers", file=sys.stderr)
        runtime.prepare(target, zig)
        complete.touch()
    tools = ways.Tools(work / "tools", runtime.Runtime(target, zig), JOBS)
    for name, digest in stale.items():
        print(f"==> building {name} {recipes[name]['version']} for handlers", file=sys.stderr)
        made = build(name, recipes[name], out, work / "packages" / name, tools)
        (work / f"{name}.made").write_text(f"{digest} {made.name}")
        print(f"    {made.name}, {made.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


def build(name: str, recipe: dict, out: pathlib.Path, work: pathlib.Path, tools: ways.Tools) -> pathlib.Path:
    shutil.rmtree(work, ignore_errors=True)
    source = fetch.source(name, recipe["version"], recipe["sha256"], work)
    ways.build(recipe, source, work / "content", tools)
    for former in out.glob(f"{source.name.rpartition('-')[0]}-*.whl"):
        former.unlink()
    made = wheel.pack(work / "content", source, {"zig.LICENSE": licence(tools)}, out)
    shutil.rmtree(work)
    return made


def licence(tools: ways.Tools) -> bytes:
    """Of Zig, whose functions of the compiler are linked into native modules."""
    return (tools.runtime.zig.parent / "LICENSE").read_bytes()


def is_made(name: str, digest: str, out: pathlib.Path, work: pathlib.Path) -> bool:
    made = work / f"{name}.made"
    if not made.exists():
        return False
    of, file = made.read_text().split(" ", 1)
    return of == digest and (out / file).is_file()


def recipe_digest(recipe: dict, scripts: str) -> str:
    made_by = hashlib.sha256((json.dumps(recipe, sort_keys=True) + scripts).encode())
    for path in sorted((HERE / recipe["beside"]).rglob("*")) if "beside" in recipe else []:
        if path.is_file():
            made_by.update(path.read_bytes())
    return made_by.hexdigest()


def scripts_digest() -> str:
    """Of what every package is made by: these files and the tools' versions."""
    made_by = hashlib.sha256()
    for path in sorted([*HERE.glob("*.py"), *(HERE / "sdist").glob("*.py"), *(HERE / "target").glob("*.[ch]")]):
        made_by.update(path.read_bytes())
    for tool in ("componentize-py", "ziglang", "cython"):
        made_by.update(version(tool).encode())
    return made_by.hexdigest()


if __name__ == "__main__":
    os.umask(0o022)
    main()
