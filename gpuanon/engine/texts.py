"""From CSV to CSV, a column that no mask changes comes out text for text: ``12.50``, ``007``, ``NA``, ``10:00``.

Columns that are measured, weigh or are kept are read as numbers or dates, of which the text cannot be made again.  So
their texts are read a second time, and written by the number of each released row's original.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuanon.arrays.backend import Host
from gpuanon.engine.run import Done
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.tables.arrow import arrow_array, empty_table
from gpuanon.tables.formats import format_of, io
from gpuanon.tables.formats.csv.csv_files import CsvOptions, dialect_of
from gpuanon.tables.formats.csv.csv_styles import CsvDialect
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.values import family

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Texts:
    """The texts of a CSV that was masked.

    folder   : private folder for a table that memory need not hold; None: memory
    measured : quasi-identifiers that limits were measured on: equal values must not come out as different texts
    """

    source: Path
    options: CsvOptions
    read_as: CsvColumns
    folder: Path | None = None
    measured: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: Path, output: Path, recipe: Recipe, folder: Path | None = None) -> Texts | None:
        """The texts, where both files are CSV and their rows the same records; else None: those of a series are not."""
        if not all(format_of(path).is_text for path in (source, output)) or recipe.series is not None:
            return None
        quasi = (name for name, spec in recipe.columns.items() if spec.role == "quasi")
        return cls(source, recipe.csv, recipe.csv_columns, folder, frozenset(quasi if recipe.limits else ()))

    def dialect(self, done: Done) -> CsvDialect | None:
        """How the release is written: as the file was.  A cell that a mask blanked is empty, whatever word the file has
        for no value."""
        found = dialect_of(self.source, self.read_as, self.options, {column.name for column in done.schema.columns})
        blanked = {
            name for step in done.steps if step.fitted.combination.operation.blanks for name in step.fitted.columns
        }
        if found is None or not blanked & found.styles.keys():
            return found
        styles = {
            name: replace(style, missing="") if name in blanked else style for name, style in found.styles.items()
        }
        return replace(found, styles=styles)

    def columns(self, names: Collection[str], rows: int) -> pa.Table:
        """These columns, all rows in the order of the file."""
        import pyarrow as pa

        opened = io.open(self.source, csv=self.options, columns=CsvColumns({}, rest=False))
        schema = pa.schema([(name, pa.large_string()) for name in names])
        pieces = (batch.to_arrow().select(list(names)).cast(schema) for batch in opened.batches())
        if self.folder is None:
            found = pa.concat_tables([empty_table(schema), *pieces])
        else:
            place = self.folder / "texts.arrow"
            with pa.OSFile(str(place), "wb") as file, pa.ipc.new_file(file, schema) as put:
                for piece in pieces:
                    put.write_table(piece)
            found = pa.ipc.open_file(pa.memory_map(str(place))).read_all()
        if found.num_rows != rows:
            raise InputError(f"{self.source}: was changed while it was read; nothing was written")
        return found


def unmasked_columns(done: Done, schema: pa.Schema, measured: Collection[str] = ()) -> list[str]:
    """The released columns that no mask changed and that are no text.

    Where classes are counted in persons, or limits are `measured`, a quasi-identifier that is kept stays as it was.
    Where rows were added there are none: an added row has its value's own text, and would be told by it from records
    with those of the file.
    """
    if done.added:
        return []
    names = {column.name for column in done.schema.columns}
    names -= {name for step in done.steps for name in step.fitted.columns} | set(measured)
    if done.schema.unit == "person":
        names -= set(done.schema.quasi)
    return [field.name for field in schema if field.name in names and family(field.type) != "text"]


def put_back(piece: pa.Table, texts: pa.Table, names: Sequence[str], origin: Host) -> pa.Table:
    """The piece with these columns as they stood in the file.

    origin : (m,) row of the original of each row
    """
    rows = arrow_array(origin)
    for name in names:
        piece = piece.set_column(piece.column_names.index(name), name, texts[name].take(rows))
    return piece
