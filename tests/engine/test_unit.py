"""What is counted: records, persons or households, everywhere."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import compute
from gpuanon.engine.checking import check_table
from gpuanon.errors import GuaranteeError, RecipeError
from gpuanon.recipe import POINTS, Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

KEY = b"a key for tests, of sixteen bytes or more"
QUASI = ("age", "zone", "sex")
ACCEPT = dict.fromkeys(POINTS, "drawn rows")


def people(seed: int, rows: int = 400) -> pd.DataFrame:
    """Records of persons, who live in households; some have many records, and equal ones."""
    rng = np.random.default_rng(seed)
    person = rng.integers(0, rows // 3, rows)
    frame = pd.DataFrame({"person": person, "home": person // 2})
    frame["age"] = 20 + (person * 7 + rng.integers(0, 2, rows)) % 40
    frame["age"] //= 8
    frame["zone"] = np.array(list("abcd"))[(frame["home"] * 3 + (rng.random(rows) < 0.1)) % 4]
    frame["sex"] = np.where(person % 2, "f", "m")
    return frame


def rules(unit: str, mask: dict, **more) -> dict:
    columns = {name: {"role": "quasi"} for name in QUASI}
    columns |= {"person": {"role": "person"}, "home": {"role": "household"}}
    return {"unit": unit, "columns": columns, "mask": [mask], "accept": ACCEPT, **more}


def joined(release, frame: pd.DataFrame, unit: str) -> pd.DataFrame:
    """The released rows as they are written, with whose they are."""
    out = release.data.copy()
    out["who"] = frame[{"person": "person", "household": "home"}[unit]].to_numpy()[release.link]
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unit", ["person", "household"])
def test_limits_equal_a_count_by_pandas(unit, seed, tmp_path):
    frame, k = people(seed), int(np.random.default_rng(seed).integers(2, 6))
    method = ["microaggregation", "mondrian", "suppress", "rank-swap"][seed]
    mask = {"method": method} if method == "rank-swap" else {"method": method, "k": k}
    names = ("k_anonymity", "uniqueness", "singled_out")
    loose = {"k_anonymity": 1.0, "uniqueness": 1.0, "singled_out": 1.0}
    release = gpuanon.protect(frame, rules(unit, mask, limits=loose), rng=KEY)
    out = joined(release, frame, unit)
    release.write(tmp_path / "out.csv")
    written = pd.read_csv(tmp_path / "out.csv")
    assert (written[list(QUASI)].astype(str) == out[list(QUASI)].astype(str)).all().all()
    classes = [written[name] for name in QUASI]
    who = pd.Series(out["who"].to_numpy())
    in_class = who.groupby(classes).nunique()
    alone = who.groupby(classes).transform("nunique") == 1
    few = np.zeros(len(written), dtype=bool)
    for size in (1, 2, 3):
        for some in combinations(classes, size):
            few |= (who.groupby(list(some)).transform("nunique") == 1).to_numpy()
    counted = {
        "k_anonymity": in_class.min(),
        "uniqueness": None,
        "singled_out": who[few].nunique() / who.nunique(),
    }
    measured = release.manifest["measured"]
    assert measured["k_anonymity"] == counted["k_anonymity"]
    assert measured["singled_out"] == pytest.approx(counted["singled_out"])
    assert (measured["uniqueness"] == 0) == (not alone.any())
    if method != "rank-swap":
        assert counted["k_anonymity"] >= k  # the promise, of units
        assert f"at least {k} released {unit}s" in release.manifest["guarantee"][0]["statement"]
    assert (
        release.manifest["quasi"] | {"unit": unit, "smallest_class": counted["k_anonymity"]}
        == (release.manifest["quasi"])
    )
    for name in names:  # each limit refuses what is a little worse
        worse = MEASURES[name].better == "lower"
        tight = measured[name] - 1e-6 if worse else measured[name] + 1e-6
        if not worse or measured[name] > 0:
            with pytest.raises(GuaranteeError, match=f"limits.{name}"):
                gpuanon.protect(frame, rules(unit, mask, limits={name: tight}), rng=KEY)


@pytest.mark.parametrize("unit", ["person", "household"])
def test_equal_records_of_few_people_keep_no_limit(unit):
    """Two hundred people with ten equal records each."""
    one = pd.DataFrame({"age": np.arange(200) + 10, "person": np.arange(200), "home": np.arange(200)})
    table = pd.concat([one] * 10, ignore_index=True)
    columns = {"age": {"role": "quasi"}, "person": {"role": "person"}, "home": {"role": "household"}}
    mask = {"method": "noise", "b": 1e-9, "columns": ["age"]}
    for name, limit in {"k_anonymity": 5.0, "uniqueness": 0.0, "reidentification": 0.15, "singled_out": 0.05}.items():
        recipe = {"unit": unit, "columns": columns, "mask": [mask], "limits": {name: limit}, "accept": ACCEPT}
        with pytest.raises(GuaranteeError, match=f"limits.{name}"):
            gpuanon.protect(table, recipe, rng=KEY)
        recipe["unit"] = "record"
        gpuanon.protect(table, recipe, rng=KEY)  # of records they are many


def test_members_of_a_household_stay_in_one_group_and_its_pseudonym_joins_them():
    frame = people(7)
    recipe = rules("household", {"method": "microaggregation", "k": 4})
    recipe["columns"]["home"] = {"role": "household", "release": "pseudonym"}
    release = gpuanon.protect(frame, recipe, rng=KEY)
    out = joined(release, frame, "household")
    assert out.groupby("who")["home"].nunique().eq(1).all()
    assert out.groupby("home")["who"].nunique().eq(1).all()
    assert not set(out["home"]) & set(frame["home"].astype(str))
    # A household has one class of values, and every class four households.
    assert (out.groupby("who")[list(QUASI)].nunique() == 1).all().all()
    assert out.groupby(list(QUASI))["who"].nunique().min() >= 4


def test_a_unit_that_the_table_does_not_have_and_pseudonyms_of_another_are_refused():
    frame = people(1)
    recipe = rules("household", {"method": "mondrian", "k": 3})
    recipe["columns"]["home"] = {"role": "dropped"}
    with pytest.raises(RecipeError, match='unit: "household" needs a column of role household'):
        gpuanon.protect(frame, recipe)
    for unit, column in (("person", "home"), ("household", "person"), ("record", "person")):
        recipe = rules(unit, {"method": "mondrian", "k": 3})
        recipe["columns"][column] = recipe["columns"][column] | {"release": "pseudonym"}
        with pytest.raises(RecipeError, match=f"columns.{column}: release: pseudonyms join the records of a"):
            gpuanon.protect(frame, recipe)
    with pytest.raises(RecipeError, match="unit"):
        Recipe.load(rules("family", {"method": "mondrian", "k": 3}))


@pytest.mark.parametrize("unit", ["record", "person", "household"])
def test_check_counts_the_unit(unit):
    frame = people(3).assign(rare=lambda one: one["person"] % 50)
    recipe = rules(unit, {"method": "microaggregation", "k": 3})
    recipe["columns"]["rare"] = {"role": "sensitive"}
    del recipe["accept"]
    found = check_table("r", Recipe.load(recipe), "t", Table.of(frame), ["x"], trial=False)
    who = {"record": pd.Series(np.arange(len(frame))), "person": frame["person"], "household": frame["home"]}[unit]
    alone = who.groupby(frame["rare"]).transform("nunique") == 1
    shares = {column.name: column.alone for column in found.columns}
    assert shares["rare"] == pytest.approx(who[alone].nunique() / who.nunique())
    assert found.singled_out == pytest.approx(shares["rare"])  # the only column that stays unmasked
    assert found.quasi.smallest == who.groupby([frame[name] for name in QUASI]).nunique().min()
    told = json.loads(json.dumps(found.to_json()))
    assert told["unit"] == told["kept"]["unit"] == unit
    assert told["singled_out"] == pytest.approx(shares["rare"])
    assert (shares["rare"] > 0.05) == any("stay unmasked" in one for one in found.warnings)
    if shares["rare"] >= 0.0005:
        assert f"of the {unit}s alone in it" in "\n".join(found.lines())


def test_what_counts_records_says_so_and_cannot_be_a_limit():
    """Every person three times: a measure that counts persons stays as it is."""
    rng = np.random.default_rng(0)
    n = 150
    frame = pd.DataFrame({"person": np.arange(n), "home": np.arange(n) // 2, "age": rng.integers(20, 60, n)})
    frame["zone"], frame["income"] = rng.choice(list("abcd"), n), np.round(rng.normal(50, 10, n), 1)
    frame["illness"] = rng.choice(list("xyz"), n)
    columns = {name: {"role": "quasi"} for name in ("age", "zone", "income")}
    columns |= {"person": {"role": "person"}, "home": {"role": "household"}, "illness": {"role": "sensitive"}}
    recipe = {"columns": columns, "mask": [{"method": "noise", "b": 0.1}], "accept": ACCEPT}
    release = gpuanon.protect(pa.Table.from_pandas(frame), recipe, rng=KEY)
    other = pa.Table.from_pandas(frame.assign(age=rng.permutation(frame["age"])))
    slow = ("match_auc_joint", "linkage_probabilistic", "reference_standard")
    names = [one.name for one in MEASURES.values() if one.family == "risk" and one.name not in slow]

    def figures(times: int):
        before, after, beside = (
            Table.of(pa.concat_tables([one] * times))
            for one in (pa.Table.from_pandas(frame), pa.table(release.data), other)
        )
        link = np.concatenate([release.link + n * at for at in range(times)])
        return compute(Comparison(before, after, Schema.resolve(before, columns), link, beside), names)

    once, thrice = figures(1), figures(3)
    assert len(once.measured) > 20
    differ = [
        name
        for name in once.measured
        if MEASURES[name].records is None
        and not np.isclose(thrice.measured[name].value, once.measured[name].value, atol=1e-6)
    ]
    assert differ == []
    for name in once.measured:
        note = thrice.measured[name].note if name in thrice.measured else ""
        if MEASURES[name].records is None:
            assert "counts records" not in (note or "")
        elif name in thrice.measured:
            assert f"counts records, not persons: {MEASURES[name].records}" in note
    with pytest.raises(RecipeError, match=r"limits\.suda2: counts records, and the unit is person"):
        gpuanon.protect(frame, recipe | {"limits": {"suda2": 0.5}})
