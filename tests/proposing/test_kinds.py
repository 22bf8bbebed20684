"""What columns hold is told by their values: weights, code lists, bands."""

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.proposing.choices import choices, replicate_weights
from gpuanon.proposing.profiling import ordered_texts, profiles
from gpuanon.tables.table import Table

N = 2_000


def chosen(**columns):
    table = Table.of(pd.DataFrame(columns))
    return {choice.name: choice for choice in choices(table, profiles(table))}


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    ("name", "mean", "spread", "role"),
    [
        ("PWGTP", 90, 60, "weight"), ("WTMEC2YR", 30_000, 25_000, "weight"), ("fnlwgt", 190_000, 100_000, "weight"),
        ("weight", 2_500, 1_500, "weight"), ("Gewicht", 1.0, 0.5, "weight"), ("weight", 78, 15, "quasi"),
        ("wt71", 71, 15, "quasi"), ("poids", 65, 12, "quasi"), ("birth_weight", 3_400, 500, "quasi"),
    ],
)  # fmt: skip
def test_sample_weights_are_told_from_what_people_weigh(rng, name, mean, spread, role):
    shape = (mean / spread) ** 2
    assert chosen(**{name: rng.gamma(shape, mean / shape, N)})[name].role == role


def test_replicate_weights_are_weights_and_repeated_measurements_are_not(rng):
    base = rng.gamma(2, 50, N).round() + 1
    columns = {f"PWGTP{at}": base * rng.choice([0.5, 1.5], N) for at in range(1, 21)}
    columns |= {f"pressure{at}": rng.normal(120, 15, N) for at in range(1, 21)}
    found = replicate_weights(profiles(Table.of(pd.DataFrame(columns))))
    assert found == {f"PWGTP{at}" for at in range(1, 21)}


def test_several_weights_are_masked_where_a_mask_names_them(rng):
    frame = pd.DataFrame({"age": rng.integers(20, 80, N), "w1": rng.gamma(2, 50, N), "w2": rng.gamma(2, 50, N)})
    columns = {"age": {"role": "quasi"}, "w1": {"role": "weight"}, "w2": {"role": "weight"}}
    recipe = {"columns": columns, "mask": [{"method": "microaggregation", "k": 5, "columns": ["age", "w1", "w2"]}]}
    release = gpuanon.protect(frame, recipe).data
    assert release.groupby(["age", "w1", "w2"]).size().min() >= 5
    assert release.w1.sum() == pytest.approx(frame.w1.sum())


def test_whole_numbers_with_gaps_or_several_peaks_are_codes(rng):
    found = chosen(
        gaps=rng.choice([1, 2, 3, 5, 9], N),
        peaks=rng.choice([1, 2, 3, 4, 5, 6], N, p=[0.4, 0.05, 0.2, 0.05, 0.25, 0.05]),
        scale=rng.choice([1, 2, 3, 4, 5], N, p=[0.1, 0.2, 0.4, 0.2, 0.1]),
        visits=rng.poisson(1.0, N).clip(0, 6),
        occupation=rng.choice(np.arange(1000, 9000, 173), N),
    )
    assert {name: choice.kind for name, choice in found.items()} == {
        "gaps": "categorical",
        "peaks": "categorical",
        "scale": "ordinal",
        "visits": "numeric",
        "occupation": "categorical",
    }


def test_the_code_of_a_region_is_no_telephone_number(rng):
    regions = [f"48-{number:05d}" for number in range(2500, 2540)]
    found = chosen(where=rng.choice(regions, N), PUMA=rng.choice(regions, N))
    assert {choice.role for choice in found.values()} == {"quasi"}
    assert found["PUMA"].kind == "categorical"


@pytest.mark.parametrize(
    "bands",
    [
        ["[0-10)", "[10-20)", "[20-30)", "[100-110)"],
        ["<30", "30–39", "40–49", "50+"],
        ["under 5", "5 to 9", "10 to 14", "15 and over"],
        ["unter 1.000", "1.000 bis 2.000", "2.000 bis 10.000", "über 10.000"],
        ["moins de 20", "20 à 39", "40 à 99", "100 et plus"],
        ["$0-$9,999", "$10,000-$19,999", "$20,000-$99,999", "$100,000 or more"],
    ],
)
def test_bands_in_four_languages_are_in_the_order_of_their_numbers(rng, bands):
    table = Table.of(pd.DataFrame({"band": rng.permutation(bands * 20)}))
    found = ordered_texts(table, "band", 100)
    assert found is not None
    assert list(found.levels) == bands


@pytest.mark.parametrize("values", [["A1", "B2", "C3"], ["1 or 2", "red", "3"], ["10-20", "10-20 ", "30"]])
def test_other_texts_with_digits_are_no_bands(values):
    assert ordered_texts(Table.of(pd.DataFrame({"code": values * 20})), "code", 100) is None
