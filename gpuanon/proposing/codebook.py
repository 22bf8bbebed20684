"""What is known of a table beforehand: a codebook, or the labels of an SPSS or Stata file.  What it says wins.

A codebook is a CSV with a row for each column, or JSON: a list of objects, or an object by the names of the columns.
Known fields are name, label (or description), type, levels (or values), missing and role; the data dictionaries of
NIST's excerpts are read as they are.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from gpuanon.errors import InputError, nearest
from gpuanon.tables.formats import find_format
from gpuanon.tables.formats.csv.csv_dialect import WORDS
from gpuanon.tables.schema import Kind, Role

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "variable", "column", "variable name", "field", "merkmal", "variable_name"),
    "label": ("label", "description", "variable label", "text", "beschreibung", "libelle", "etiqueta", "title"),
    "type": ("type", "kind", "measure", "level of measurement", "datatype", "data_type", "typ"),
    "levels": ("levels", "values", "categories", "value labels", "codes", "value_labels"),
    "missing": ("missing", "missing codes", "missing values", "missing_codes", "missing_values", "nulls"),
    "role": ("role",),
}
_KINDS: Mapping[Kind, tuple[str, ...]] = {
    "numeric": ("numeric", "number", "integer", "int", "float", "double", "continuous", "scale", "real", "decimal"),
    "ordinal": ("ordinal", "ordered"),
    "categorical": (
        "categorical", "category", "nominal", "factor", "code", "string", "text", "boolean", "bool", "binary",
    ),
    "date": ("date", "datetime", "time", "timestamp"),
}  # fmt: skip
_NO_VALUE = re.compile(rf"(?i)(?:n/a|{'|'.join(map(re.escape, (word for word in WORDS if len(word) > 3)))})\b.*")


@dataclass(frozen=True)
class Entry:
    """What is known of a column.

    levels  : code → label, in their order; empty: nothing is said
    missing : codes for no value
    """

    label: str = ""
    kind: Kind | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    role: Role | None = None


Codebook = Mapping[str, Entry]


def read_codebook(path: Path) -> Codebook:
    """The codebook in a file, .csv or .json."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return _from_json(json.loads(text))
        if path.suffix.lower() == ".csv":
            return _from_csv(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'not allowed'})") from None
    except UnicodeError:
        raise InputError(f"{path}: is not UTF-8 text", hint="save the codebook as UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: is no JSON (line {error.lineno})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    raise InputError(f"{path}: a codebook is .csv or .json")


def labels_of(path: Path) -> Codebook:
    """The labels of the columns of an SPSS or Stata file; nothing for other formats, whose files have none.

    Labels of values are the levels that the table is read with.
    """
    form = find_format(path)
    if form is None or form.labels is None:
        return {}
    return {name: Entry(label=label) for name, label in form.labels(path).items() if label}


def unknown_columns(codebook: Codebook, names: Iterable[str]) -> list[str]:
    """A note on entries that are of no column."""
    known = set(names)
    strange = [name for name in codebook if name not in known]
    if not strange:
        return []
    if len(strange) == len(codebook):
        raise InputError("codebook: none of its names is a column of the table", hint="names are compared exactly")
    listed = ", ".join(map(repr, strange[:5])) + (" and others" if len(strange) > 5 else "")
    return [f"codebook: {len(strange)} of its {len(codebook)} names are no columns of the table: {listed}"]


def _from_json(data: Any) -> Codebook:
    if isinstance(data, dict):
        for key in ("columns", "variables", "fields"):
            if isinstance(data.get(key), (dict, list)):
                data = data[key]
                break
    if isinstance(data, dict):
        data = [{"name": name, **about} for name, about in data.items() if isinstance(about, dict)]
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise InputError("a codebook is a list of columns, or an object by their names")
    return _entries([_known_fields(one) for one in data])


def _from_csv(text: str) -> Codebook:
    head = text.splitlines()[0] if text.strip() else ""
    rows = csv.DictReader(text.splitlines(), delimiter=max(",;\t", key=head.count))
    return _entries([_known_fields(row) for row in rows])


def _known_fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields of a row under their own names."""
    by = {str(key).strip().lower(): value for key, value in row.items() if key is not None}
    return {name: next((by[other] for other in others if by.get(other)), None) for name, others in _FIELDS.items()}


def _entries(rows: list[dict[str, Any]]) -> Codebook:
    found: dict[str, Entry] = {}
    for at, row in enumerate(rows, 1):
        if not row["name"]:
            raise InputError(f"entry {at} has no name")
        found[str(row["name"]).strip()] = _entry(row)
    if not found:
        raise InputError("the codebook has no entries")
    return found


def _entry(row: Mapping[str, Any]) -> Entry:
    name, role = str(row["name"]).strip(), row["role"]
    if role is not None and str(role).strip().lower() not in get_args(Role):
        known = get_args(Role)
        raise InputError(f"{name!r}: role {str(role)!r} is none of {', '.join(known)}{nearest(str(role), known)}")
    said = str(row["type"]).strip().lower() if row["type"] else ""
    kind = next((kind for kind, words in _KINDS.items() if said in words), None)
    if said and kind is None:
        raise InputError(f"{name!r}: type {said!r} is none of {', '.join(one for w in _KINDS.values() for one in w)}")
    levels = _levels(row["levels"])
    ranged = {"min", "max"} <= levels.keys()
    levels = {code: label for code, label in levels.items() if code not in ("min", "max")}
    missing = list(_listed(row["missing"]))
    kind = kind or ("numeric" if ranged else None)
    if kind != "categorical":
        missing += [code for code, label in levels.items() if _NO_VALUE.fullmatch(label) and code not in missing]
    return Entry(
        label=str(row["label"] or "").strip(),
        kind=kind,
        levels={} if ranged else levels,
        missing=tuple(missing),
        role=None if role is None else next(one for one in get_args(Role) if one == str(role).strip().lower()),
    )


def _levels(given: Any) -> dict[str, str]:
    """Code → label, from an object, a list, or text such as ``1=male; 2=female`` or ``low | middle | high``."""
    if not given:
        return {}
    if isinstance(given, dict):
        return {str(code): str(label) for code, label in given.items()}
    if isinstance(given, list):
        pairs = [(one.get("code", one.get("value")), one.get("label", "")) if isinstance(one, dict) else (one, "")
                 for one in given]  # fmt: skip
        return {str(code): str(label) for code, label in pairs}
    parts = [part.strip() for part in re.split(r"[;|\n]", str(given)) if part.strip()]
    found = [re.match(r"([^=:]+?)\s*[=:]\s*(.*)", part) for part in parts]
    return {one[1]: one[2] for one in found if one} if all(found) else dict.fromkeys(parts, "")


def _listed(given: Any) -> tuple[str, ...]:
    """Codes for no value: a list, or text with commas, semicolons or bars between."""
    if given is None:
        return ()
    if isinstance(given, (list, tuple)):
        return tuple(str(one) for one in given)
    return tuple(part.strip() for part in re.split(r"[;,|]", str(given)) if part.strip())
