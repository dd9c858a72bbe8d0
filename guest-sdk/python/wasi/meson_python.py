"""Python for Meson: `meson_python.py FOLDER ARGUMENT…` runs what it is given by this Python, but answers Meson's question about
the installation with the Python that handlers run on."""

import contextlib
import io
import json
import pathlib
import runpy
import sys

from runtime import MINOR, SUFFIX, Runtime


def describe(runtime: Runtime, script: str) -> dict:
    """What Meson's own script finds out, with the target's values."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(script)
    answer = json.loads(printed.getvalue())
    nowhere, include = str(runtime.lib.parent / "none"), str(runtime.include)
    prefixes = {"prefix": nowhere, "exec_prefix": nowhere, "base_prefix": nowhere}
    answer["variables"] = runtime.variables() | prefixes | {"INCLUDEPY": include, "LIBDIR": str(runtime.lib)}
    for paths in ("paths", "sysconfig_paths"):
        answer[paths] |= {"include": include, "platinclude": include}
    packages = f"/lib/python{MINOR}/site-packages"
    answer["install_paths"] |= {"purelib": packages, "platlib": packages}
    return answer | {
        "version": MINOR, "platform": "wasi-wasm32", "suffix": SUFFIX, "limited_api_suffix": ".abi3.so",
        "is_freethreaded": False, "link_libpython": False,
    }


def main() -> None:
    folder, *arguments = sys.argv[1:]
    script = next((argument for argument in arguments[:2] if argument.endswith("python_info.py")), None)
    if script:
        print(json.dumps(describe(Runtime(pathlib.Path(folder), pathlib.Path()), script)))
        return
    import os

    # Without this folder on its path.
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
