"""Rows are not added beside what tells them from records: values that occur once, pseudonyms with one record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.engine import warnings
from gpuanon.errors import GuaranteeError, RecipeError
from tests.support.persons import PERSON, families, rules
from tests.support.running import in_parts

KEY = b"a key for the tests of imitation"
ROWS = 600


def table(**columns):
    rng = np.random.default_rng(2)
    numbers = {"age": rng.integers(0, 200, ROWS), "cost": rng.lognormal(5, 1, ROWS).round(2)}
    return pa.table(numbers | columns)


def recipe(**changes):
    columns = {"age": {"role": "quasi"}} | changes.pop("columns", {})
    mask = {"method": "synthetic-rows", "k": 5, **changes}
    return {"columns": columns, "others": "keep", "nulls": "category", "mask": [mask]}


def protected(data, rules):
    return gpuanon.protect(data, rules, rng=KEY, backend="numpy")


OWN = {
    "text": pa.array([f"note {number}" for number in range(ROWS)]),
    "half": pa.array([f"note {max(number, ROWS // 2)}" for number in range(ROWS)]),
    "large": pa.array([2**60 + 7 * number for number in range(ROWS)]),
    "lists": pa.array([[number] for number in range(ROWS)]),
}


@pytest.mark.parametrize("fill", ["tree", "joint", "marginal"])
@pytest.mark.parametrize("kind", OWN)
def test_values_that_added_rows_can_only_copy_are_refused(kind, fill):
    with pytest.raises(GuaranteeError, match=r"tell the records from them: 'own' \((100|50)% of the records\)"):
        protected(table(own=OWN[kind]), recipe(fill=fill))


def test_such_columns_are_dropped_or_masked_and_numbers_are_imitated():
    data = table(own=OWN["text"])
    assert protected(data, recipe(columns={"own": {"role": "dropped"}})).manifest["rows_added"] > 0
    blanked = recipe() | {"others": "keep"}
    blanked["mask"] = [{"method": "pram", "stay": 0.5, "columns": ["own"]}, *blanked["mask"]]
    assert protected(data, blanked).manifest["rows_added"] > 0
    own = pa.array(np.random.default_rng(1).permutation(10**6)[:ROWS])
    for fill in ("tree", "joint"):
        release = protected(table(own=own), recipe(fill=fill))
        values, counts = np.unique(release.data["own"].to_numpy(), return_counts=True)
        once = np.isin(release.data["own"].to_numpy(), values[counts == 1])
        real = release.link >= 0
        assert abs(real[once].mean() - real.mean()) < 0.05  # a value that occurs once tells nothing


def test_a_few_such_values_are_warned_of_and_parts_agree(tmp_path):
    own = pa.array(["rare"] + ["often", "common"] * (ROWS // 2 - 1) + ["often"])
    release = protected(table(own=own), recipe())
    (said,) = [one for one in release.manifest["warnings"] if "'own'" in one]
    assert "0.17% of the records have a value of their own" in said
    assert "known to be records" in said
    _, _, manifest = in_parts(tmp_path, table(own=own), recipe())
    assert said in manifest["warnings"]


def test_a_share_of_the_values_is_counted_of_a_long_column(monkeypatch):
    monkeypatch.setattr(warnings, "COUNTED", 100)
    with pytest.raises(GuaranteeError, match=r"'own' \(\d+% of the records\)"):
        protected(table(own=OWN["text"]), recipe())


def test_what_tells_people_apart_is_judged_on_records():
    """Added rows repeat values; the warning is about the people."""
    own = pa.array([f"pair {number // 2}" for number in range(ROWS)])
    names = {"own": {"role": "other"}, "cost": {"role": "dropped"}, "other": {"role": "other"}}
    other = pa.array([f"side {number % 2}" for number in range(ROWS)])
    warnings = protected(table(own=own, other=other), recipe(columns=names, fill="marginal", k=20)).manifest["warnings"]
    assert any("'own' and 'other' are released unmasked, and 100%" in said for said in warnings)


def test_pseudonyms_beside_added_rows_are_refused():
    columns = PERSON | {"mother": {"role": "person", "release": "pseudonym"}}
    mask = {"method": "synthetic-rows", "k": 4, "columns": ["sex", "education", "smoker"]}
    with pytest.raises(RecipeError, match=r"columns\.mother: release: rows are added, each with a pseudonym"):
        protected(families(), rules(mask, columns))
    assert protected(families(), rules(mask)).manifest["rows_added"] > 0
    assert protected(families(), rules({"method": "microaggregation", "k": 4}, columns)).data.num_rows == 300
