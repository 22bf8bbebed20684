"""Models of population uniqueness: ARX's figures on adult, populations made to each model, naive likelihoods."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from scipy.optimize import minimize

import gpuanon
from gpuanon.assessing.risk.population_uniqueness import (
    negative_binomial,
    pitman_parameters,
    population_uniqueness,
    shlosser,
)
from tests.support.every import COLUMNS, recipe, registry

NINE = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "income"]


@pytest.fixture(scope="module")
def adult():
    """Sizes of the classes of the nine columns that ARX's tests take."""
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        pytest.skip("GPUANON_DATA names no folder with the reference files")
    table = pyarrow.csv.read_csv(Path(folder) / "adult" / "adult_train_complete_30162.csv")
    return table.group_by(NINE).aggregate([([], "count_all")])["count_all"].to_numpy()


@pytest.mark.data
@pytest.mark.parametrize(
    ("fraction", "model", "expected"),
    # ARX 3.9.2, TestRiskMetrics.java.  It has no SNB estimate there: its equation for classes of two is multiplied by
    # what the model divides by.
    [
        (0.01, "pitman", 0.1446083531167384),
        (0.1, "pitman", 0.27684993883653597),
        (0.1, "zayatz", 0.3207402393466189),
        (0.2, "zayatz", 0.3577099234829125),
        (1.0, "zayatz", 0.5142895033485844),
    ],
)
def test_adult_has_the_figures_of_arx(adult, fraction, model, expected):
    assert population_uniqueness(adult, fraction).to_json()[model] == pytest.approx(expected, rel=1e-7)


def sampled(population, fraction, seed):
    """Sizes of the classes of a sample of a population with classes of these sizes."""
    rng = np.random.default_rng(seed)
    people = np.repeat(np.arange(len(population)), population)
    drawn = rng.choice(people, round(fraction * len(people)), replace=False)
    return np.unique(drawn, return_counts=True)[1]


def test_a_population_of_the_negative_binomial_model_is_recovered():
    rng = np.random.default_rng(2)
    population = 1 + rng.negative_binomial(2.0, 0.4, 60_000)
    found = sampled(population, 0.3, 3)
    assert negative_binomial(found, 0.3, 60_000) == pytest.approx((population == 1).sum(), rel=0.05)


def test_shlossers_estimator_follows_the_published_formula():
    sizes, f = np.repeat([1, 2, 3, 5], [40, 20, 9, 3]), 0.25
    n = {i: int((sizes == i).sum()) for i in range(1, 6)}
    ratio = sum(i * f**2 * (1 - f**2) ** (i - 1) * n[i] for i in n)
    ratio /= sum((1 - f) ** i * ((1 + f) ** i - 1) * n[i] for i in n)
    squared = (sum((1 - f) ** i * n[i] for i in n) / sum(i * f * (1 - f) ** (i - 1) * n[i] for i in n)) ** 2
    assert shlosser(sizes, f) == pytest.approx(len(sizes) + n[1] * ratio * squared)
    assert shlosser(sizes, 1.0 - 1e-12) == pytest.approx(len(sizes))  # a census misses no class


def test_the_parameters_of_pitman_maximise_the_likelihood():
    sizes = sampled(np.minimum(np.random.default_rng(6).zipf(1.8, 300), 60), 0.6, 7)

    def loss(at):
        theta, alpha = at
        n, u = sizes.sum(), len(sizes)
        value = np.log(theta + alpha * np.arange(1, u)).sum() - np.log(theta + np.arange(1, n)).sum()
        return -value - sum(np.log(np.arange(1, size) - alpha).sum() for size in sizes)

    theta, alpha = pitman_parameters(sizes)
    best = minimize(
        loss, (theta * 1.3, 0.5), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 500}
    )
    assert loss((theta, alpha)) <= best.fun + 1e-7
    np.testing.assert_allclose((theta, alpha), best.x, rtol=1e-4)


def test_a_pitman_population_is_recovered():
    """Sizes drawn one person at a time by Pitman's urn: the next is new with probability (θ + u α) / (θ + i)."""
    rng, theta, alpha = np.random.default_rng(8), 200.0, 0.6
    members = np.empty(40_000, dtype=np.int64)
    sizes = []
    for i in range(len(members)):
        if rng.random() < (theta + len(sizes) * alpha) / (theta + i):
            members[i] = len(sizes)
            sizes.append(1)
            continue
        while True:  # an old class with probability proportional to its size − α
            label = members[rng.integers(i)]
            if rng.random() < (sizes[label] - alpha) / sizes[label]:
                break
        members[i] = label
        sizes[label] += 1
    population = np.array(sizes)
    estimate = population_uniqueness(sampled(population, 0.05, 9), 0.05)
    assert estimate.details["model"] == "pitman"
    assert estimate.value == pytest.approx((population == 1).sum() / population.sum(), rel=0.1)


def test_a_whole_population_has_its_own_uniques_and_none_has_none():
    sizes = np.array([1, 1, 2, 4])
    assert population_uniqueness(sizes, 1.0).value == 0.25
    assert population_uniqueness(np.array([2, 3]), 0.1).value == 0


def test_the_fraction_comes_from_the_recipe_or_the_weights():
    table = registry(300)
    weighted = table.append_column("w", [np.full(300, 10.0)])
    name = "population_uniqueness"
    said = {"measures": {name: {"fraction": 0.2}}}
    plain = gpuanon.assess(table, table, recipe("permute"), measures=[name])
    assert "sampling fraction" in plain.failed[name]
    found = gpuanon.assess(table, table, recipe("permute", **said), measures=[name]).measured[name]
    assert found.details["sampling_fraction"] == 0.2
    columns = COLUMNS | {"w": {"role": "weight"}}
    for sample_rows in (None, 100):  # in memory, and piece by piece
        found = gpuanon.assess(
            weighted, weighted, recipe("permute", columns=columns), measures=[name], sample_rows=sample_rows
        ).measured[name]
        assert found.details["sampling_fraction"] == pytest.approx(0.1)


def test_uniqueness_by_column_is_the_same_in_memory_and_in_pieces():
    table = registry(300)
    whole, pieces = (
        gpuanon.assess(table, table, recipe("permute"), measures=["uniqueness"], sample_rows=rows).measured[
            "uniqueness"
        ]
        for rows in (None, 100)
    )
    assert whole.to_json()["by_column"] == pieces.to_json()["by_column"]
    counts = table["income"].value_counts()
    alone = sum(one["counts"].as_py() == 1 for one in counts) / 300
    assert whole.to_json()["by_column"]["income"] == pytest.approx(alone)


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.15, 0.3, 0.5, 0.77, 0.99])
def test_a_sample_without_equal_records_has_a_unique_population(fraction):
    """No two records share a class, so that no model sees a class of two: rounding must not make it more than all."""
    for records in range(2, 60):
        assert population_uniqueness(np.ones(records, dtype=int), fraction).value == pytest.approx(1.0, abs=1e-12)
