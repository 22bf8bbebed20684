"""Hierarchies of a column's values: files of ``leaf,level1,level2,…``, one line per leaf, without a header.

Values are compared with the leaves as text: whole numbers in digits (``39``), floats by their shortest form (``39.5``;
``39.0`` is also found as ``39``), dates and times by ISO 8601, a time at midnight by its date.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import InputError, RecipeError
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.built_hierarchy import Build
from gpuanon.tables.values import family, value_type

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED_LINES = 5


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """The generalisations of the values of one column.

    column : name of the column
    file   : name of the file
    paths  : for each leaf its ancestors, from depth 1 on
    depth  : number of levels above the leaves
    """

    column: str
    file: str
    paths: dict[str, tuple[str, ...]]
    depth: int

    @classmethod
    def read(cls, path: Path, column: str) -> Hierarchy:
        """Read the hierarchy of `column`; separators are ``,`` or ``;``, the text is UTF-8 with or without a mark.

        Raises
        ------
        InputError : every fault of the file at once, by the numbers of its lines and never by its values
        """
        about = f"column {column!r}: hierarchy {path.name}"
        numbers, rows = _lines(path, about)
        faults = _faults(numbers, rows)
        if faults:
            raise InputError("\n".join(f"{about}: {fault}" for fault in faults))
        return cls(column, path.name, {row[0]: tuple(row[1:]) for row in rows}, len(rows[0]) - 1)

    @classmethod
    def built(cls, build: Build, column: str, values: pa.Array, counts: Host) -> Hierarchy:
        """Build the hierarchy of `column` from its distinct `values`, in their order, and the records of each.

        Raises
        ------
        RecipeError : the values cannot be divided so
        """
        texts = [text for text in value_texts(values) if text is not None]
        try:
            labels = build.labels(values, counts, texts) if texts else []
        except RecipeError as error:
            raise RecipeError(f"column {column!r}: {error}") from None
        labels += [["*"] * len(texts)] if build.star else []
        paths = {text: tuple(level[at] for level in labels) for at, text in enumerate(texts)}
        return cls(column, "its hierarchy", paths, len(labels))

    def ancestors(self, levels: pa.Array) -> tuple[Host, tuple[pa.Array, ...]]:
        """Ancestors of the distinct values of the column, which ascend.

        Returns
        -------
        codes  : (values, depth + 1) int64 code of each value's ancestor at each depth.  Depth 0 is the value itself.
            Nodes of a depth are numbered in the order of the first value below them, so that bands of numbers keep
            their order.  A null has the code −1 at every depth
        labels : for each depth the text of each code; only nodes that occur

        Raises
        ------
        InputError : values are not leaves; it says how many
        """
        import pyarrow as pa

        texts = [self._leaf(text) for text in value_texts(levels)]
        missing = sum(text is not None and text not in self.paths for text in texts)
        if missing:
            values = sum(text is not None for text in texts)
            raise InputError(
                f"column {self.column!r}: {missing} of its {values} distinct values are not leaves of {self.file}",
                hint="add a line for each of them to the hierarchy",
            )
        codes = np.full((len(texts), self.depth + 1), -1, dtype=np.int64)
        labels = []
        for depth in range(self.depth + 1):
            numbers: dict[str, int] = {}
            for row, text in enumerate(texts):
                if text is not None:
                    node = text if depth == 0 else self.paths[text][depth - 1]
                    codes[row, depth] = numbers.setdefault(node, len(numbers))
            labels.append(arrow_array(list(numbers), pa.large_string()))
        return codes, tuple(labels)

    def shares(self, levels: pa.Array) -> Host:
        """(values, depth + 1) share of all leaves, also of those that do not occur, below each value's ancestor."""
        below = [Counter(path[depth] for path in self.paths.values()) for depth in range(self.depth)]
        out = np.full((len(levels), self.depth + 1), 1 / max(len(self.paths), 1))
        for row, text in enumerate(self._leaf(text) for text in value_texts(levels)):
            if text is not None:
                out[row, 1:] = [
                    count[node] / len(self.paths) for count, node in zip(below, self.paths[text], strict=True)
                ]
        return out

    def _leaf(self, text: str | None) -> str | None:
        """The leaf of a value's text: itself, or a whole float without its fraction."""
        if text is not None and text not in self.paths and text.endswith(".0") and text[:-2] in self.paths:
            return text[:-2]
        return text

    def __repr__(self) -> str:
        return f"Hierarchy({len(self.paths)} leaves, {self.depth} levels)"


def value_texts(values: pa.Array) -> list[str | None]:
    """The text by which each value is compared with the leaves of a hierarchy; None for null and NaN."""
    import pyarrow as pa

    values = values.cast(value_type(values.type))
    if pa.types.is_floating(values.type):
        numbers = numpy_array(values) + 0.0  # one zero
        return [None if np.isnan(number) else str(number) for number in numbers]
    if pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    texts = values.cast(pa.large_string()).to_pylist()
    return [_iso(text) for text in texts] if family(values.type) == "time" else texts


def _iso(text: str | None) -> str | None:
    """A point in time as Arrow writes it, by ISO 8601; only the date at midnight."""
    day, space, time = (text or "").partition(" ")
    if not space:
        return text
    return day if not time.strip("0:.Z") else f"{day}T{time}"


def _lines(path: Path, about: str) -> tuple[list[int], list[list[str]]]:
    """Number and cells of each line that is not blank."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{about}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{about}: not UTF-8 text", hint="save the file as UTF-8") from None
    try:
        commas, semicolons = (_parsed(text, separator) for separator in ",;")
    except csv.Error as error:
        raise InputError(f"{about}: cannot be read as lines of cells ({error})") from None
    # A separator inside a cell makes lines of different lengths; the right one divides all lines alike.
    return max((semicolons, commas), key=_plausible)


def _parsed(text: str, separator: str) -> tuple[list[int], list[list[str]]]:
    """Number and cells of each line, by this separator."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    numbered = [(reader.line_num, row) for row in reader if row]
    return [number for number, _ in numbered], [row for _, row in numbered]


def _plausible(parsed: tuple[list[int], list[list[str]]]) -> tuple[bool, int, int]:
    """The larger, the more the lines look divided by the right separator."""
    rows = parsed[1]
    width = len(rows[0]) if rows else 0
    return width > 1, -len(_ragged(rows)), width


def _ragged(rows: Sequence[Sequence[str]]) -> list[int]:
    """Places of the lines that differ in length from the first."""
    return [at for at, row in enumerate(rows) if len(row) != len(rows[0])]


def _faults(numbers: Sequence[int], rows: Sequence[Sequence[str]]) -> list[str]:
    """Everything that is wrong with the lines."""
    if not rows:
        return ["empty"]
    width = len(rows[0])
    ragged = _ragged(rows)
    faults = [] if width > 1 else ["no level stands beside the leaves"]
    if ragged:
        faults.append(f"not {width} cells as in the first line: {_named(numbers, ragged)}")
    blank = [at for at, row in enumerate(rows) if not all(row[1:])]
    if blank:
        faults.append(f"an empty cell beside the leaf: {_named(numbers, blank)}")
    first: dict[str, int] = {}
    twice = [at for at, row in enumerate(rows) if first.setdefault(row[0], at) != at]
    if twice:
        faults.append(f"a leaf for the second time: {_named(numbers, twice)}")
    return faults + _two_parents(numbers, rows, width)


def _two_parents(numbers: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A fault for each level with nodes whose parent differs from line to line."""
    faults = []
    for level in range(1, width - 1):
        parents: dict[str, str] = {}
        other = [
            at
            for at, row in enumerate(rows)
            if len(row) == width and parents.setdefault(row[level], row[level + 1]) != row[level + 1]
        ]
        if other:
            faults.append(f"a second parent for a node of level {level}: {_named(numbers, other)}")
    return faults


def _named(numbers: Sequence[int], places: Sequence[int]) -> str:
    """The numbers of the lines, the first few of many."""
    first = ", ".join(str(numbers[at]) for at in places[:_NAMED_LINES])
    more = f" and {len(places) - _NAMED_LINES} more" if len(places) > _NAMED_LINES else ""
    return f"{'line' if len(places) == 1 else 'lines'} {first}{more}"
