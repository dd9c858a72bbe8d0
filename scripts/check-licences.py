"""Checks the licence of every dependency against deny.toml, without a network.

In: `cargo metadata`, deny.toml (the part of cargo-deny's format that is about licences).
Out: exit status 0, or one line on stderr for each dependency whose licence is not allowed, and for each exception
that nothing needs any more.

cargo-deny checks the same and more; this stands in where it is not installed.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib


def main() -> int:
    configuration = tomllib.loads(pathlib.Path("deny.toml").read_text())
    rules = configuration["licenses"]
    allowed = set(rules["allow"])
    exceptions = {entry["crate"]: set(entry["allow"]) for entry in rules.get("exceptions", [])}
    # What only other platforms need does not count.
    packages = dependencies(configuration["graph"]["targets"])

    problems = []
    used = set()
    for package in packages:
        name = package["name"]
        expression = package["license"]
        if not expression:
            problems.append(f"{name} {package['version']}: no licence expression in its manifest")
        elif satisfied(expression, allowed):
            continue
        elif name in exceptions and satisfied(expression, allowed | exceptions[name]):
            used.add(name)
        else:
            problems.append(f"{name} {package['version']}: `{expression}` is not allowed by deny.toml")
    problems += [f"{name}: the exception in deny.toml is not needed" for name in exceptions if name not in used]

    for problem in sorted(problems):
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        print(f"    licences of {len(packages)} packages are allowed", file=sys.stderr)
    return 1 if problems else 0


def dependencies(targets: list[str]) -> list[dict]:
    """What cargo says of every package in the lockfile that one of the targets needs."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for target in targets:
        command += ["--filter-platform", target]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["packages"]


def satisfied(expression: str, allowed: set[str]) -> bool:
    """Whether the allowed licences satisfy an SPDX expression: `AND` binds tighter than `OR`."""
    # Old manifests separate alternatives with a slash.
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def peek() -> str | None:
        return tokens[position] if position < len(tokens) else None

    def take() -> str:
        nonlocal position
        position += 1
        return tokens[position - 1]

    def alternative() -> bool:
        result = conjunction()
        while peek() == "OR":
            take()
            # Not `or`: the right side has to be read even if the left one suffices.
            result |= conjunction()
        return result

    def conjunction() -> bool:
        result = term()
        while peek() == "AND":
            take()
            result &= term()
        return result

    def term() -> bool:
        token = take()
        if token == "(":
            result = alternative()
            take()
            return result
        if peek() == "WITH":
            take()
            token = f"{token} WITH {take()}"
        return token in allowed

    return alternative()


if __name__ == "__main__":
    sys.exit(main())
