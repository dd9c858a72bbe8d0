"""numpy's own tests in the Python of a component: `numpy_tests.py WHEELS WORK [FOLDER…]`.

In:   numpy's wheel for components in WHEELS; componentize-py and pip in the environment; `numpy-failures.txt`, the tests that are known to
      fail, each with the reason. FOLDERs are packages of numpy's, `linalg` or `lib`; without one, those in TESTED, which were run.
Out:  how many passed, failed and were skipped, and which files could not be run at all. It ends with an error if a test fails that is not
      in the list, or one of the list passes.

The tests run while a component is built, where Python has files; a component's own has none. What a build prints is shown by
componentize-py only if it fails, and no more than some kilobytes of it: the build is ended by an error, which is the report.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

import fetch

HERE = pathlib.Path(__file__).resolve().parent
TESTED = ("fft", "linalg")
# What collects the tests: pure packages.
TOOLS = ("pytest", "hypothesis")
# Modules that this Python does not have. A test that uses one is skipped.
ABSENT = ("ctypes", "mmap")
SKIPS = """
import unittest


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise unittest.SkipTest(f"{__name__} is not there")
"""
APP = """
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import numpy
import pytest

root = pathlib.Path(numpy.__file__).parent
os.chdir(root.parent)
# Named and never written to.
tempfile.tempdir = str(root.parent)


class Counted:
    def __init__(self):
        self.passed, self.skipped, self.failed, self.unread, self.file = 0, 0, {}, {}, ""

    # The last one is shown if the instance ends.
    def pytest_collectstart(self, collector):
        if collector.nodeid.endswith(".py"):
            print("collecting", collector.nodeid.rpartition("/")[2], flush=True)

    def pytest_runtest_logstart(self, nodeid):
        if (file := nodeid.partition("::")[0]) != self.file:
            self.file = file
            print("running", file.rpartition("/")[2], flush=True)

    def pytest_runtest_logreport(self, report):
        if report.failed and report.when != "teardown":
            self.failed[report.nodeid] = report.longreprtext.strip().rpartition("\\n")[2][:200]
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.unread[report.nodeid] = report.longreprtext.strip().rpartition("\\n")[2][:200]


counted = Counted()
ended = pytest.main(
    ["-p", "no:terminal", "-s", "--assert=plain", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging",
     "-W", "ignore", "-m", "not slow", "-k", "not thread and not subprocess", "--rootdir", str(root.parent), *(f"{root}/{it}/tests" for it in FOLDERS)],
    plugins=[counted],
)
report = vars(counted) | {"ended": ended}
if len(json.dumps(report)) > 6000:
    report |= {"failed": {name: said[:30] for name, said in counted.failed.items()}}
raise SystemExit("REPORT " + json.dumps(report))
"""


def main() -> None:
    wheels, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    recipe = tomllib.loads((HERE / "recipes.toml").read_text())["numpy"]
    site = work / "site"
    if not (site / "pytest").is_dir():
        prepare(next(wheels.glob(f"numpy-{recipe['version']}-*.whl")), recipe, work, site)
    total = {"passed": 0, "skipped": 0, "failed": {}, "unread": {}}
    for folder in sys.argv[3:] or TESTED:
        found = run([folder], site, work)
        print(f"{folder}: {found['passed']} passed, {len(found['failed'])} failed, {found['skipped']} skipped", flush=True)
        for key, value in found.items():
            if key in total:
                total[key] = total[key] | value if isinstance(value, dict) else total[key] + value
    raise SystemExit(judged(total, set(sys.argv[3:] or TESTED)))


def prepare(wheel: pathlib.Path, recipe: dict, work: pathlib.Path, site: pathlib.Path) -> None:
    """A folder of packages with numpy, its tests, and what they need."""
    shutil.rmtree(work, ignore_errors=True)
    source = fetch.source("numpy", recipe["version"], recipe["sha256"], work)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for tests in (source / "numpy").rglob("tests"):
        if tests.is_dir():
            shutil.copytree(tests, site / "numpy" / tests.relative_to(source / "numpy"), dirs_exist_ok=True)
    # It compares the mode of a processor's floating-point unit, by a module of C for tests, which the wheel has not.
    text = (source / "numpy/conftest.py").read_text()
    asks = "from numpy._core._multiarray_tests import get_fpu_mode\n"
    assert asks in text, "numpy/conftest.py is not the one that is known"
    (site / "numpy/conftest.py").write_text(text.replace(asks, "def get_fpu_mode():\n    return 0\n\n\n"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", site]
    subprocess.run([*pip, "--only-binary", ":all:", "--platform", "any", "--python-version", "3.14", *TOOLS], check=True)
    for name in ABSENT:
        (site / f"{name}.py").write_text(SKIPS)


def run(folders: list[str], site: pathlib.Path, work: pathlib.Path) -> dict:
    (site / "app.py").write_text(f"FOLDERS = {folders!r}\n{APP}")
    (work / "world.wit").write_text("package tests:numpy;\n\nworld nothing {}\n")
    built = subprocess.run(
        [
            pathlib.Path(sys.executable).parent / "componentize-py", "--wit-path", work / "world.wit", "--world", "nothing", "componentize",
            "--python-path", site, "--output", work / "never.wasm", "app",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    report = next((line for line in built.stdout.splitlines() if "REPORT {" in line), None)
    if report is None:
        raise SystemExit(f"{built.stdout[-6000:]}\nerror: the tests of {', '.join(folders)} did not come to their end")
    return json.JSONDecoder().raw_decode(report[report.index("{") :])[0]


def judged(total: dict, folders: set[str]) -> str | None:
    lines = (HERE / "numpy-failures.txt").read_text().splitlines()
    expected = {line.split(" ")[0] for line in lines if line and not line.startswith("#") and line.split("/")[1] in folders}
    failed, ran = set(total["failed"]), total["passed"] + len(total["failed"])
    print(f"{total['passed']} passed, {len(failed)} failed, {total['skipped']} skipped: {100 * total['passed'] / max(ran, 1):.2f} % of {ran}")
    for name, reason in total["unread"].items():
        print(f"not run: {name}: {reason}")
    for name in sorted(failed - expected):
        print(f"failed: {name}: {total['failed'][name]}")
    for name in sorted(expected - failed):
        print(f"passed, or not run, though it is in numpy-failures.txt: {name}")
    return "error: other tests fail than are expected" if failed != expected else None


if __name__ == "__main__":
    main()
