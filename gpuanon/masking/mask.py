"""One mask of a recipe, fitted to a table and applied to the rows of a cell.

A mask is fitted once, to merged summaries of the table's parts, and applied to the rows of every cell.  Rows go to the
device in one matrix of points, or one of codes, and what changed comes back in one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import HOST, Backend, Host, namespace, to_host
from gpuanon.arrays.device_memory import explain_out_of_memory
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws, Key
from gpuanon.errors import BackendError
from gpuanon.masking.claims import Claim, RowsAccounted, Trace
from gpuanon.masking.claims.class_claims import SpreadBoxes, constraint_claims
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.contract import Groups, Placement
from gpuanon.masking.filling import Fill, FillSample
from gpuanon.masking.given import CellSummary, Facts, added_facts
from gpuanon.masking.mask_columns import (
    NewColumns,
    Series,
    assemble,
    constrained_columns,
    heeded_columns,
    masked_columns,
    moved_columns,
    needed_columns,
    recoded_columns,
    released_schema,
    stacked,
)
from gpuanon.masking.methods.combination import Combination
from gpuanon.masking.outcomes import Changed, Moved, Outcome, Recoded, codes_on_host, download
from gpuanon.masking.person_blocks import People, persons_per_part
from gpuanon.masking.view import View, view_of, wanted
from gpuanon.tables.codes import chunked, in_order
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.hierarchy import Hierarchy
from gpuanon.tables.rows import ADDED, Rows, added_records
from gpuanon.tables.schema import Nulls, Schema
from gpuanon.tables.summaries import LevelSummary, SensitiveColumn
from gpuanon.tables.summaries import Summary as TableSummary
from gpuanon.tables.values import floats, lookup


@dataclass(frozen=True, repr=False)
class MaskedCell:
    """What a mask did to the rows of a cell.

    rows  : what is released
    trace : how it came about, for the claims
    facts : counts for the manifest, which add up over cells
    """

    rows: Rows
    trace: Trace
    facts: Facts = field(default_factory=dict)

    def of_more(self, whole: Rows, chosen: Host) -> MaskedCell:
        """The same, as what became of the rows `whole`, of which the groups left out all but `chosen`."""
        facts = {**self.facts, "rows_dismissed": len(whole) - len(chosen)}
        return MaskedCell(self.rows, self.trace.of_more(len(whole), chosen, whole.persons), facts)


@dataclass(frozen=True, repr=False)
class Mask:
    """A mask fitted to a table.

    schema      : of the rows that it is applied to
    columns     : the columns that it changes
    encoding    : of those columns as points; None when no part sees points
    response    : of the sensitive columns that take part in the grouping, or None
    grouping    : of the columns that points are grouped by, where those are not the masked ones; or None
    hierarchies : of the columns that have one, when a part sees classes
    sensitive   : the sensitive columns in the whole table, where a part has a constraint on them
    levels      : values of each column in the whole table, in their order, where its codes are common to all cells
    heeded      : the sensitive columns that the operation works by in the rows that it is given
    """

    combination: Combination
    schema: Schema
    nulls: Nulls
    columns: tuple[str, ...]
    encoding: Encoding | None
    response: Encoding | None
    hierarchies: Mapping[str, Hierarchy]
    sensitive: tuple[SensitiveColumn, ...] = ()
    levels: Mapping[str, Any] = field(default_factory=dict)
    grouping: Encoding | None = None
    heeded: tuple[str, ...] = ()

    @classmethod
    def fit(cls, combination: Combination, summary: TableSummary, schema: Schema, nulls: Nulls) -> Mask:
        """Fit to the merged summary of the table's parts, which holds at least `needed_columns`."""
        columns = masked_columns(combination, schema)
        seen = (*columns, *combination.by)
        response = tuple(name for name in needed_columns(combination, schema) if name not in seen)
        sights = wanted(combination)
        if nulls == "refuse":
            summary.select(tuple(dict.fromkeys(seen))).refuse_nulls()
        if "points" in sights:
            encoding = Encoding.from_summary(summary.select(columns), schema, nulls, combination.basis.categories)
            encoding.check()
        grouping = None
        if combination.by and combination.groups.sees == "points":
            grouping = Encoding.from_summary(summary.select(combination.by), schema, nulls, "balanced")
        return cls(
            combination,
            schema,
            nulls,
            columns,
            encoding if "points" in sights else None,
            Encoding.from_summary(summary.select(response), schema, "indicator") if response else None,
            schema.hierarchies(columns, _counted(columns, schema, summary)) if "classes" in sights else {},
            tuple(
                SensitiveColumn.of(schema[name], summary.counted[name])
                for name in constrained_columns(combination, schema)
            ),
            {name: values for name, (values, _) in _counted(columns, schema, summary).items()}
            if combination.operation.whole_table
            else {},
            grouping,
            heeded_columns(combination, schema),
        )

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns whose values it may change."""
        return tuple(name for name in self.columns if self.combination.operation.changes(name))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns on which rows of a class are equal."""
        return self.combination.by or self.columns

    @property
    def finds_classes(self) -> bool:
        """Whether its groups are the classes of the rows as they are."""
        return self.combination.groups.sees == "classes"

    @property
    def placement(self) -> Placement:
        """Which rows must lie in one cell; compatible rows of different classes may be anywhere.

        The records of a person must lie together, and are not near each other.
        """
        groups, operation = self.combination.groups, self.combination.operation
        if operation.whole_table and operation.constraint is not None:
            return "together"  # the classes that are released hold the constraint, not those that come in
        if self.schema.unit != "record" and groups.placement in ("near", "random"):
            return "person"
        constraint = self.combination.constraint
        if constraint is not None and constraint.closeness is not None and groups.placement == "near":
            return "random"  # a cell of near rows may itself be farther from the table than its groups may be
        return "together" if groups.sees == "classes" and self.nulls == "wildcard" else groups.placement

    @property
    def released_schema(self) -> Schema:
        """The schema of what is released."""
        return released_schema(self.combination, self.schema)

    @property
    def class_label(self) -> tuple[str, tuple[str, ...]] | None:
        """A released column of labels, and the columns whose classes are labelled; None: there is none."""
        name = self.combination.operation.class_label
        if name is None:
            return None
        released = self.released_schema
        return name, tuple(place for column in self.columns for place in released[column].released_names)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What is promised of the released rows."""
        names = {name: self.released_schema[name].released_names for name in self.columns}
        apart = self.combination.groups.per_column
        sets = [names[name] for name in self.columns] if apart else [sum(names.values(), ())]
        claims = self.combination.operation.claims(self.combination.groups.least, sets)
        claims = tuple(replace(claim, unit=self.schema.unit) for claim in claims)
        constraint, k = self.combination.constraint, self.combination.k
        if constraint is not None and k is not None:
            united = self.combination.operation.whole_table
            claims += constraint_claims(constraint, k, sets, self.schema.unit, self.sensitive, united)
        spread = self.combination.groups.informed(self._features).spread
        if spread is not None and k is not None:
            assert self.encoding is not None
            claims += (SpreadBoxes(k, tuple(sets), self.schema.unit, spread, self.encoding),)
        wildcard = self.nulls == "wildcard" and self.combination.groups.sees == "classes"
        return tuple(claim.with_wildcards() for claim in claims) if wildcard else claims

    def lasting_claims(self, changed: Collection[str]) -> tuple[Claim, ...]:
        """Those of the claims that last, though later masks change these columns."""
        return tuple(claim for claim in self.claims if claim.lasts(changed))

    @property
    def _features(self) -> tuple[tuple[str, bool], ...]:
        """The table column of each column of the matrix, and whether it stands for a category."""
        return () if self.encoding is None else self.encoding.columns_of_features

    @property
    def accounting(self) -> RowsAccounted:
        """What becomes of the rows, to be checked."""
        return RowsAccounted(self.combination.rows)

    def points(self, rows: Rows) -> Host:
        """(n, d) the rows as the groups see them, on the host: where near rows are is asked of it."""
        if self.grouping is not None:
            return self.grouping.encode(rows.table)
        assert self.encoding is not None
        X = self.encoding.encode(rows.table)
        return X if self.response is None else np.hstack([X, self._response(rows)])

    def _response(self, rows: Rows) -> Host:
        """The sensitive columns that take part in the grouping, scaled by their weight in it."""
        assert self.response is not None
        return np.asarray(self.response.encode(rows.table) * np.sqrt(self.combination.response_weight))

    @property
    def learns(self) -> bool:
        """Whether all cells have to be learned from before any is masked."""
        return self.combination.learns or self.combination.operation.samples is not None

    @explain_out_of_memory()
    def learn(self, rows: Rows, key: Key, stream: str, backend: Backend, total: int | None = None) -> CellSummary:
        """Summary of a cell that a part of the mask needs before it is applied; summaries of all cells are merged.

        total : records of the whole table; None when this is all of it
        """
        check_backend(self.combination, backend)
        if self.combination.operation.samples is not None:
            return self._sample(rows, key, stream, backend, len(rows) if total is None else total)
        view, draws = self._view(rows, backend), key.draws(backend.upload(rows.records), stream)
        (scope,) = view.scopes(draws, self.combination.groups.per_column)
        if self.combination.groups.learns:
            return scope.learn(self.combination.groups.informed(view.features), view.metric)
        groups = scope.form(self.combination, self.combination.groups, view.metric)
        T, _ = scope.coordinates(self.combination, groups)
        return self.combination.operation.learn(T, groups, scope.records(self.combination))

    def _sample(self, rows: Rows, key: Key, stream: str, backend: Backend, total: int) -> FillSample:
        """Sampled records, and sampled rows that are going to be added, for a fill of added rows."""
        samples = self.combination.operation.samples
        assert samples is not None
        added = rows.take(np.empty(0, np.int64))
        if samples.added:
            view, draws = self._view(rows, backend), key.draws(backend.upload(rows.records), stream)
            outcome, _ = self._outcome(view, draws, self.combination.groups, None)
            parents = download(outcome, None).rows
            if parents is not None and outcome.added:
                added = rows.take(parents[-outcome.added :])
                added = Rows(added.table, added_records(key, stream, added.records))
        kept = Rows(rows.table, rows.records)
        return FillSample.of(kept, Rows(added.table, added.records), samples, total, key, stream, backend)

    def fitted(self, learned: Any, key: Key, stream: str) -> Any:
        """What `apply` is given: what the operation concludes of the merged summary of all cells, or a fitted fill."""
        if not isinstance(learned, FillSample):
            return self.combination.operation.conclude(learned)
        return Fill.fit(self.combination.operation, learned, self.columns, self.schema, key, stream)

    def report(self, learned: Any) -> Mapping[str, Any]:
        """What the manifest says of what was learned."""
        if learned is None:
            return {}
        if self.combination.groups.learns:
            return self.combination.groups.informed(self._features, learned).findings()
        return learned.report if isinstance(learned, Fill) else self.combination.operation.findings(learned)

    @explain_out_of_memory()
    def apply(self, rows: Rows, key: Key, stream: str, backend: Backend, learned: Any = None) -> MaskedCell:
        """Mask the rows of a cell; every draw is a function of `key`, `stream` and the record number.

        learned : what `fitted` gave, or None
        """
        check_backend(self.combination, backend)
        copies = self.combination.copies
        if copies == 1:
            return self._masked(rows, key, stream, backend, learned)
        made = [self._masked(rows, key, f"{stream}/copy.{at}", backend, learned) for at in range(copies)]
        facts = reduce(added_facts, [one.facts for one in made])
        return MaskedCell(stacked([one.rows for one in made], key, stream), made[0].trace, facts)

    def _masked(self, rows: Rows, key: Key, stream: str, backend: Backend, learned: Any) -> MaskedCell:
        """One copy of the masked rows."""
        draws = key.draws(backend.upload(rows.records), stream)
        with progress.stage("encode"):
            view = self._view(rows, backend)
        fill = learned if isinstance(learned, Fill) else None
        part = self.combination.groups
        part = part.informed(view.features, learned if part.learns else None)
        chosen = None
        if part.drops:
            (scope,) = view.scopes(draws, part.per_column)
            chosen = np.flatnonzero(to_host(scope.kept(part, view.metric)))
            whole, rows = rows, rows.take(chosen)
            view, draws = self._view(rows, backend), key.draws(backend.upload(rows.records), stream)
        outcome, groups = self._outcome(view, draws, part, None if fill or part.learns else learned)
        with progress.stage("fill" if fill else "decode"):
            masked = self._released(rows, outcome, groups, view, key, stream, fill, backend)
        return masked if chosen is None else masked.of_more(whole, chosen)

    def _view(self, rows: Rows, backend: Backend) -> View:
        """The rows as points, as classes or as both, on the device."""
        response = None if self.response is None else self._response(rows)
        view = view_of(
            rows.table,
            self.schema,
            self.combination,
            self.encoding,
            response,
            self.hierarchies,
            self.columns,
            self.nulls,
            backend,
            self.levels,
            self.grouping,
        )
        people = None if rows.persons is None else People.of(rows.persons, backend)
        return replace(view, people=people, sensitive=self._sensitive(rows, backend))

    def _sensitive(self, rows: Rows, backend: Backend) -> Sensitive | None:
        """The sensitive values of the rows, on the device."""
        known = self.sensitive or tuple(
            SensitiveColumn.of(self.schema[name], LevelSummary.of(self.schema[name], rows.table.arrow(name)))
            for name in self.heeded
        )
        if not known:
            return None
        codes = np.stack([column.codes(rows.table) for column in known], axis=1)
        counts = tuple(backend.upload(column.counts) for column in known)
        ordered, nulls = tuple(column.ordered for column in known), tuple(column.nulls for column in known)
        return Sensitive(backend.upload(codes), counts, ordered, nulls)

    def _outcome(
        self, view: View, draws: Draws, part: Groups, learned: CellSummary | None
    ) -> tuple[Outcome, list[Partition]]:
        """Form groups and apply the operation: once, or once for each column."""
        combination = self.combination
        scopes = view.scopes(draws, part.per_column)
        outcomes: list[Outcome] = []
        formed: list[Partition] = []
        for scope in scopes:
            with progress.stage("") if len(scopes) > 1 else nullcontext():  # of many scopes, the scopes are reported
                groups = scope.form(combination, part, view.metric)
            with progress.stage("mask"):
                T, inverse = scope.coordinates(combination, groups)
                outcome = combination.operation.apply(T, groups, scope.records(combination, learned))
                if isinstance(outcome, Changed):
                    outcome = replace(outcome, values=inverse(outcome.values))
                outcomes.append(outcome)
            formed.append(groups)
        return (outcomes[0] if len(outcomes) == 1 else _side_by_side(outcomes)), formed

    def _released(
        self,
        rows: Rows,
        outcome: Outcome,
        groups: list[Partition],
        view: View,
        key: Key,
        stream: str,
        fill: Fill | None = None,
        backend: Backend = HOST,
    ) -> MaskedCell:
        """Download what changed, once, and put it into the table."""
        labels = groups[0].labels() if any(claim.needs_labels for claim in self.claims) else None
        got = download(outcome, labels, view.scratch)
        at = np.arange(len(rows)) if got.rows is None else got.rows
        records = rows.records[at]
        if outcome.added:
            parents = records[-outcome.added :]
            records = np.concatenate([records[: -outcome.added], added_records(key, stream, parents)])
        columns: NewColumns
        if isinstance(outcome, Moved):
            assert got.source is not None
            columns = moved_columns(rows.table, self.columns, got.source)
        elif isinstance(outcome, Changed):
            assert self.encoding is not None
            centres = self.combination.operation.gives == "centres"
            decoded = self.encoding.decode(
                got.values,
                rows.table,
                key.draws(records, f"{stream}/decode"),
                settle=not self.combination.basis.gives_values,
                groups=[part.labels() for part in groups] if centres else None,
                by_chance=self.combination.decoding == "probabilistic",
                overwrite=backend.name != "numpy",
            )
            columns = {name: {name: series} for name, series in decoded.items()}
        else:
            assert isinstance(outcome, Recoded)
            coded = codes_on_host(outcome.columns)
            columns = recoded_columns(rows.table, self.released_schema, self.columns, coded, view.values)
        filled: Draws | Series | None = None
        if outcome.added and fill is not None:
            codes = np.stack([column.codes for column in view.values], axis=1)
            last = slice(-outcome.added, None)
            filled = fill.columns(rows, at[last], records[last], codes, key, stream)
        elif outcome.added:
            filled = key.draws(records[-outcome.added :], f"{stream}/fill")
        table = assemble(rows.table, self.columns, columns, got.rows, filled)
        sizes = [persons_per_part(part, None if view.people is None else view.people.index) for part in groups]
        persons = None if rows.persons is None else np.where(records < ADDED, rows.persons[at], records)
        trace = Trace(
            groups=sum(part.parts for part in groups),
            smallest=min((int(size.min()) for size in sizes if len(size)), default=0),
            rows=at,
            labels=got.labels,
            source=got.source,
            weights=None if self.schema.weight is None else floats(rows.table.arrow(self.schema.weight)),
            minima=outcome.minima,
            persons=rows.persons,
            backend=backend,
        )
        return MaskedCell(Rows(table, records, persons), trace, outcome.facts)


def _counted(columns: tuple[str, ...], schema: Schema, summary: TableSummary) -> dict[str, tuple[Any, Host]]:
    """Distinct values, in their order, and the records of each, of those of the columns that were counted."""
    found = {}
    for name in columns:
        if name in summary.counted:
            known = summary.counted[name]
            values = in_order(known.levels, schema[name].levels)
            found[name] = (values, known.counts[lookup(chunked(values), known.levels)])
    return found


def _side_by_side(outcomes: list[Outcome]) -> Changed:
    """The outcomes of single columns as one."""
    values = [outcome.values for outcome in outcomes if isinstance(outcome, Changed)]
    return Changed(namespace(values[0]).concatenate(values, axis=1))


def check_backend(combination: Combination, backend: Backend) -> None:
    """Refuse parts that are written for the CPU where a device was chosen: nothing falls back in silence."""
    groups, operation = combination.groups, combination.operation
    parts = (("groups", groups.use, groups.host_only), ("operation", operation.use, operation.host_only))
    for what, use, host_only in parts:
        if host_only and backend.name != "numpy":
            raise BackendError(
                f"{what}: {use!r} runs on the CPU only, and the backend is {backend.name}",
                hint="--backend numpy",
            )
