"""Claims: what a mask promises is checked on what it made, and a mask that breaks its promise releases nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import GuaranteeError
from gpuanon.masking.claims import Evidence, RowsAccounted, Trace
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup
from gpuanon.masking.methods.distribution_preserving import DistributionPreserving
from gpuanon.masking.methods.microaggregation import Microaggregation
from gpuanon.masking.operations.centroid import Centroid, GroupInterval
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.operations.dither.permute import Permute, Resample
from gpuanon.masking.operations.pad import Pad
from gpuanon.masking.operations.recode import Recode
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.operations.suppress import Suppress
from gpuanon.masking.outcomes import Changed, Moved
from gpuanon.tables.rows import ADDED, Rows
from gpuanon.tables.table import Table
from tests.support.every import MASKS, recipe, registry
from tests.support.files import left_behind
from tests.support.frames import as_kind
from tests.support.running import KEY, in_parts, masked, verify, with_value


@pytest.fixture(params=["memory", "parts"])
def protect(request, tmp_path):
    """Run a recipe on the small registry, in memory or in parts of two cells; nothing may be left when it fails."""

    def run(mask):
        rules = mask if isinstance(mask, dict) else recipe(mask)
        if request.param == "memory":
            return gpuanon.protect(registry(), rules, rng=KEY, backend="numpy").manifest
        try:
            return in_parts(tmp_path, registry(), rules, cell_rows=150)[2]
        except GuaranteeError:
            assert left_behind(tmp_path) == ["run-input"]
            raise

    return run


# One cell by itself.


def test_a_kept_promise_passes_with_its_figures():
    (guarantee,) = verify(*split(masked(Microaggregation(k=5))))
    assert guarantee.verified is True
    assert guarantee.figures["smallest_class"] >= 5


def split(found):
    """The mask, the rows before, the trace and the rows after."""
    mask, before, result = found
    return mask, before, result.trace, result.rows


@pytest.mark.parametrize("row", [0, 7, 119])
def test_one_cell_that_differs_breaks_a_class(row):
    mask, before, trace, after = split(masked(Microaggregation(k=5)))
    with pytest.raises(GuaranteeError, match="shared by 1 released records, fewer than k = 5"):
        verify(mask, before, trace, after.with_table(with_value(after.table, "age", row, 99)))


@pytest.mark.parametrize("dither", ["resample", "permute", "cell", "gaussian"])
def test_a_group_that_is_too_small_is_found_whatever_the_values_are(dither):
    mask, before, trace, after = split(masked(DistributionPreserving(k=5, dither=dither)))
    with pytest.raises(GuaranteeError, match="a group has 4 records, fewer than k = 5"):
        verify(mask, before, replace(trace, smallest=4), after)


@pytest.mark.parametrize("dither", ["resample", "permute", "cell"])
def test_a_value_from_another_group_is_found(dither):
    mask, before, trace, after = split(masked(DistributionPreserving(k=5, dither=dither)))
    verify(mask, before, trace, after)
    labels = np.roll(trace.labels, 1)  # as if every record had been in another group
    with pytest.raises(GuaranteeError, match="no member of its group"):
        verify(mask, before, replace(trace, labels=labels), after)


@pytest.mark.parametrize("dither", ["resample", "gaussian"])
def test_a_value_that_was_not_drawn_is_found(dither):
    mask, before, trace, after = split(masked(DistributionPreserving(k=5, dither=dither)))
    with pytest.raises(GuaranteeError, match="differs from the record"):
        verify(mask, before, trace, after.with_table(with_value(after.table, "age", 3, 17)))


# A mask that breaks its promise on purpose.


def breaking(monkeypatch, operation, change):
    """Let an operation give `change` of what it would give."""
    honest = operation.apply

    def apply(self, T, groups, records):
        return change(honest(self, T, groups, records), T)

    monkeypatch.setattr(operation, "apply", apply)


def own_rows(outcome, T):
    """Nothing is moved."""
    return replace(outcome, source=np.arange(len(T)))


@pytest.mark.parametrize(
    ("mask", "operation"), [("permute", Permute), ("resample", Resample), ("gaussian", Dither), ("cell", Dither)]
)
def test_values_that_stay_where_they_are_were_not_drawn(protect, monkeypatch, mask, operation):
    breaking(monkeypatch, operation, own_rows)
    with pytest.raises(GuaranteeError, match="records kept their own values; a random draw"):
        protect(mask)


def test_new_values_that_are_the_old_ones_were_not_drawn(protect, monkeypatch):
    breaking(monkeypatch, Dither, lambda outcome, T: Changed(T.copy()))
    with pytest.raises(GuaranteeError, match="records kept their own values"):
        protect("gaussian binned")


def doubled_registry():
    """Everybody twice, so that nobody's values are unique in a group of four."""
    return registry(150).take(pa.array(np.repeat(np.arange(150), 2)))


@pytest.mark.parametrize(
    ("mask", "operation"), [("permute", Permute), ("resample", Resample), ("gaussian", Dither), ("cell", Dither)]
)
def test_values_that_stay_where_they_are_were_not_drawn_where_values_repeat(monkeypatch, mask, operation):
    honest = gpuanon.protect(doubled_registry(), recipe(mask), rng=KEY, backend="numpy")
    assert honest.manifest["guarantee"][0]["verified"] is True
    breaking(monkeypatch, operation, own_rows)
    with pytest.raises(GuaranteeError, match="300 records have values equal to their own; a random draw"):
        gpuanon.protect(doubled_registry(), recipe(mask), rng=KEY, backend="numpy")


def test_a_mixture_that_takes_every_value_from_few_records_is_refused(protect, monkeypatch):
    breaking(monkeypatch, Dither, lambda outcome, T: replace(outcome, source=np.arange(len(T))[::-1] // 4))
    with pytest.raises(GuaranteeError, match=r"\d+ different records were drawn of the \d+"):
        protect("gaussian")


@pytest.mark.parametrize("mask", ["permute", "resample", "gaussian", "cell"])
@pytest.mark.parametrize("rows", [40, 300])
def test_honest_draws_are_not_refused_where_most_values_are_equal(mask, rows):
    table = registry(rows)
    columns = {
        name: spec for name, spec in recipe(mask)["columns"].items() if name in ("sex", "smoker", "education", "cost")
    }
    rules = recipe(mask) | {"columns": columns, "others": "drop"}
    for number in range(12):
        (found,) = gpuanon.protect(
            table, rules, rng=b"a key of sixteen bytes and one" + bytes([number]), backend="numpy"
        ).manifest["guarantee"]
        assert found["verified"] is True


@pytest.mark.parametrize("mask", ["permute", "resample", "gaussian", "gaussian binned", "cell"])
def test_honest_draws_keep_few_of_their_own_values(protect, mask):
    (guarantee,) = protect(mask)["guarantee"]
    assert guarantee["own_values"] <= guarantee["groups"] + 5 * guarantee["groups"] ** 0.5


@pytest.mark.parametrize(("mask", "operation"), [("permute", Permute), ("resample", Resample), ("cell", Dither)])
def test_a_mask_that_draws_from_another_group_is_refused(protect, monkeypatch, mask, operation):
    breaking(monkeypatch, operation, lambda outcome, T: replace(outcome, source=np.roll(np.arange(len(T)), 7)))
    with pytest.raises(GuaranteeError, match="no member of its group"):
        protect(mask)


@pytest.mark.parametrize("mask", ["permute", "resample", "gaussian"])
def test_groups_that_are_too_small_are_refused(protect, monkeypatch, mask):
    from gpuanon.masking.groups.kmember import KMember

    honest = KMember.form
    monkeypatch.setattr(KMember, "form", lambda self, *given: honest(self.model_copy(update={"k": 2}), *given))
    with pytest.raises(GuaranteeError, match=r"a group has [23] records, fewer than k = 4"):
        protect(mask)


def test_a_centre_that_one_record_does_not_share_is_refused(protect, monkeypatch):
    def shifted(outcome, T):
        outcome.values[0] += 1.0
        return outcome

    breaking(monkeypatch, Centroid, shifted)
    with pytest.raises(GuaranteeError, match=r"by \d released records, fewer than k = 4; nothing was written"):
        protect("microaggregation")


def test_a_value_of_one_column_that_too_few_share_is_refused(protect, monkeypatch):
    def shifted(outcome, T):
        outcome.values[0] += 1.0
        return outcome

    breaking(monkeypatch, Centroid, shifted)
    with pytest.raises(GuaranteeError, match=r"a value of .* is shared by"):
        protect("microaggregation univariate")


def test_an_interval_that_one_record_does_not_share_is_refused(protect, monkeypatch):
    def widened(outcome, T):
        first = outcome.columns[0]
        codes = first.codes.copy()
        codes[0] = np.delete(np.arange(codes.max() + 1), codes[0])[0]
        return replace(outcome, columns=[replace(first, codes=codes), *outcome.columns[1:]])

    breaking(monkeypatch, GroupInterval, widened)
    with pytest.raises(GuaranteeError, match="fewer than k = 4"):
        protect("mondrian interval")


def test_suppression_that_leaves_a_small_class_is_refused(protect, monkeypatch):
    def everything(outcome, T):
        return Moved(np.arange(len(T)), rows=np.arange(len(T)))

    breaking(monkeypatch, Suppress, everything)
    with pytest.raises(GuaranteeError, match=r"is shared by [12] released records, fewer than k = 3"):
        protect("suppress")


def test_synthetic_rows_that_are_too_few_are_refused(protect, monkeypatch):
    def one_less(outcome, T):
        return replace(outcome, source=outcome.source[:-1], rows=outcome.rows[:-1], added=outcome.added - 1)

    breaking(monkeypatch, Pad, one_less)
    with pytest.raises(GuaranteeError, match="is shared by 3 released records, fewer than k = 4"):
        protect("synthetic-rows")


def test_levels_that_too_few_share_are_refused(protect):
    mask = MASKS["recode"] | {"k": 100}
    with pytest.raises(GuaranteeError, match="fewer than k = 100"):
        protect(recipe(mask))


# Rows that come and go.


def test_a_row_that_is_lost_is_refused(protect, monkeypatch):
    breaking(monkeypatch, Permute, lambda outcome, T: Moved(outcome.source[1:], rows=np.arange(1, len(T))))
    with pytest.raises(GuaranteeError, match=r"(\d+) rows went in and \d+ of them came out"):
        protect("permute")


def test_a_row_that_comes_twice_is_refused(protect, monkeypatch):
    def doubled(outcome, T):
        rows = np.arange(len(T))
        rows[1] = 0
        return replace(outcome, rows=rows)

    breaking(monkeypatch, Permute, doubled)
    with pytest.raises(GuaranteeError, match="a record was released twice"):
        protect("permute")


@pytest.mark.parametrize("mask", ["suppress", "synthetic-rows"])
def test_a_row_that_is_doubled_by_a_method_that_changes_rows_is_refused(protect, monkeypatch, mask):
    operation = {"suppress": Suppress, "synthetic-rows": Pad}[mask]

    def doubled(outcome, T):
        rows = outcome.rows.copy()
        rows[1] = rows[0]
        return replace(outcome, rows=rows, source=rows)

    breaking(monkeypatch, operation, doubled)
    with pytest.raises(GuaranteeError, match="a record was released twice"):
        protect(mask)


def test_a_row_that_is_lost_where_rows_are_added_is_refused(protect, monkeypatch):
    breaking(monkeypatch, Pad, lambda outcome, T: replace(outcome, rows=outcome.rows[1:], source=outcome.source[1:]))
    with pytest.raises(GuaranteeError, match="rows went in and"):
        protect("synthetic-rows")


def test_an_added_row_where_rows_are_kept_is_refused(protect, monkeypatch):
    def one_more(outcome, T):
        rows = np.append(np.arange(len(T)), 0)
        return Moved(np.append(outcome.source, 0), rows=rows, added=1)

    breaking(monkeypatch, Permute, one_more)
    with pytest.raises(GuaranteeError):
        protect("permute")


def test_rows_that_stand_for_records_where_all_should_be_new_are_refused(protect, monkeypatch):
    breaking(monkeypatch, Sample, lambda outcome, T: replace(outcome, added=0, rows=None))
    with pytest.raises(GuaranteeError, match="a released row stands for a record, and none should"):
        protect("copula")


TABLE = Table.of(pa.table({"x": np.arange(5.0)}))
TRACE = Trace(groups=1, smallest=5, rows=np.arange(5))


@pytest.mark.parametrize(
    ("effect", "records", "fault"),
    [
        ("kept", [0, 1, 2, 3, 9], "stands for a record that is not there"),
        ("kept", [0, 1, 2, 3], "5 rows went in and 4 of them came out"),
        ("kept", [0, 1, 2, 3, 3], "released twice"),
        ("kept", [0, 1, 2, 3, ADDED + 4], "stands for a record that is not there"),
        ("dropped", [0, 7], "stands for a record that is not there"),
        ("dropped", [0, 0], "released twice"),
        ("added", [0, 1, 2, 3, ADDED + 1], "5 rows went in and 4 of them came out"),
        ("added", [0, 1, 2, 3, 4, 9], "stands for a record that is not there"),
        ("added", [0, 1, 2, 3, 4, 4], "released twice"),
        ("new", [0, ADDED, ADDED + 1], "stands for a record, and none should"),
    ],
)
def test_records_are_accounted_for(effect, records, fault):
    before = Rows.of(TABLE)
    after = Rows(TABLE.take(np.zeros(len(records), np.int64)), np.array(records))
    with pytest.raises(GuaranteeError, match=fault):
        RowsAccounted(effect).check(before, TRACE, after)


@pytest.mark.parametrize(
    ("effect", "records"),
    [
        ("kept", [4, 3, 2, 1, 0]),
        ("dropped", [1, 3]),
        ("dropped", []),
        ("added", [0, 1, 2, 3, 4, ADDED + 5]),
        ("new", [ADDED + 1, ADDED + 2]),
    ],
)
def test_rows_that_are_as_declared_pass(effect, records):
    after = Rows(TABLE.take(np.zeros(len(records), np.int64)), np.array(records, dtype=np.int64))
    evidence = RowsAccounted(effect).check(Rows.of(TABLE), TRACE, after)
    assert evidence.sums == {"rows_in": 5, "rows_out": len(records)}


def test_evidence_of_cells_is_added_up_and_the_smallest_group_stands():
    one, other = Evidence({"groups": 3}, {"smallest_group": 7}), Evidence({"groups": 4}, {"smallest_group": 5})
    assert one.merge(other) == other.merge(one) == Evidence({"groups": 7}, {"smallest_group": 5})


def test_own_values_are_judged_over_all_cells():
    claim = DrawnFromGroup(4, (("x",),))
    counts = {"groups": 100, "own_values": 100, "distinct_values": 400, "distinct_drawn": 260}
    counts |= {"equal_values": 100, "expected_equal": 100, "variance_equal": 150}
    fair = Evidence(counts, {"smallest_group": 4})
    assert claim.conclude(fair, {}).verified is True
    with pytest.raises(GuaranteeError, match="151 records kept their own values"):
        claim.conclude(replace(fair, sums=counts | {"own_values": 151}), {})
    with pytest.raises(GuaranteeError, match="200 records have values equal to their own"):
        claim.conclude(replace(fair, sums=counts | {"equal_values": 200}), {})
    with pytest.raises(GuaranteeError, match="150 different values were drawn of the 400"):
        claim.conclude(replace(fair, sums=counts | {"distinct_drawn": 150}), {})


# What is written.


def numbers_with_both_zeros():
    """Groups of two values that are equal as numbers, and not as they are written."""
    return pa.table({"x": [0.0, -0.0] * 6, "y": [1.0] * 12})


def test_a_masked_column_has_no_negative_zeros():
    rules = {
        "columns": {"x": {"role": "quasi"}, "y": {"role": "quasi"}},
        "others": "keep",
        "mask": [{"groups": {"use": "whole"}, "basis": {"use": "identity"}, "operation": {"use": "centroid"}}],
    }
    released = gpuanon.protect(numbers_with_both_zeros(), rules, rng=KEY, backend="numpy").data
    assert released["x"].to_pylist() == [0.0] * 12
    assert not np.signbit(released["x"].to_numpy()).any()


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
def test_no_mask_releases_a_negative_zero_that_was_not_there(mask):
    rng = np.random.default_rng(3)
    table = registry().append_column("z", pa.array(np.where(rng.random(300) < 0.5, -1e-320, rng.normal(size=300))))
    rules = recipe(mask)
    rules["columns"] = rules["columns"] | {"z": {"role": "quasi", "keep": "columns" in MASKS[mask]}}
    released = gpuanon.protect(table, rules, rng=KEY, backend="numpy").data
    for column in released.columns:
        if pa.types.is_floating(column.type):
            values = column.drop_null().to_numpy()
            assert not np.signbit(values[values == 0]).any()


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
@pytest.mark.parametrize("mask", [{"method": "suppress"}, {"method": "synthetic-rows"}, MASKS["permute"]])
def test_zeros_of_either_sign_are_one_value_where_rows_are_moved(mask, kind):
    rules = {"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [mask | {"k": 5}]}
    table = pa.table({"x": [0.0] * 7 + [-0.0] * 3 + [1.0] * 5, "other": [-0.0] * 15})
    release = gpuanon.protect(as_kind(table, kind), rules, rng=KEY, backend="numpy")
    released = Table.of(release.data).to_arrow()
    assert sorted(released["x"].to_pylist()) == [0.0] * 10 + [1.0] * 5
    assert not np.signbit(released["x"].to_numpy()).any()
    assert np.signbit(released["other"].to_numpy()).all()  # not masked: to the bit
    assert release.manifest["guarantee"][0]["verified"] is True


@pytest.mark.parametrize("form", ["release.csv", "release.csv.gz", "release.parquet", "release.arrow", "release"])
@pytest.mark.parametrize("run", ["memory", "parts"])
def test_a_file_that_is_written_otherwise_than_it_was_checked_is_refused(tmp_path, monkeypatch, form, run):
    """One value is changed by the writer: the class it leaves is then too small in the file."""
    from gpuanon.engine import release as module

    def changed(table):
        frame = table.to_pandas()
        counts = frame.groupby(["age", "income"], dropna=False)["age"].transform("size")
        row = int(np.flatnonzero(counts == counts.min())[0])
        return with_value(Table.of(table), "age", row, 101).to_arrow()

    if run == "parts" and form == "release":
        honest = module.smallest_classes

        def spoiled(written, name, *given):
            import pyarrow.parquet as pq

            file = sorted(written.iterdir())[0]
            table = changed(pq.read_table(file))
            file.unlink()
            pq.write_table(table, file)
            return honest(written, name, *given)

        monkeypatch.setattr(module, "smallest_classes", spoiled)
    elif form == "release":
        pytest.skip("a folder is written by a run in parts")
    else:
        honest_stream = module.io.Writing.stream

        def stream(self, path, schema, *more):
            put = honest_stream(self, path, schema, *more)
            return lambda table: put(changed(table))

        monkeypatch.setattr(module.io.Writing, "stream", stream)
    rules = recipe(MASKS["microaggregation"] | {"columns": ["age", "income"]})
    if run == "memory":
        made = gpuanon.protect(registry(120), rules, rng=KEY, backend="numpy")
        with pytest.raises(GuaranteeError, match=r"is shared by 1 released records, fewer than k = 4"):
            made.write(tmp_path / form, link=tmp_path / "link.csv")
        assert left_behind(tmp_path) == []
        return
    import pyarrow.parquet as pq

    from tests.support.running import protected

    pq.write_table(registry(120), tmp_path / "input.parquet")
    with pytest.raises(GuaranteeError, match=r"is shared by 1 released records, fewer than k = 4"):
        protected(tmp_path / "input.parquet", tmp_path / form, rules, link=tmp_path / "link.csv", cell_rows=10**6)
    assert left_behind(tmp_path) == ["input.parquet"]


def test_a_writer_that_rounds_may_only_make_classes_larger(tmp_path):
    made = gpuanon.protect(registry(120), recipe("microaggregation"), rng=KEY, backend="numpy")
    manifest = made.write(tmp_path / "release.csv")
    (guarantee,) = manifest["guarantee"]
    lines = (tmp_path / "release.csv").read_text().splitlines()
    names = [name.strip('"') for name in lines[0].split(",")]
    places = [names.index(name) for name in ("age", "sex", "education", "income", "smoker", "admission")]
    seen = {}
    for line in lines[1:]:
        text = tuple(line.split(",")[place] for place in places)
        seen[text] = seen.get(text, 0) + 1
    assert min(seen.values()) == guarantee["smallest_class"] >= 4


# Masks that follow each other.


def test_a_later_mask_takes_an_earlier_promise_away():
    masks = [{"method": "microaggregation", "k": 4, "columns": ["age"]}, {"method": "noise", "columns": ["age"]}]
    release = gpuanon.protect(registry(120), recipe(*masks), rng=KEY, backend="numpy")
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["k"] is None
    assert guarantee["verified"] is None
    assert "no formal guarantee" in guarantee["statement"]


def test_promises_on_different_columns_stand_side_by_side():
    masks = [
        {"method": "microaggregation", "k": 4, "columns": ["age"]},
        {"method": "microaggregation", "k": 6, "columns": ["income"]},
    ]
    release = gpuanon.protect(registry(120), recipe(*masks), rng=KEY, backend="numpy")
    assert [guarantee["k"] for guarantee in release.manifest["guarantee"]] == [4, 6]
    assert all("is shared by at least" in guarantee["statement"] for guarantee in release.manifest["guarantee"])


def test_rows_that_a_later_mask_drops_break_an_earlier_promise():
    """Dropping rows of other columns' classes leaves classes of the first mask too small: refused, not called kept."""
    masks = [
        {"method": "microaggregation", "k": 4, "columns": ["age", "income"]},
        {"method": "suppress", "k": 30, "columns": ["education", "sex"]},
    ]
    with pytest.raises(GuaranteeError, match="fewer than k = 4"):
        gpuanon.protect(registry(300), recipe(*masks), rng=KEY, backend="numpy")


# Nulls that match every value.


def compatible(rows):
    """For each row the number of rows that agree with it wherever both have a value, by brute force."""
    return [
        sum(all(a is None or b is None or a == b for a, b in zip(one, other, strict=True)) for other in rows)
        for one in rows
    ]


def with_gaps():
    rng = np.random.default_rng(4)
    levels = {"a": 4, "b": 5, "c": 3}
    columns = {
        name: [None if gap else int(value) for gap, value in zip(rng.random(90) < 0.25, drawn, strict=True)]
        for name, drawn in ((name, rng.integers(0, count, 90)) for name, count in levels.items())
    }
    return pa.table({**columns, "other": rng.normal(size=90)})


@pytest.mark.parametrize("method", ["suppress", "synthetic-rows"])
@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("where", ["memory", "parts"])
def test_records_stay_compatible_with_k_where_a_null_is_any_value(tmp_path, method, k, where):
    rules = {
        "columns": {name: {"role": "quasi"} for name in "abc"},
        "nulls": "wildcard",
        "others": "keep",
        "mask": [{"method": method, "k": k}],
    }
    table = with_gaps()
    assert min(compatible(list(zip(*(table[name].to_pylist() for name in "abc"), strict=True)))) < 8
    if where == "memory":
        release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
        released, manifest = release.data, release.manifest
    else:
        released, _, manifest = in_parts(tmp_path, table, rules, cell_rows=30)
    found = compatible(list(zip(*(released[name].to_pylist() for name in "abc"), strict=True)))
    (guarantee,) = manifest["guarantee"]
    assert min(found) >= k
    assert guarantee["smallest_class"] == min(found)
    assert "a missing value stands for any value" in guarantee["statement"]


@pytest.mark.parametrize(("method", "operation"), [("suppress", Suppress), ("synthetic-rows", Pad)])
def test_records_that_are_compatible_with_too_few_are_refused(monkeypatch, method, operation):
    breaking(monkeypatch, operation, lambda outcome, T: Moved(np.arange(len(T)), rows=np.arange(len(T))))
    rules = {
        "columns": {name: {"role": "quasi"} for name in "abc"},
        "nulls": "wildcard",
        "others": "keep",
        "mask": [{"method": method, "k": 8}],
    }
    with pytest.raises(GuaranteeError, match="fewer than k = 8"):
        gpuanon.protect(with_gaps(), rules, rng=KEY, backend="numpy")


def test_a_claim_with_wildcards_is_another_claim():
    claim = EqualRecords(3, (("a", "b"),))
    assert claim.with_wildcards() != claim
    assert [counted.wildcard for counted in claim.with_wildcards().counted] == [True]
    assert Recode(levels=1, k=3).claims(None, [("a",)]) == (EqualRecords(3, (("a",),)),)
