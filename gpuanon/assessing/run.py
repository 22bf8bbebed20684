"""Measure a release: every measure that applies, each failing alone, in memory or piece by piece.

A measure declares what it can be computed on (`gpuanon.assessing.measure.Scaling`).  Tables that fit are loaded, and
every measure sees all rows; threads take the next measure from one queue.  Of larger ones evidence that merges is
collected over all rows, what a sample can answer is computed on one and says so, and what needs everything in one place
is reported as not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import isfinite
from threading import Lock
from typing import Any, TypeVar

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.blas import one_blas_thread, one_openmp_thread
from gpuanon.arrays.threads import each, each_task
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import Measured, join
from gpuanon.assessing.measure import Measure, Options, Scaling
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.shared_arrays import by_kind, give_up, given_up_together, take_up
from gpuanon.assessing.streams import Pieces, Streamed
from gpuanon.errors import GpuanonError, InputError, ParameterError, nearest
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

IN_MEMORY_ROWS = 5_000_000
"""Tables of more rows are assessed piece by piece."""

SAMPLE_ROWS = 200_000

SIDE_BY_SIDE_ROWS = 500_000
"""On tables of more rows a measure that needs much memory runs beside no other one, and none beside those of other
arrays."""

DEPENDENT = (
    "a release is made from its original: the two are dependent samples, so distances between them are distances, "
    "and a p-value for two independent samples would not be valid"
)
NOT_MEASURED = "needs all rows at once, and a sample would mislead: not measured on a table larger than memory"


@dataclass(frozen=True, repr=False)
class Measurements(Mapping[str, Measured]):
    """Measured figures by name; a measure that could not be computed has its reason in `failed`.

    inapplicable : those of them that do not apply to this release: they need what it does not have
    seen         : the tables that were measured, for a report; in no copy or pickle
    """

    measured: Mapping[str, Measured]
    failed: Mapping[str, str]
    inapplicable: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=(DEPENDENT,))
    seen: Comparison | Streamed | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Measured:
        if name in self.failed:
            raise KeyError(f"{name}: not measured: {self.failed[name]}")
        return self.measured[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.measured)

    def __len__(self) -> int:
        return len(self.measured)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "seen": None}

    def to_json(self) -> dict[str, Any]:
        """The object of ``assess --json``."""
        families: dict[str, dict[str, Any]] = {"risk": {}, "utility": {}}
        for measure in MEASURES.values():
            if measure.name in self.measured:
                families[measure.family][measure.name] = self.measured[measure.name].to_json()
            elif measure.name in self.inapplicable:
                reason = self.failed[measure.name]
                families[measure.family][measure.name] = {"value": None, "not_applicable": reason}
            elif measure.name in self.failed:
                families[measure.family][measure.name] = {"error": self.failed[measure.name]}
        return {**families, "notes": list(self.notes)}


@dataclass(frozen=True)
class NotApplicable:
    """Why a measure does not apply to a release."""

    reason: str


def measure(
    original: Pieces,
    release: Pieces,
    schema: Schema,
    names: Sequence[str],
    *,
    link: Host | None = None,
    reference: Table | None = None,
    control: Table | None = None,
    backend: Backend | None = None,
    sample_rows: int | None = None,
    options: Options | None = None,
) -> Measurements:
    """Compute the named measures of a release that lies in memory or in pieces.

    Parameters
    ----------
    original, release : the tables, piece by piece; in memory one piece
    link : (m,) original row of each released row, −1 for an added row
    reference : a second, non-overlapping sample of the same population
    control : records of the same population that are not in the table, for attacks; None: the reference serves
    backend : where the arrays live; None for the host
    sample_rows : assess piece by piece, with samples of about so many rows; None does so for tables of more than
        `IN_MEMORY_ROWS` rows only
    options : keyword arguments by measure, as the recipe has them
    """
    check_names(names)
    if sample_rows is None and max(original.rows, release.rows) <= IN_MEMORY_ROWS:
        comparison = Comparison(
            original.whole(), release.whole(), schema, link, reference, backend, known_control=control
        )
        return compute(comparison, names, options)
    size = SAMPLE_ROWS if sample_rows is None else sample_rows
    if size < 100:
        raise ParameterError(f"sample_rows: 100 or more are allowed, got {size}")
    streamed = Streamed(original, release, schema, size, link, reference, backend, known_control=control)
    return _piece_by_piece(streamed, names, options)


def compute(comparison: Comparison, names: Sequence[str], options: Options | None = None) -> Measurements:
    """Compute the named measures on tables in memory; one that fails does not sink the others."""
    check_names(names)
    if min(comparison.original.n_rows, comparison.release.n_rows) == 0:
        return Measurements({}, dict.fromkeys(names, "original and release need at least one row each"))
    found = _computed([MEASURES[name] for name in names], lambda measure: comparison, options or {}, comparison)
    return replace(found, seen=comparison)


def _piece_by_piece(streamed: Streamed, names: Sequence[str], options: Options | None) -> Measurements:
    """Every measure on what it declares that it can be computed on."""
    sources: dict[Scaling, Callable[[], Comparison | Streamed]] = {
        "merged": lambda: streamed,
        "sample": lambda: streamed.sample,
        "pairs": lambda: streamed.pairs,
        "queries": lambda: streamed.queries,
    }

    def source_of(measure: Measure) -> Comparison | Streamed:
        if measure.scaling not in sources:
            raise InputError(NOT_MEASURED)
        return sources[measure.scaling]()

    chosen = [MEASURES[name] for name in names]
    found = _computed(chosen, source_of, options or {}, pieces=streamed)
    exact = [m.name for m in chosen if m.scaling == "merged" and m.name in found.measured]
    sampled = [m.name for m in chosen if m.scaling != "merged" and m.name in found.measured]
    note = f"piece by piece: {', '.join(exact) or 'nothing'} on all rows"
    if sampled:
        note += "; every other figure on a random sample, as its own note says"
    return replace(found, notes=(*found.notes, note), seen=streamed)


def _computed(
    measures: Sequence[Measure],
    source_of: Callable[[Measure], Comparison | Streamed],
    options: Options,
    whole: Comparison | None = None,
    pieces: Streamed | None = None,
) -> Measurements:
    """Each measure on its source, with its options; the reason of one that fails.

    whole : the source of all of them, where both tables are in memory.  Measures that work on the same arrays then
        follow each other, on the host some side by side, and the arrays are given up after the last of them; unless
        there are many rows, those of the next arrays start while the last ones of these are at work
    pieces : the source of samples, of which arrays are given up likewise

    One BLAS thread: products round alike whatever the number of cores.
    """
    found: dict[str, Measured | str | NotApplicable] = {}
    facts = whole or pieces
    parallel = whole is not None and whole.host is whole
    many = whole is not None and max(whole.original.n_rows, whole.release.n_rows) > SIDE_BY_SIDE_ROWS

    def applied(measure: Measure) -> Measured | str | NotApplicable:
        reason = None if facts is None else measure.applies.reason_against(facts)
        if reason is not None:
            return NotApplicable(reason)
        return _one(measure, source_of, options.get(measure.name, {}))

    def one(measure: Measure) -> Measured | str | NotApplicable:
        with progress.silent():
            return applied(measure)

    if parallel and not many and whole is not None:
        with progress.stage("assess"), one_blas_thread():
            return _in_order(measures, side_by_side(measures, one, whole))
    kinds = list(by_kind(measures))
    following = [kind for kind, _ in kinds[1:]] + [None]
    with progress.stage("assess"), one_blas_thread():
        for (kind, those), after in zip(kinds, following, strict=True):
            if whole is not None:
                take_up(whole.host if all(measure.host is not None for measure in those) else whole, kind)
            if pieces is not None:
                pieces.take_up(kind, {measure.scaling for measure in those})
            together = [measure for measure in those if parallel and not (measure.alone or (many and measure.large))]
            together.sort(key=lambda measure: -measure.long)
            for measure in those:  # first, before the others have made more arrays
                if measure not in together:
                    with progress.share(*_done(found, 1, measures)):
                        found[measure.name] = applied(measure)
            with progress.share(*_done(found, len(together), measures)):
                found |= zip((measure.name for measure in together), each(one, together), strict=True)
            if whole is not None:
                give_up(whole, kind, after)
            if pieces is not None:
                pieces.give_up(kind, after, {measure.scaling for measure in measures if measure.name not in found})
    return _in_order(measures, found)


def _in_order(measures: Sequence[Measure], found: Mapping[str, Measured | str | NotApplicable]) -> Measurements:
    """The figures, and the reasons of measures that have none, in the order of the measures."""
    results = {measure.name: found[measure.name] for measure in measures}
    return Measurements(
        {name: one for name, one in results.items() if isinstance(one, Measured)},
        {name: str(getattr(one, "reason", one)) for name, one in results.items() if not isinstance(one, Measured)},
        frozenset(name for name, one in results.items() if isinstance(one, NotApplicable)),
    )


def _done(found: Mapping[str, Any], more: int, measures: Sequence[Measure]) -> tuple[float, float]:
    """Share of the measures that is done, and that will be after some more."""
    return 0.99 * len(found) / len(measures), 0.99 * (len(found) + more) / len(measures)


def _one(
    measure: Measure, source_of: Callable[[Measure], Comparison | Streamed], options: Mapping[str, Any]
) -> Measured | str | NotApplicable:
    """The figure, or why there is none."""
    try:
        source: Any = source_of(measure)  # a measure that merges takes either
        with one_openmp_thread() if measure.openmp else nullcontext():
            figure = measure.measured(source.host if measure.host is not None else source, options)
    except MissingEvidence as error:
        return NotApplicable(str(error))
    except GpuanonError as error:
        return str(error)
    except MemoryError:
        return "does not fit in memory"
    except (ArithmeticError, ValueError) as error:  # its own text may quote a value
        return f"is not defined for these tables ({type(error).__name__})"
    if isfinite(figure.value):
        unweighted = None if source.schema.weight is None else measure.unweighted_note(source.host)
        return replace(figure, note=join(source.note, figure.note, unweighted, measure.record_note(source.schema)))
    return figure.note or "is not defined for this release"


def check_names(names: Sequence[str]) -> None:
    """Refuse names of measures that there are not."""
    if isinstance(names, str):  # a sequence of letters
        raise ParameterError("measures: a list of names is allowed, got one text", hint=f"measures=[{names!r}]")
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise ParameterError(
            "\n".join(f"measures: there is no {name!r}{nearest(name, MEASURES)}" for name in unknown),
            hint="'gpuanon measures' lists them",
        )


Result = TypeVar("Result")


def side_by_side(measures: Sequence[Measure], one: Callable[[Measure], Result], whole: Comparison) -> dict[str, Result]:
    """The result of `one` for every measure, by name.

    Measures of the same arrays follow each other, long ones first.  Their arrays are given up when the last of them is
    done: by then measures of the next arrays may be at work.  What must run beside no other one runs before all.
    """
    left = Counter(measure.arrays for measure in measures)
    lock = Lock()

    def run(measure: Measure) -> Result:
        result = one(measure)
        with lock:
            left[measure.arrays] -= 1
            done = measure.arrays is not None and not any(left[kind] for kind in given_up_together(measure.arrays))
        if done:
            give_up(whole, measure.arrays)
        return result

    queue = [measure for _, those in by_kind(measures) for measure in sorted(those, key=lambda one: -one.long)]
    alone = [measure for measure in queue if measure.alone]
    found = {measure.name: run(measure) for measure in alone}
    together = [measure for measure in queue if not measure.alone]
    with progress.share(0.99 * len(alone) / max(1, len(queue)), 0.99):
        return found | dict(zip((measure.name for measure in together), each_task(run, together), strict=True))
