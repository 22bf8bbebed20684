"""Every figure of a table in parts that comes from a sample says how far it may be wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.arrays.rng import Key
from gpuanon.assessing import sampling_errors, streams
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import measure
from gpuanon.assessing.sampling_errors import UNKNOWN, pieces
from gpuanon.assessing.streams import Pieces, Streamed
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

ROWS, SIZE = 6000, 800
P_VALUES = ("reference_standard", "paired_means")
SAMPLED = [one.name for one in MEASURES.values() if one.scaling in ("sample", "pairs") and one.name not in P_VALUES]
CHEAP = ("records_changed", "rank_correlations", "mse", "r2", "information_loss", "ks", "kl", "jsd", "cell_ks")


def frames():
    rng = np.random.default_rng(2)
    z = rng.normal(size=ROWS)
    original = pd.DataFrame(
        {
            "age": np.round(40 + 10 * z + 8 * rng.normal(size=ROWS)),
            "cost": np.round(np.exp(6 + 0.5 * z + rng.normal(size=ROWS)), 2),
            "place": np.array(list("abcde"))[np.clip((1.2 * z + 2.5).astype(int), 0, 4)],
        }
    )
    release = original.copy()
    release["age"] += np.round(5 * rng.normal(size=ROWS))
    release["cost"] *= np.exp(0.2 * rng.normal(size=ROWS))
    swapped = rng.random(ROWS) < 0.2
    release.loc[swapped, "place"] = rng.permutation(release["place"][swapped])
    order = rng.permutation(ROWS)
    return Table.of(original), Table.of(release.iloc[order].reset_index(drop=True)), order


ORIGINAL, RELEASE, LINK = frames()
COLUMNS = {"age": {"role": "quasi"}, "cost": {"role": "quasi"}, "place": {"role": "sensitive"}}
RULES = Recipe.load({"columns": COLUMNS, "mask": [{"method": "svd-swap"}]})
SCHEMA = Schema.resolve(ORIGINAL, RULES.columns, RULES.others)


def measured(names, size=SIZE, link=LINK):
    return measure(Pieces.of(ORIGINAL), Pieces.of(RELEASE), SCHEMA, names, link=link, sample_rows=size)


def streamed():
    return Streamed(Pieces.of(ORIGINAL), Pieces.of(RELEASE), SCHEMA, SIZE, LINK)


@pytest.mark.parametrize("name", SAMPLED)
def test_every_sampled_figure_has_an_error_or_an_interval(name):
    found = measured([name])
    assert found.failed == {}
    figure = found.measured[name]
    assert "a random sample of" in figure.note
    if figure.interval is None:
        assert figure.details["sampling_error"] >= 0
        assert "right to ±" in figure.note


@pytest.mark.parametrize("name", ["prediction_distance", "prediction_ambiguity", "match_auc", "reidentification"])
def test_every_figure_of_sampled_originals_has_one(name):
    figure = measured([name]).measured[name]
    assert figure.interval is not None or "right to ±" in figure.note


def test_a_sample_of_all_rows_is_none():
    found = measured(["kl", "pmse_logit", "mse"], size=10**6)
    for figure in found.measured.values():
        assert "sampling_error" not in figure.details


def test_pieces_keep_a_released_row_with_its_original():
    pairs = streamed().pairs
    found = pieces(pairs)
    assert sum(piece.release.n_rows for piece in found) == pairs.release.n_rows
    assert sum(piece.original.n_rows for piece in found) == pairs.original.n_rows
    whole = {tuple(row) for row in _rows(pairs)}
    assert all(tuple(row) in whole for piece in found for row in _rows(piece))
    assert pieces(pairs) is found
    assert not any(piece.sampled for piece in found)


def _rows(c):
    """The costs of each original and its release."""
    before, after = (side.to_arrow()["cost"].to_numpy() for side in (c.original, c.release))
    return np.column_stack([before[c.known_link], after])


def test_a_piece_that_cannot_be_measured_leaves_the_error_unknown(monkeypatch):
    def refused(source):
        raise InputError("this piece cannot be measured")

    monkeypatch.setattr(sampling_errors, "pieces", refused)
    assert UNKNOWN in measured(["kl"]).measured["kl"].note


@pytest.mark.slow
def test_the_error_is_the_spread_over_fresh_samples(monkeypatch):
    found = []
    for sample in range(60):
        monkeypatch.setattr(streams, "_PUBLIC", Key(b"another sample of the same rows %d" % sample))
        found.append(measured(CHEAP).measured)
    for name in CHEAP:
        stated = np.mean([one[name].details["sampling_error"] for one in found])
        spread = 1.96 * np.std([one[name].value for one in found], ddof=1)
        assert 0.5 < stated / spread < 2, name  # Student's t makes the error 1.2 times 1.96 deviations
