"""Gives a project of `modelhost new` the packages that its manifest names, as the first `modelhost build` would install them.

    packages.py PROJECT

Packages are installed once for all projects with the same manifest and the same SDK, in target/tmp/packages; a project gets the
environment of Python as a link, `node_modules` as a tree of hard links where it can be. It does so for the time's sake: what `build` installs by
itself is tested in tests/it/project.rs. A project without packages is left alone.
"""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

SHARED = pathlib.Path(__file__).parent.parent.resolve() / "target/tmp/packages"
SDK = "modelhost-guest"
NPM = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]


def lend(project):
    for manifest, install, give in [
        ("package.json", install_node, give_node),
        ("requirements.txt", install_python, give_python),
    ]:
        if (project / manifest).is_file():
            shared = installed(project, manifest, install)
            private = project / ".modelhost"
            private.mkdir(exist_ok=True)
            give(shared, project)
            # By this `build` knows that there is nothing to install.
            shutil.copyfile(project / manifest, private / manifest)


def installed(project, manifest, install):
    """The folder with what the manifest names."""
    # The name of the project.
    text = re.sub(r'^  "name": .*\n', "", (project / manifest).read_text(), flags=re.M)
    digest = hashlib.sha256(text.encode())
    for file in sorted(it for it in (project / SDK).rglob("*") if it.is_file()):
        digest.update(str(file.relative_to(project)).encode() + b"\0" + file.read_bytes())
    folder = SHARED / digest.hexdigest()[:16]
    SHARED.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            shutil.copy(project / manifest, folder)
            shutil.copytree(project / SDK, folder / SDK)
            install(folder, manifest)
            (folder / "installed").touch()
    return folder


def install_node(folder, _):
    subprocess.run(NPM, cwd=folder, check=True)


def install_python(folder, manifest):
    subprocess.run(["python3", "-m", "venv", "python"], cwd=folder, check=True)
    subprocess.run(["python/bin/python", *PIP, manifest], cwd=folder, check=True)


def give_node(shared, project):
    shutil.copytree(shared / "node_modules", project / "node_modules", symlinks=True, copy_function=link)


def link(file, target):
    try:
        os.link(file, target)
    except OSError:
        # Another file system.
        shutil.copy2(file, target)


def give_python(shared, project):
    (project / ".modelhost/python").symlink_to(shared / "python")


if __name__ == "__main__":
    lend(pathlib.Path(sys.argv[1]).resolve())
