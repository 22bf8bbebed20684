"""The digest of a release, by which its manifest and its link recognise it.

The manifest is public, so it holds a digest of the release, which is public too, and none of the link.  A digest of a
link is a function of private data: whoever has it can try every order of a small table until the digest agrees (three
records have six), and so learn who is who.  A salt in the manifest would not change that, and a key is not kept.
The other way round nothing is told: a file beside the link, private as the link is, holds the digest of its release.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gpuanon.errors import InputError

ALGORITHM = "blake2b-256"
_SIZE = 32


def digest_of(path: Path) -> str:
    """BLAKE2b of a file's bytes; of a folder, of its parts' digests in the order of their names."""
    try:
        if not path.is_dir():
            return _bytes_of(path).hex()
        whole = hashlib.blake2b(digest_size=_SIZE)
        for part in sorted(path.glob("*.parquet")):
            whole.update(_bytes_of(part))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'input/output error'})") from None
    return whole.hexdigest()


def _bytes_of(file: Path) -> bytes:
    """The digest of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=_SIZE)).digest()


def mark_path(link: Path) -> Path:
    """The file beside a link that says which release it belongs to."""
    return link.with_name(link.name + ".release.json")


def link_mark(digest: str) -> str:
    """The content of that file."""
    return json.dumps({"link_of": digest, "algorithm": ALGORITHM}) + "\n"


def marked_release(link: Path) -> str | None:
    """The digest of the release that a link belongs to; None where nothing says it."""
    return release_in(mark_path(link))


def release_in(mark: Path) -> str | None:
    """The digest in the file beside a link; None if it is not one."""
    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    digest = found.get("link_of") if isinstance(found, dict) else None
    return digest if isinstance(digest, str) else None
