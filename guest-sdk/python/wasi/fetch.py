"""Source distributions from PyPI, by pip, checked against the recipe's digest and unpacked."""

import os
import pathlib
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent


def source(name: str, version: str, sha256: str, folder: pathlib.Path) -> pathlib.Path:
    """The folder with the package's source, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes",
            "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", folder, "-r", requirement,
        ],
        env=os.environ | {"PYTHONPATH": str(HERE / "sdist")},
        check=True,
    )
    archive = next(folder.glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")
