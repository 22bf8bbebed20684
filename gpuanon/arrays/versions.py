"""Versions of installed libraries, which need not be imported for it."""

from __future__ import annotations

import re
from importlib.metadata import distribution, version


def installed_version(name: str) -> str:
    """The version of an installed library; `PackageNotFoundError` if there is none.

    `importlib.metadata.version` parses all of a library's metadata, most of which is the text of licences.
    """
    found = re.search(r"^Version: *(\S+)", distribution(name).read_text("METADATA") or "", re.MULTILINE)
    return found[1] if found else version(name)
