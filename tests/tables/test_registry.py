"""The synthetic registry: its columns are as documented, and correlated."""

from __future__ import annotations

import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gpuanon.errors import ParameterError
from gpuanon.tables import registry
from gpuanon.tables.registry import make_registry, registry_recipe


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return make_registry(50_000, seed=3)


DOCUMENTED = {
    "person_id": (pa.string(), 0),
    "age": (pa.int8(), 0),
    "sex": (pa.dictionary(pa.int32(), pa.string()), 0),
    "region": (pa.dictionary(pa.int32(), pa.string()), 0),
    "education": (pa.dictionary(pa.int32(), pa.string(), ordered=True), 0),
    "income": (pa.float64(), 0.06),
    "smoker": (pa.bool_(), 0),
    "bmi": (pa.float64(), 0),
    "systolic": (pa.int16(), 0.04),
    "cholesterol": (pa.float64(), 0.09),
    "hba1c": (pa.float64(), 0.42),
    "diagnosis": (pa.dictionary(pa.int32(), pa.string()), 0),
    "visits": (pa.int32(), 0),
    "admission": (pa.date32(), 0.27),
    "cost": (pa.float64(), 0),
}


def test_columns_types_and_null_shares_are_as_documented(people: pa.Table) -> None:
    assert dict(zip(people.column_names, people.schema.types, strict=True)) == {
        name: type_ for name, (type_, _) in DOCUMENTED.items()
    }
    for name, (_, share) in DOCUMENTED.items():
        assert people[name].null_count / people.num_rows == pytest.approx(share, abs=0.015 if share else 0), name


def test_cost_has_a_fifth_of_zeros_and_a_heavy_tail(people: pa.Table) -> None:
    cost = people["cost"].to_numpy()
    assert (cost == 0).mean() == pytest.approx(0.2, abs=0.03)
    assert np.sort(cost)[-len(cost) // 100 :].sum() > 0.15 * cost.sum()


def test_columns_depend_on_each_other(people: pa.Table) -> None:
    age, cost = people["age"].to_numpy().astype(float), np.log1p(people["cost"].to_numpy())
    education = people["education"].combine_chunks().indices.to_numpy()
    assert np.corrcoef(age, cost)[0, 1] > 0.15
    assert np.corrcoef(age, education)[0, 1] < -0.2
    pregnant = people.filter(pc.equal(people["diagnosis"], "pregnancy"))
    assert pregnant.num_rows > 50
    assert pc.unique(pregnant["sex"]).to_pylist() == ["female"]
    assert pc.max(pregnant["age"]).as_py() < 45


def test_a_registry_is_a_function_of_rows_and_seed(people: pa.Table) -> None:
    assert people.equals(make_registry(50_000, seed=3))
    assert not people.equals(make_registry(50_000, seed=4))


def test_batches_put_together_are_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BATCH_ROWS", 1000)
    whole = make_registry(2500)
    assert whole.slice(0, 2000).equals(make_registry(2000))
    assert pc.count_distinct(whole["person_id"]).as_py() == 2500


def test_empty_and_negative_sizes() -> None:
    assert make_registry(0).schema.equals(make_registry(1).schema)
    with pytest.raises(ParameterError, match="rows"):
        make_registry(-1)


def test_the_recipe_names_columns_that_exist(people: pa.Table) -> None:
    recipe = tomllib.loads(registry_recipe())
    assert set(recipe["columns"]) <= set(people.column_names)
    assert recipe["mask"]
