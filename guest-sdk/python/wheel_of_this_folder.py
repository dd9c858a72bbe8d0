"""Makes the wheel, as pip asks for it (PEP 517): the modules, the metadata of pyproject.toml, and the list of both.

The same sources make the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import zipfile

HERE = pathlib.Path(__file__).parent
PACKAGE = "modelhost_guest"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder and returns its name."""
    field = dict(re.findall(r'^([a-z-]+) = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE))
    info = f"{PACKAGE}-{field['version']}.dist-info"
    sources = [path for path in sorted((HERE / PACKAGE).iterdir()) if path.suffix in (".py", ".typed")]
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sources}
    head = {
        "Metadata-Version": "2.4",
        "Name": field["name"],
        "Version": field["version"],
        "Summary": field["description"],
        "License-Expression": field["license"],
        "Requires-Python": field["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    readme = (HERE / "README.md").read_text()
    files[f"{info}/METADATA"] = ("".join(f"{key}: {value}\n" for key, value in head.items()) + f"\n{readme}").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: modelhost\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{PACKAGE}-{field['version']}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
