"""A build backend (PEP 517) that answers with the metadata which the source distribution carries."""

import email
import pathlib
import shutil


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    metadata = email.message_from_string(pathlib.Path("PKG-INFO").read_text(encoding="utf-8"))
    info = pathlib.Path(directory, f"{metadata['Name'].replace('-', '_')}-{metadata['Version']}.dist-info")
    info.mkdir()
    shutil.copy("PKG-INFO", info / "METADATA")
    return info.name
