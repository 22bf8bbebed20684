"""Categories that are drawn by the inverse logit of their indicators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.errors import RecipeError
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

KEY = Key(b"a key for the tests of decoding")
N = 20_000


def encoding_of(frame, categories="indicator"):
    table = Table.of(frame)
    schema = Schema.resolve(table, {name: {"role": "quasi"} for name in frame})
    return table, Encoding.fit(table, schema, categories=categories)


@pytest.mark.parametrize("categories", ["indicator", "balanced"])
def test_levels_are_drawn_by_the_normalised_inverse_logit(categories):
    """Shares of 20 000 draws, to five standard errors."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": rng.choice(["a", "b", "c"], N), "two": rng.choice(["y", "n"], N)})
    table, encoding = encoding_of(frame, categories)
    X = encoding.encode(table)
    point = np.array([0.3, -0.2, -1.0, 0.1]) * np.abs(X).max(axis=0)
    found = encoding.decode(np.tile(point, (N, 1)), table, KEY.draws(np.arange(N)), by_chance=True)
    weights = expit((6 + np.log(2)) * np.array([0.3, -0.2, -1.0]))
    for level, share in zip("abc", weights / weights.sum(), strict=True):
        drawn = (found["kind"].to_numpy() == level).mean()
        assert abs(drawn - share) < 5 * np.sqrt(share * (1 - share) / N)
    drawn = (found["two"].to_numpy() == "y").mean()
    assert abs(drawn - expit(0.6)) < 5 * np.sqrt(0.25 / N)


def test_unchanged_values_come_back_almost_always_and_numbers_always():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"kind": rng.choice(list("abcd"), N), "size": rng.normal(size=N).round(3)})
    table, encoding = encoding_of(frame)
    found = encoding.decode(encoding.encode(table), table, KEY.draws(np.arange(N)), by_chance=True)
    other = 0.0025  # of all other levels together
    assert abs((found["kind"].to_numpy() != frame["kind"]).mean() - other) < 5 * np.sqrt(other / N)
    assert (found["size"].to_numpy() == frame["size"]).all()


@pytest.mark.parametrize("levels", [2, 3, 39, 200])
def test_what_unchanged_values_lose_does_not_grow_with_the_number_of_levels(levels):
    kind = np.where(np.arange(N) < N // 2, 0, np.arange(N) % levels)
    frame = pd.DataFrame({"kind": pd.Series(kind).map("level {:03d}".format)})
    table, encoding = encoding_of(frame)
    found = encoding.decode(encoding.encode(table), table, KEY.draws(np.arange(N)), by_chance=True)
    changed = (found["kind"].to_numpy() != frame["kind"]).mean()
    assert abs(changed - expit(-6)) < 5 * np.sqrt(expit(-6) / N)


def test_a_recipe_may_ask_for_it_where_nothing_is_promised():
    rng = np.random.default_rng(2)
    size = rng.normal(size=3000)
    kind = np.where(rng.random(3000) < 0.03, "rare", np.where(size + rng.normal(size=3000) > 0, "high", "low"))
    frame = pd.DataFrame({"size": size, "kind": kind})
    columns = {name: {"role": "quasi"} for name in frame}

    def drawn(decoding):
        mask = {"method": "svd-swap", "tol": 0.2, "decoding": decoding}
        release = gpuanon.protect(frame, {"columns": columns, "mask": [mask]}, rng=KEY, backend="numpy")
        return release.data.iloc[np.argsort(release.link)].reset_index(drop=True)

    near, chance = drawn("nearest"), drawn("probabilistic")
    assert (near["size"] == chance["size"]).all()
    assert (near["kind"] != chance["kind"]).any()
    with pytest.raises(RecipeError, match="decoding"):
        gpuanon.protect(
            frame,
            {
                "columns": columns,
                "mask": [
                    {
                        "groups": {"use": "mdav", "k": 5},
                        "operation": {"use": "centroid"},
                        "decoding": "probabilistic",
                    }
                ],
            },
        )
