"""A release: the masked rows, what was done to them, and the private link.

From CSV to CSV, a column that no mask changes comes out text for text: ``12.50``, ``007``, ``NA``, ``10:00``.  Columns
that are measured, weigh or are kept are read as numbers or dates, from which the text cannot be made again.  So their
texts are read a second time, and written by the number of each released row's original.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from gpuanon.arrays.backend import Host
from gpuanon.engine.identity import ALGORITHM, digest_of, link_mark, mark_path
from gpuanon.engine.masked import Give, Masked, conclude
from gpuanon.engine.outputs import Guard, manifest_path, write_report
from gpuanon.engine.run import Done
from gpuanon.errors import InputError, OutputError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.report import Paper
from gpuanon.tables.arrow import arrow_array, empty_table
from gpuanon.tables.dictionaries import common_levels, with_levels
from gpuanon.tables.formats import format_of, io
from gpuanon.tables.formats.csv.csv_files import CsvOptions, dialect_of
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.formats.io import holds, smallest_classes
from gpuanon.tables.formats.parquet import unify_parts
from gpuanon.tables.interval_columns import as_structures
from gpuanon.tables.layouts import restore_layouts
from gpuanon.tables.table import Table
from gpuanon.tables.values import family
from gpuanon.visible import json_text

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuanon.report.contents import Contents
    from gpuanon.tables.formats.csv.csv_styles import CsvDialect


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

    def dialect(self, done: Done) -> CsvDialect:
        """How the release is written: as the file was.  A cell that a mask blanked is empty, whatever word the file has
        for no value."""
        found = dialect_of(self.source, self.read_as, self.options, {column.name for column in done.schema.columns})
        blanked = {
            name for step in done.steps if step.fitted.combination.operation.blanks for name in step.fitted.columns
        }
        if not blanked & found.styles.keys():
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
    if done.schema.unit != "record":
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


GUESSABLE = (
    "the random numbers follow from a small seed, which anybody can try until a masked value agrees with one that they"
    " know, and then take noise, order and pseudonyms off: release rows only under rng=None or a secret Key"
)
"""Of a release that is written under such a key."""


@dataclass(frozen=True, repr=False)
class Release:
    """What `protect` returns.

    table    : the released rows, in random order
    manifest : what was done (methods, parameters, versions, counts, verified figures), and nothing that undoes it
    link     : private; for each released row the row number of its original, −1 for an added row
    layouts  : Arrow schema of the table that was given; None for other kinds of dataframes

    A pickle or a copy holds the rows and the manifest only: not the link, nor what the run knows of the original.
    Its `link` is None, and it cannot be written, because its claims cannot be checked again.

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> table = pa.table({"age": [30, 33, 36, 60, 63, 66], "cost": [1.0, 2.0, 2.5, 4.0, 3.0, 6.0]})
    >>> recipe = {
    ...     "columns": {"age": {"role": "quasi"}, "cost": {"role": "sensitive"}},
    ...     "mask": [{"method": "microaggregation", "k": 3}],
    ... }
    >>> release = gpuanon.protect(table, recipe)
    >>> release
    Release(6 rows, 2 columns)
    >>> sorted(set(release.data["age"].to_pylist()))
    [33, 63]
    >>> release.manifest["guarantee"][0]["verified"]
    True
    """

    table: Table
    manifest: dict[str, Any]
    link: Host | None = field(compare=False)
    layouts: pa.Schema | None = field(default=None, compare=False)
    _masked: Masked | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "manifest": self.manifest, "layouts": self.layouts, "link": None, "_masked": None}

    @property
    def data(self) -> Any:
        """The released rows as the kind of dataframe that went in."""
        data = self.table.to_native()
        return data if self.layouts is None else restore_layouts(data, self.layouts)

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write what was done, promised and measured as one HTML page, in which nobody can be told apart.

        The figures are those of the rows in memory; `write` with ``report`` has those of the file.
        """
        write_report(self._contents(self.manifest), path, force=force)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: what was done and promised; measures and pictures are for `report`."""
        from gpuanon.report.contents import Contents
        from gpuanon.report.page import shown_in_notebook

        return shown_in_notebook(Contents("Release", self.manifest))

    def _contents(self, manifest: Mapping[str, Any]) -> Contents:
        """The report of this release; for a copy, which has no original, without measures."""
        from gpuanon.report.contents import Contents

        return Contents("Release", manifest) if self._masked is None else self._masked.contents(manifest)

    def write(
        self,
        output: str | Path,
        *,
        link: str | Path | None = None,
        report: str | Path | None = None,
        force: bool = False,
        texts: Texts | None = None,
        papers: Sequence[Paper] = (),
    ) -> dict[str, Any]:
        """Write the release, its manifest beside it, on request the report and the private link: all of them or none.

        The claims are checked again on the file, as it is written; the manifest that is returned has the figures of
        the file.

        texts  : of the CSV that was masked, for columns that come out as they went in
        papers : the files that were read, for the report
        """
        if self._masked is None:
            raise ParameterError(
                "release: a copy of a release cannot be written, because its claims cannot be checked again",
                hint="write the release that protect returned",
            )
        output, table = Path(output), self.table
        if "interval-column" in self.manifest["readings"].values():
            table = as_structures(table)
        if self.layouts is not None:
            form = format_of(output, OutputError)
            stored = restore_layouts(table.to_native(), self.layouts, views=form.views, run_ends=form.run_ends)
            table = Table(nw.from_native(stored, eager_only=True))  # as it is
        return write_release(
            self._masked, output, None if link is None else Path(link), manifest=self.manifest, pieces=lambda: [table],
            force=force, report=None if report is None else Path(report), texts=texts, papers=papers,
            checked=self.table if self.table.is_immutable else None,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Release({self.table.n_rows} rows, {len(self.table.names)} columns)"


def _put_report(out: io.Writing, path: Path, contents: Contents) -> None:
    """Write a report; what reports need is imported here, because most releases have none."""
    from gpuanon.report.page import put_report

    put_report(out, path, contents)


def _stream(
    out: io.Writing,
    output: Path,
    pieces: Give,
    declared: Mapping[str, Any],
    restored: Callable[[int, pa.Table], pa.Table],
    dialect: CsvDialect | None,
) -> None:
    """Write the pieces, one after the other, with the levels that all of them hold.

    restored : a piece, by its number, with the columns that come out as they went in
    dialect  : of a CSV; None for the plain one
    """
    put = None
    levels = common_levels(pieces(), declared, ordered_only=not format_of(output, OutputError).one_dictionary)
    for number, piece in enumerate(pieces()):
        arrow = restored(number, with_levels(piece.to_arrow(), levels))
        put = put or out.stream(output, arrow.schema, dialect)
        put(arrow)


def _restored(texts: Texts | None, done: Done, origins: Sequence[Host]) -> Callable[[int, pa.Table], pa.Table]:
    """See `_stream`; the texts are read when the first piece is there."""
    held: list[pa.Table] = []

    def restored(number: int, piece: pa.Table) -> pa.Table:
        names = [] if texts is None else unmasked_columns(done, piece.schema, texts.measured)
        if texts is None or not names:
            return piece
        if not held:
            held.append(texts.columns(names, done.rows[0]))
        return put_back(piece, held[0], names, origins[number])

    return restored


def write_release(
    masked: Masked,
    output: Path,
    link: Path | None,
    *,
    manifest: Mapping[str, Any],
    pieces: Give,
    force: bool,
    fill: Callable[[Path], None] | None = None,
    report: Path | None = None,
    papers: Sequence[Paper] = (),
    texts: Texts | None = None,
    checked: Table | None = None,
) -> dict[str, Any]:
    """Write a release piece by piece, check it as it is written, then its manifest; all or nothing.

    pieces : the rows of the release, as they are to be stored
    fill   : puts the release parts into a folder, instead of `pieces`; None when `output` is a file
    report : where the report goes
    papers : the files that were read, for the report
    texts  : see `Release.write`
    checked : the whole release, whose classes were counted and which nobody can have changed since; a file that holds
        its values to the bit has the same classes, and any other is counted.  None: the file is counted
    """
    done, origins = masked.done, masked.origins
    if masked.guessable:
        warnings.warn(f"{output}: {GUESSABLE}", stacklevel=3)
        manifest = {**manifest, "warnings": [*manifest["warnings"], GUESSABLE]}
    declared = {column.name: column.levels for column in done.schema.columns}
    dialect = None if texts is None else texts.dialect(done)
    with io.Writing(force=force, guard=Guard(output, link)) as out:
        if fill is not None:
            folder = out.folder(output)
            fill(folder)
            unify_parts(folder, declared)
        else:
            _stream(out, output, pieces, declared, _restored(texts, done, origins), dialect)
        counted = tuple(classes for classes in done.smallest if classes.unit == "record")
        written = out.finish(output)
        columns = tuple(dict.fromkeys(name for classes in counted for name in classes.columns))
        if checked is not None and holds(written, output, checked, columns, dialect):
            smallest = {classes: done.smallest[classes] for classes in counted}
        else:
            smallest = smallest_classes(written, output, counted, done.rows[1], dialect)
        release = {"digest": digest_of(written), "algorithm": ALGORITHM}
        manifest = {**manifest, **conclude(done, done.on_file(smallest)), "release": release}
        out.text(manifest_path(output), json_text(manifest, indent=2) + "\n")
        if report is not None:
            files = (*papers, Paper("release", output.name, release["digest"]))
            _put_report(out, report, masked.contents(manifest, files))
        if link is not None:
            lines = ["row", *(str(row) for origin in origins for row in origin.tolist()), ""]
            out.text(link, "\n".join(lines), private=True)
            out.text(mark_path(link), link_mark(release["digest"]), private=True)
    return manifest
