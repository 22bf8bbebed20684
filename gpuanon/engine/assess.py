"""`assess`: measure a release against its original, in dataframes or in files, by one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, BackendName, Host, choose
from gpuanon.assessing.bins import LEAST
from gpuanon.assessing.compared_tables import as_link
from gpuanon.assessing.figures import figure_text
from gpuanon.assessing.measure import Options
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import IN_MEMORY_ROWS, Measurements, check_names, measure
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.identity import check_release_of, digest_of, read_link
from gpuanon.engine.inputs import open_table, read_table
from gpuanon.engine.outputs import manifest_path, read_manifest, write_report
from gpuanon.engine.series_runs import Prepared, prepared
from gpuanon.errors import GuaranteeError
from gpuanon.recipe import Recipe
from gpuanon.report import Paper
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_dialect import release_options
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import family


@dataclass(frozen=True, repr=False)
class Assessment(Measurements):
    """Measured figures by name: a mapping.  A measure that could not be computed has its reason in `failed`.

    measured : the figures, by name
    failed   : why a measure could not be computed, by name
    notes    : what the reader must know
    manifest : of the release, where it is known

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> table = pa.table({"age": [30, 33, 36, 60, 63, 66], "sex": ["f", "m"] * 3})
    >>> recipe = {
    ...     "columns": {"age": {"role": "quasi"}, "sex": {"role": "other"}},
    ...     "mask": [{"method": "microaggregation", "k": 3}],
    ... }
    >>> release = gpuanon.protect(table, recipe)
    >>> found = gpuanon.assess(table, release.data, recipe, measures=["k_anonymity", "means"])
    >>> found["k_anonymity"].value
    3
    >>> list(found)
    ['k_anonymity', 'means']
    >>> found.to_frame().column_names
    ['measure', 'family', 'better', 'value', 'low', 'high', 'worst', 'worst_value', 'note']
    """

    least: int = field(default=LEAST, compare=False)
    manifest: Mapping[str, Any] | None = field(default=None, compare=False)
    _kind: Any = field(default=nw.Implementation.PYARROW, compare=False)
    _files: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        """The figures, one per line; `to_json` has their details."""
        lines = ["Assessment of a release"]
        for side in ("risk", "utility"):
            figures = [measure.name for measure in MEASURES.values() if measure.family == side]
            lines += [f"  {side}"] * any(name in self.measured for name in figures)
            lines += [
                f"    {name:<26}{figure_text(self.measured[name].value)}" for name in figures if name in self.measured
            ]
        if self.failed:
            lines.append(f"  not measured: {', '.join(self.failed)}")
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """One row per measure, as the kind of dataframe that the original was; of files a pyarrow table.

        A measure that could not be computed has no value, and its reason as note.
        """
        rows = [
            self._row(one.name) for one in MEASURES.values() if one.name in self.measured or one.name in self.failed
        ]
        columns = {name: [row[at] for row in rows] for at, name in enumerate(_FRAME)}
        return nw.from_dict(columns, _FRAME, backend=self._kind).to_native()

    def _row(self, name: str) -> tuple[Any, ...]:
        known, found = MEASURES[name], self.measured.get(name)
        if found is None:
            return name, known.family, known.better, None, None, None, None, None, self.failed[name]
        low, high = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
        worst = found.worst or (None, None)
        return name, known.family, known.better, found.value, low, high, *worst, found.note

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the figures as one HTML page, with pictures of the columns in which nobody can be told apart."""
        from gpuanon.report.contents import assessed

        papers = [Paper(what, file.name, digest_of(file)) for what, file in self._files.items()]
        write_report(assessed(self, self.manifest, self.least, papers=papers), path, force=force)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the page of the figures, without pictures, which `report` draws."""
        from gpuanon.report.contents import Contents
        from gpuanon.report.page import shown_in_notebook

        return shown_in_notebook(Contents("Assessment of a release", self.manifest, self, known_least=self.least))


_FRAME = {
    **dict.fromkeys(("measure", "family", "better"), nw.String()),
    **dict.fromkeys(("value", "low", "high"), nw.Float64()),
    "worst": nw.String(),
    "worst_value": nw.Float64(),
    "note": nw.String(),
}


def assess(
    original: Any,
    release: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    reference: Any = None,
    control: Any = None,
    link: Any = None,
    measures: Sequence[str] | None = None,
    backend: BackendName = "auto",
    sample_rows: int | None = None,
) -> Assessment:
    """Measure the risk and the utility of a release.

    Parameters
    ----------
    original, release : dataframes, `Table`, or paths of files; of a series, the original as it was given and the
        release as it is
    recipe : says what each column is
    reference : a second, non-overlapping sample of the same population
    control : records of the same population that are not in the table, for attacks; None: the reference serves
    link : for each released row the row number of its original, −1 for an added row; or the path of such a file
    measures : names; None for all of them
    backend : ``"auto"``, ``"numpy"`` or ``"cupy"``; an explicit one runs there or fails
    sample_rows : assess piece by piece, with samples of about so many rows; None does so for tables of more than five
        million rows only

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> table = pa.table({"age": [30, 33, 36, 60, 63, 66]})
    >>> recipe = {"columns": {"age": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 3}]}
    >>> unmasked = gpuanon.assess(table, table, recipe, measures=["k_anonymity", "uniqueness"])
    >>> {name: figure.value for name, figure in unmasked.items()}
    {'k_anonymity': 1, 'uniqueness': 1.0}
    """
    if measures is not None:
        check_names(measures)
    chosen, given = choose(backend), Recipe.load(recipe)
    with progress.stage("read"):
        before, seen = _original(original, given)
        after = _released(release, seen.recipe, before)
        sample, others = (seen.same_columns(_table(one, given)) for one in (reference, control))
        rows = read_link(Path(link)) if _is_path(link) else link
        if sample_rows is None and max(before.rows, after.rows) <= IN_MEMORY_ROWS:
            if _is_path(original) and not seen.points:
                before = Pieces.of(read_table(Path(original), seen.recipe))
            after = Pieces.of(after.whole())
    if rows is not None:
        rows = as_link(rows, before.rows, after.rows, *([Path(link).name] if _is_path(link) else []))
        if _is_path(link) and _is_path(release):
            check_release_of(Path(link), Path(release))
    notes = _release_notes(Path(release), after.rows) if _is_path(release) else ()
    first, loaded = before.first, seen.recipe
    infer = Schema.resolve if first.n_rows == before.rows else Schema.infer  # values are checked where all are at hand
    found = measure(
        before,
        after,
        infer(first, loaded.columns, loaded.others, loaded.unit),
        tuple(MEASURES) if measures is None else tuple(measures),
        link=rows,
        reference=sample,
        control=others,
        backend=chosen,
        sample_rows=sample_rows,
        options=loaded.options,
    )
    manifest = read_manifest(manifest_path(Path(release))) if _is_path(release) and not notes else None
    kind = first.frame.implementation
    told = (*found.notes, *notes)
    files = {"original": original, "recipe": recipe, "release": release}
    paths = {what: Path(file) for what, file in files.items() if _is_path(file)}
    known = (found.measured, found.failed, found.inapplicable, told, found.seen)
    return Assessment(*known, loaded.least, manifest, kind, paths)


def _is_path(data: Any) -> bool:
    return isinstance(data, (str, Path))


def _table(data: Any, recipe: Recipe) -> Table | None:
    """A further table, in memory."""
    if data is None:
        return None
    return read_table(Path(data), recipe) if _is_path(data) else Table.of(data)


def _original(data: Any, recipe: Recipe) -> tuple[Pieces, Prepared]:
    """The original, piece by piece, and its recipe as masks see them; a series is put together in memory."""
    if _is_path(data) and recipe.series is None:
        return _pieces(open_table(Path(data), recipe)), Prepared(recipe, recipe)
    table = _table(data, recipe)
    assert table is not None
    wide, seen = prepared(table, recipe)
    return Pieces.of(wide), seen


def _released(data: Any, recipe: Recipe, original: Pieces) -> Pieces:
    """A release: a CSV is read as releases are written, and columns that are text in the original are text in it."""
    if not _is_path(data):
        return Pieces.of(Table.of(data))
    first = original.first
    text = [name for name in first.names if family(first.arrow(name).type) == "text"]
    return _pieces(io.open(Path(data), text, csv=release_options(Path(data), recipe.csv), columns=recipe.csv_columns))


def _pieces(source: io.Source) -> Pieces:
    """The table in a file, piece by piece."""
    return Pieces.counted(source.batches) if source.rows is None else Pieces(source.batches, source.rows)


def _release_notes(release: Path, rows: int) -> tuple[str, ...]:
    """What the manifest beside a release says against the file as it is now."""
    manifest = read_manifest(manifest_path(release))
    if manifest is None:
        return ()
    written = manifest.get("release")
    digest = written.get("digest") if isinstance(written, dict) else None
    if rows != manifest["rows_out"] or (digest is not None and digest != digest_of(release)):
        return (
            f"{release.name} was changed since it was written: its manifest does not speak of these rows, "
            "and a link need not fit them",
        )
    return ()


def check_limits(
    original: Pieces,
    release: Pieces,
    schema: Schema,
    limits: Mapping[str, float],
    *,
    link: Host,
    reference: Table | None,
    backend: Backend,
    options: Options | None = None,
) -> dict[str, float]:
    """Measure what the recipe limits; a value that is worse, or that cannot be measured, refuses the release."""
    assessment = measure(
        original, release, schema, tuple(limits), link=link, reference=reference, backend=backend, options=options
    )
    unknown = [f"limits.{name}: could not be measured: {reason}" for name, reason in assessment.failed.items()]
    faults = []
    for name, figure in assessment.measured.items():
        if MEASURES[name].exceeds(figure.value, limits[name]):
            way = "at most" if MEASURES[name].better == "lower" else "at least"
            allowed = f"{way} {limits[name]:g} is allowed"
            faults.append(f"limits.{name}: {allowed}, the release has {figure_text(figure.value)}")
    if unknown or faults:
        hint = "a larger k, or another method, lowers the risk" if faults else "give what the measure needs, or drop it"
        raise GuaranteeError("\n".join([*unknown, *faults, "Nothing was written"]), hint=hint)
    return {name: figure.value for name, figure in assessment.measured.items()}
