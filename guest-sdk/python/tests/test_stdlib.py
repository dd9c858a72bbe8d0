"""What the standard library imports later is there without files: in a process of its own, which loses them."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

from modelhost_guest import _host

# As a component does: everything at once, then no file to import from.
WITHOUT_FILES = """
import sys
{imports}
sys.platform = "wasi"
from modelhost_guest import _stdlib
_stdlib.whole(lambda: None)()
sys.meta_path[:] = [it for it in sys.meta_path if getattr(it, "__name__", "") in ("BuiltinImporter", "FrozenImporter")]
sys.path[:] = []
sys.path_importer_cache.clear()
{then}
"""


def without_files(imports, then, path=()):
    code = WITHOUT_FILES.format(imports=imports, then=then)
    variables = {"PYTHONPATH": ":".join([*map(str, path), *sys.path]), "PYTHONTZPATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, cwd=tempfile.gettempdir())
    return ran.stdout.strip() or ran.stderr


class StdlibTest(unittest.TestCase):
    def test_what_is_imported_later_is_there(self):
        for imports, then, expected in [
            ("import datetime", "datetime.datetime.strptime('2024', '%Y').year", "2024"),
            ("import time", "time.strptime('2024', '%Y').tm_year", "2024"),
            ("", "b'\\x80'.decode('cp1252')", "'€'"),
            ("", "'bücher.de'.encode('idna')", "b'xn--bcher-kva.de'"),
            ("", "b'\\xef\\xbb\\xbfx'.decode('utf-8-sig')", "'x'"),
            ("", "b'\\x82\\xa0'.decode('shift_jis')", "'あ'"),
            ("", "[ 'é'.encode(it).hex() for it in ('latin9', 'utf-16-be', 'mac-roman', 'cp037', 'utf-7')]", None),
            ("import uuid", "uuid.uuid5(uuid.NAMESPACE_DNS, 'x').version", "5"),
            ("import collections", "collections.Counter('aab').most_common(1)", "[('a', 2)]"),
            ("import xml.etree.ElementTree as it", "it.fromstring('<a>1</a>').text", "'1'"),
            ("import xml.dom.minidom as it", "it.parseString('<a/>').documentElement.tagName", "'a'"),
            ("import email", "email.message_from_string('A: 1\\n\\nx').as_string()", "'A: 1\\n\\nx'"),
            ("import fractions", "fractions.Fraction('0.5') + fractions.Fraction.from_decimal(__import__('decimal').Decimal('0.5'))", "Fraction(1, 1)"),
        ]:
            told = without_files(imports, f"print(repr({then}))")
            if expected is None:
                self.assertTrue(told.startswith("['") and "Error" not in told, told)
            else:
                self.assertEqual(told, expected, then)

    def test_a_pool_runs_what_it_is_given_at_once(self):
        imports = "import asyncio, threading\nfrom concurrent.futures import ThreadPoolExecutor, as_completed"
        then = """
def no_threads(*arguments, **named):
    raise RuntimeError("can't start new thread")
threading.Thread.start = no_threads
def nested(pool):
    return pool.submit(lambda: "nested").result()
def fails():
    raise ValueError("why")
begun = []
with ThreadPoolExecutor(2, initializer=begun.append, initargs=(1,)) as pool:
    print(list(pool.map(lambda n: n * n, range(3))), nested(pool), pool.submit(nested, pool).result(), begun)
    print(repr(pool.submit(fails).exception()), [it.result() for it in as_completed([pool.submit(str, 1)])])
try:
    pool.submit(str)
except RuntimeError as error:
    print(error)
async def both():
    return await asyncio.gather(asyncio.to_thread(str, 1), asyncio.get_running_loop().run_in_executor(None, str, 2))
from modelhost_guest import _aio
print(_aio.run(both()), asyncio.run(both()))
"""
        expected = [
            "[0, 1, 4] nested nested [1]",
            "ValueError('why') ['1']",
            "cannot schedule new futures after shutdown",
            "['1', '2'] ['1', '2']",
        ]
        self.assertEqual(without_files(imports, then).splitlines(), expected)

    def test_zones_of_the_package_are_there(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        package = pathlib.Path(folder, "tzdata")
        (package / "zoneinfo/Etc").mkdir(parents=True)
        for it in ("", "zoneinfo", "zoneinfo/Etc"):
            (package / it / "__init__.py").write_text("")
        (package / "zones").write_text("Etc/Ours\nEtc/Same\n")
        # TZif, version 1: one type, two hours east.
        counts = b"".join(it.to_bytes(4, "big") for it in (0, 0, 0, 0, 1, 4))
        zone = b"TZif" + bytes(16) + counts + (7200).to_bytes(4, "big") + b"\0\0" + b"OUR\0"
        for name in ("Ours", "Same"):
            (package / f"zoneinfo/Etc/{name}").write_bytes(zone)
        then = """
for name in ("Etc/Ours", "Etc/Same", "Etc/Other"):
    try:
        print(datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo(name)).utcoffset())
    except zoneinfo.ZoneInfoNotFoundError as error:
        print(error)
print(sorted(zoneinfo.available_timezones()))
"""
        told = without_files("import datetime, zoneinfo", then, [folder])
        expected = ["2:00:00", "2:00:00", "'No time zone found with key Etc/Other'", "['Etc/Ours', 'Etc/Same']"]
        self.assertEqual(told.splitlines(), expected)

    def test_what_a_component_has_not_comes_with_a_hint(self):
        def told(function):
            try:
                function()
            except Exception as error:
                return _host.said(error)

        def late():
            import not_there  # noqa: F401

        def no_thread():
            raise RuntimeError("can't start new thread")

        for function, hint in [
            (late, "; hint: import it at the top of the module"),
            (no_thread, "; hint: there are no threads"),
            (lambda: zlib.decompress(b"x"), ")"),
        ]:
            self.assertIn("test_stdlib.py:", told(function))
            self.assertIn(hint, told(function))
        self.assertNotIn("hint:", told(lambda: 1 / 0))


if __name__ == "__main__":
    unittest.main()
