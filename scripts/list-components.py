"""Finds the components in cargo's messages.

In: `cargo build --message-format json` on stdin; the kind of target, `lib` or `example`, as the argument.
Out: one line for each of the workspace's own components, NAME <tab> FILE. A library is named after its package
(`iris-wasm`), an example after itself.
"""

import json
import pathlib
import sys

kind = sys.argv[1]
here = pathlib.Path.cwd()
for line in sys.stdin:
    message = json.loads(line)
    if message["reason"] != "compiler-artifact":
        continue
    manifest = pathlib.Path(message["manifest_path"])
    target = message["target"]
    is_example = "example" in target["kind"]
    if here not in manifest.parents or is_example != (kind == "example"):
        continue
    # `examples/iris-wasm` holds the package `iris-wasm`; libraries beside examples/ (the SDK) are no handlers.
    if not is_example and manifest.parent.parent != here / "examples":
        continue
    name = target["name"] if is_example else manifest.parent.name
    for file in message["filenames"]:
        if file.endswith(".wasm"):
            print(name, file, sep="\t")
