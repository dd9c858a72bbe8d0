"""Finds the components in cargo's messages.

In: `cargo build --message-format json` on stdin; the kind of target, `lib` or `example`, as the argument.
Out: one line for each of the workspace's own components, NAME <tab> FILE. A handler is named after its package
(`iris-wasm`), a library for handlers after its folder (`image`), an example after itself.
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
    # `examples/iris-wasm` holds the package `iris-wasm`, `guest-sdk/library/image` the library `image`; the SDK is neither.
    if not is_example and manifest.parent.parent not in (here / "examples", here / "guest-sdk/library"):
        continue
    name = target["name"] if is_example else manifest.parent.name
    for file in message["filenames"]:
        if file.endswith(".wasm"):
            print(name, file, sep="\t")
