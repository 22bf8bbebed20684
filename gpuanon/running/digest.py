"""The digest of a release, by which its manifest recognises it.

The manifest is public, so it holds a digest of the release, which is public too, and none of the link.  A digest of a
link is a function of private data: whoever has it can try every order of a small table until the digest agrees (three
records have six), and so learn who is who.  A salt in the manifest would not change that, and a key is not kept.  A
link is therefore checked by its length, and against a release that is still the one that was written.
"""

from __future__ import annotations

import hashlib
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
