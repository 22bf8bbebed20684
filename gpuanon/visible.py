"""Text of others made safe to show: names of columns, files and levels may hold anything.

A terminal obeys escape sequences: they recolour, move, retitle, or paste.  Overrides of direction and invisible
characters let one name look like another.  Each such character is shown as its escape, ``\\u001b``, which reads back as
the same character in JSON and in TOML.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tab and newline
    "\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff"  # half of a pair: from names of files that are no UTF-8, and not to be written as text
    "\U000e0000-\U000e0fff"  # tags, and selectors of variants
)
_IN_TEXT, _IN_LINE = re.compile(f"[{_HIDDEN}]"), re.compile(f"[\t\n{_HIDDEN}]")


def visible(text: str, *, lines: bool = True) -> str:
    """The text with what a terminal would obey, or nobody would see, as escapes.

    lines : whether newlines and tabs are the text's own; False for what has to stay one line

    Examples
    --------
    >>> visible("age\\x1b[2J"), visible("a\\nb", lines=False)
    ('age\\\\u001b[2J', 'a\\\\u000ab')
    """
    return (_IN_TEXT if lines else _IN_LINE).sub(_escape, text)


def json_text(data: Any, **options: Any) -> str:
    """Strict JSON in which the same characters are escaped; other text stays as it is."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, **options)
    return _IN_TEXT.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
