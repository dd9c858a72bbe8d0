"""The crates that a package depends on: where their sources are, and the licences of those that a module is linked with."""

import json
import os
import pathlib
import subprocess

# Of `scripts/`, as the program's own list of what it is linked with.
from linked import linked

PATTERNS = ("LICEN[CS]E*", "COPYING*", "NOTICE*")


def metadata_of(source: pathlib.Path, *options: str) -> dict:
    command = ["cargo", "metadata", "--format-version=1", "--locked", *options]
    told = subprocess.run(command, cwd=source, env=os.environ, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return json.loads(told.stdout)


def folders(source: pathlib.Path) -> dict[str, pathlib.Path]:
    """Where the sources of each crate are that the package in `source` depends on, on any platform."""
    packages = metadata_of(source)["packages"]
    return {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in packages}


def licences(source: pathlib.Path, target: str) -> str:
    """Name, version, expression and texts of each crate that the package in `source` links for this target."""
    metadata = metadata_of(source, f"--filter-platform={target}")
    packages = {package["id"]: package for package in metadata["packages"]}
    root = metadata["resolve"]["root"]
    crates = [packages[package] for package in linked(metadata, root) if package != root]
    parts = []
    for package in sorted(crates, key=lambda package: (package["name"], package["version"])):
        folder = pathlib.Path(package["manifest_path"]).parent
        files = [path for pattern in PATTERNS for path in sorted(folder.glob(pattern)) if path.is_file()]
        heading = f"{package['name']} {package['version']}: {package['license'] or 'see below'}"
        parts += [heading, "=" * len(heading), *(path.read_text(errors="replace").strip() for path in files), ""]
    return "\n\n".join(parts)
