"""Contingency tables over chosen groupings: the lecture's worked example, from a recipe."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.utility.contingency import grouped
from gpuanon.errors import GpuanonError, RecipeError

ORIGINAL = pa.table(
    {
        "age": [22, 25, 28, 30, 35, 40, 45, 50, 55, 60],
        "income": [30000.0, 35000, 40000, 45000, 50000, 60000, 70000, 80000, 85000, 90000],
        "day": pa.array(np.arange(10) * 40, pa.int32()).cast(pa.date32()),
    }
)
# Counts 6 and 4 in the lecture's table of counts, against 5 and 5 of the release.
RELEASE = pa.table(
    {
        "age": [40, 22, 30, 30, 50, 60, 30, 40, 28, 35],
        "income": [60257.33, 33786.17, 45652.61, 40345.76, 75937.89, 95796.99, 49990.02, 60031.50, 47308.36, 62000.0],
        "day": ORIGINAL["day"],
    }
)
SIX = ORIGINAL.set_column(
    1, "income", pa.array([30000.0, 35000, 40000, 45000, 50000, 59999, 70000, 80000, 85000, 90000])
)
COLUMNS = {"age": {"role": "quasi"}, "income": {"role": "quasi"}, "day": {"role": "quasi"}}
CHOSEN = {"ways": 1, "columns": ["income"], "cuts": {"income": [60000]}}


def found(measures, original=SIX, release=RELEASE):
    rules = {"columns": COLUMNS, "mask": [{"method": "microaggregation", "k": 2}], "measures": measures}
    return gpuanon.assess(original, release, rules, measures=tuple(measures))


def test_the_lectures_worked_example():
    figures = found(dict.fromkeys(("vw", "cell_ks", "jsd"), CHOSEN)).measured
    assert figures["vw"].value == pytest.approx(0.4, abs=1e-12)
    assert figures["cell_ks"].value == pytest.approx(0.1, abs=1e-12)
    expected = 0.5 * (0.6 * math.log(12 / 11) + 0.4 * math.log(8 / 9)) + 0.5 * (
        0.5 * math.log(10 / 11) + 0.5 * math.log(10 / 9)
    )
    assert figures["jsd"].value == pytest.approx(expected, abs=1e-12)


def test_one_group_says_that_nothing_was_lost_and_many_that_much_was():
    one = {**CHOSEN, "cuts": {"income": [0]}}
    many = {**CHOSEN, "cuts": {"income": list(range(30000, 100000, 2500))}}
    assert found({"jsd": one}).measured["jsd"].value == 0
    assert found({"jsd": many}).measured["jsd"].value > 0.5
    sensitivity = found({"grouping_sensitivity": {"columns": ["income"]}}).measured["grouping_sensitivity"]
    assert sensitivity.value > 0.1
    assert sensitivity.worst[0] == "50 bins"


def test_all_columns_make_one_table_and_a_sparse_one_says_so():
    figure = found({"cell_ks": {"ways": "all"}}).measured["cell_ks"]
    assert list(figure.parts[0].values) == ["age × income × day"]
    assert "sparse" in figure.note


def test_dates_are_cut_at_dates():
    figure = found({"cell_ks": {"ways": 1, "columns": ["day"], "cuts": {"day": ["1970-06-01"]}}}).measured["cell_ks"]
    assert figure.value == 0
    assert figure.details["cells"] == 2


def test_standardised_forms_of_a_fresh_sample_are_about_one():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(12, 3.0))
    ratios = {name: [] for name in ("vw", "jsd", "kl", "ft", "g")}
    from gpuanon.assessing.utility import contingency as cells

    before = rng.choice(12, 40_000, p=p)[:, None]
    for _ in range(60):
        after = rng.choice(before[:, 0], 3000)[:, None]
        for name, values in ratios.items():
            beside = getattr(cells, name)(before, after, ways=1).beside[0]
            assert beside.name == "standardised"
            values.append(beside.value)
    for name, values in ratios.items():
        # χ² with 11 degrees of freedom over 11: standard error 0.43 / √60
        assert np.mean(values) == pytest.approx(1.0, abs=0.2), name


def test_faults_are_named():
    assert "'wages'" in found({"vw": {"columns": ["wages"]}}).failed["vw"]
    assert "as the column has them" in found({"vw": {"cuts": {"day": ["June"]}}}).failed["vw"]
    with pytest.raises(RecipeError, match=r"vw\.ways"):
        found({"vw": {"ways": 0}})
    with pytest.raises(GpuanonError, match="vw has no option bin"):
        found({"vw": {"bin": 3}})


def test_bins_of_another_number_leave_the_usual_ones_alone():
    from gpuanon.assessing.comparison import Comparison
    from gpuanon.recipe import Recipe
    from gpuanon.tables.schema import Schema
    from gpuanon.tables.table import Table

    loaded = Recipe.load({"columns": COLUMNS, "mask": [{"method": "microaggregation", "k": 2}]})
    table = Table.of(ORIGINAL)
    comparison = Comparison(table, Table.of(RELEASE), Schema.resolve(table, loaded.columns, loaded.others))
    usual = [side.copy() for side in comparison.binned]
    few = grouped(comparison, bins=2)
    assert len(np.unique(few[0][:, 0])) == 2
    assert all((a == b).all() for a, b in zip(usual, comparison.binned, strict=True))
