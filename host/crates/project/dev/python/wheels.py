"""Native packages of a project's environment, as components have them: `python -c … WHEELS [INTO]` in the project's folder, with the
project's own Python.

In:  the environment with what requirements.txt names; WHEELS, the folder of the wheels for components.
Out: on stdout `+FILE` for the wheel of each package that the environment has; and for each native package without one `NAME VERSION`
     and, behind a tab, the version of the wheel that does not fit. In INTO what the wheels have.
Invariant: no requirement is bent: a wheel is taken only if its version is one that every requirement allows.
"""

import importlib.metadata
import pathlib
import re
import sys
import zipfile

from pip._vendor.packaging.requirements import InvalidRequirement, Requirement

# What builds components and environments, and is in none.
TOOLS = {"componentize-py", "pip", "setuptools", "wheel"}
NATIVE = (".so", ".pyd", ".dylib")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(distributions):
    """Of each package the requirements that name it: the project's and the packages'."""
    lines = pathlib.Path("requirements.txt").read_text(encoding="utf-8-sig").splitlines()
    for distribution in distributions:
        lines += distribution.requires or []
    found = {}
    for line in lines:
        try:
            requirement = Requirement(re.sub(r"\s#.*", "", line).strip())
        except InvalidRequirement:
            # A comment, an option of pip's, a path.
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.setdefault(normal(requirement.name), []).append(requirement)
    return found


def main():
    folder, *into = map(pathlib.Path, sys.argv[1:])
    wheels = {}
    for wheel in sorted(folder.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        wheels[normal(name)] = (version, wheel)
    distributions = [it for it in importlib.metadata.distributions() if normal(it.name) not in TOOLS]
    wanted = requirements(distributions)
    for distribution in sorted(distributions, key=lambda it: normal(it.name)):
        name = normal(distribution.name)
        is_native = any(str(file).endswith(NATIVE) for file in distribution.files or [])
        version, wheel = wheels.get(name, ("", None))
        fits = wheel and all(it.specifier.contains(version, prereleases=True) for it in wanted.get(name, []))
        if fits:
            print(f"+{wheel.name}")
            for place in into:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(place)
        elif is_native:
            print(f"{distribution.name} {distribution.version}\t{version}")


main()
