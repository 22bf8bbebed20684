"""What columns tell of each other, and of people, before masking."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.proposing.dependencies import determinations, unmasked
from gpuanon.proposing.findings import examine
from gpuanon.proposing.proposal import assembled
from gpuanon.proposing.purposes import purpose_of
from gpuanon.tables.table import Table

N = 3_000


@pytest.fixture
def frame():
    rng = np.random.default_rng(9)
    number = rng.integers(1, 17, N)
    income = rng.lognormal(10, 1, N).round()
    year = rng.integers(2000, 2010, N)
    wrong = rng.random(N) < 0.01
    return pd.DataFrame({
        "education": [f"grade {at}" for at in number],
        "education_num": number,
        "income": income,
        "decile": pd.qcut(income, 10, labels=False),
        "year": year,
        "wave": np.where(wrong, 3, year - 1999),
        "age": rng.integers(18, 90, N),
        "sex": rng.choice(["f", "m"], N),
    })  # fmt: skip


def codebook(**roles):
    from gpuanon.proposing.codebook import Entry

    return {name: Entry(role=role) for name, role in roles.items()}


def examined(frame, **roles):
    return examine(Table.of(frame), purpose_of(None), codebook=codebook(**roles))


def test_columns_that_determine_others_or_nearly_are_found(frame):
    found = examined(frame).determined
    assert set(found["education"]) == {"education_num"}
    assert set(found["education_num"]) == {"education"}
    assert found["decile"] == ("income",)
    assert "year" in found["wave"]  # 1 % are wrong
    assert "age" not in found
    assert "sex" not in found


def test_a_kept_column_that_gives_a_masked_one_back_is_named_with_what_to_do(frame):
    proposal = assembled(examined(frame, year="other"))
    said = "year stays as it is and gives wave back: mask both alike (role quasi), or drop one"
    assert said in proposal.to_toml()
    assert said in repr(proposal)
    assert "say the same" in proposal.to_toml()
    assert "gives wave back" not in assembled(examined(frame)).to_toml()


def test_columns_that_stay_single_out_as_many_as_pandas_counts(frame):
    roles = dict.fromkeys(("age", "sex", "year", "education"), "other")
    found = examined(frame, **roles).unmasked
    assert set(found.columns) == set(roles)
    alone = np.zeros(N, dtype=bool)
    for size, share in enumerate(found.shares, 1):
        for names in combinations(roles, size):
            alone |= (frame.groupby(list(names))[names[0]].transform("size") == 1).to_numpy()
        assert share == pytest.approx(alone.mean())
    assert f"{found.shares[2]:.1%} on 3" in assembled(examined(frame, **roles)).to_toml()


def test_persons_count_where_records_have_them(frame):
    people = pd.concat([frame, frame], ignore_index=True)
    people["person_id"] = [*range(N), *range(N)]
    found = examined(people, age="other", year="other", education="other", person_id="person").unmasked
    single = examined(frame, age="other", year="other", education="other").unmasked
    assert found.unit == "persons"
    assert found.shares == pytest.approx(single.shares)


def test_nothing_stays_unmasked_by_itself(frame):
    assert "No column stays as it is" in assembled(examined(frame)).to_toml()


def test_strict_drops_what_nothing_is_known_of(frame):
    strange = frame.assign(xq7=np.random.default_rng(0).normal(size=N))
    table = Table.of(strange)
    for strict, role in ((False, "quasi"), (True, "dropped")):
        found = examine(table, purpose_of(None), strict=strict)
        assert next(one.role for one in found.choices if one.name == "xq7") == role


@pytest.mark.slow
def test_rows_of_a_wide_table_are_drawn_anew_on_some_columns_in_a_trial():
    rng = np.random.default_rng(5)
    wide = pd.DataFrame(rng.integers(0, 4, (300, 45)), columns=[f"q{at}" for at in range(45)])
    wide["w"] = rng.gamma(2, 900, 300)
    proposal = gpuanon.propose(wide.rename(columns={"w": "sample_weight"}))
    assert [str(one).partition(":")[0] for one in proposal.findings.trials] == [
        "microaggregation, k = 5",
        "sequential-synthesis, on 40 columns",
    ]
    assert len(proposal.mask[0].columns) == 46  # the proposal is for all of them


def test_many_columns_are_examined_in_seconds():
    """122 columns of a health survey; the limit is of quadratic work per pair of columns and row, not of a machine."""
    import time

    rng = np.random.default_rng(1)
    wide = pd.DataFrame({f"lab{at}": rng.normal(100, 15, 1_500).round(at % 3) for at in range(60)})
    for at in range(62):
        wide[f"q{at}"] = rng.integers(0, 2 + at % 9, 1_500)
    start = time.process_time()
    found = examine(Table.of(wide), purpose_of(None))
    assert len(found.choices) == 122
    assert time.process_time() - start < 60
    assert determinations(Table.of(wide), found.choices) == {}
    assert unmasked(Table.of(wide), found.choices, found.masked).columns == ()
