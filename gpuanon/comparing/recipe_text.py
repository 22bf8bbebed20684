"""A recipe as text that can be read again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuanon.visible import json_text, visible

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def recipe_text(data: Mapping[str, Any], path: Path) -> str:
    """The structure of a recipe as TOML, or as JSON where the name of the file ends so."""
    if path.suffix.lower() == ".json":
        return json_text(data, indent=2) + "\n"
    lines = [f"{_key(name)} = {_value(value)}" for name, value in data.items() if not _is_section(value)]
    for name, value in data.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(name)}]", *(f"{_key(inner)} = {_value(one)}" for inner, one in value.items())]
        elif _is_section(value):
            for table in value:
                lines += ["", f"[[{_key(name)}]]", *(f"{_key(inner)} = {_value(one)}" for inner, one in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_section(value: Any) -> bool:
    """Whether a value is written as tables of its own."""
    return isinstance(value, Mapping) or (
        isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and isinstance(value[0], Mapping)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(name))} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    """A basic string: what JSON escapes TOML escapes alike."""
    return visible(json.dumps(text, ensure_ascii=False))
