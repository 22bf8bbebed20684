"""A page and its figures as an adversary reads them: no value that one record alone has may occur.

Rare levels, extreme values, dates and times, the smallest k, releases that hold original values as they are, all
measures with options, a reference sample, and the page of a comparison.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import gpuanon

pytestmark = pytest.mark.slow  # every measure, four times

KEY = b"a key of sixteen bytes or more"
COLUMNS = {
    "income": {"role": "quasi"},
    "age": {"role": "quasi"},
    "visit": {"role": "quasi"},
    "ward": {"role": "quasi"},
    "cost": {"role": "sensitive"},
    "diagnosis": {"role": "sensitive"},
    "weight": {"role": "weight"},
}
EXTREME = 987_654_321.25


def table(n, seed):
    rng = np.random.default_rng(seed)
    income = np.round(rng.lognormal(12, 0.7, n), 2) + 100_000
    income[0] = EXTREME
    cost = np.round(rng.lognormal(11, 1.2, n), 2) + 100_000
    cost[1] = -EXTREME
    wards = [*(f"hidden ward {seed}-{i}" for i in range(15)), *rng.choice(["east", "west", "north"], n - 15)]
    ills = [*(f"rare illness {seed}-{i}" for i in range(15)), *rng.choice(["flu", "cold"], n - 15)]
    return pa.table(
        {
            "income": pa.array(income, mask=rng.random(n) < 0.02),
            "age": rng.integers(18, 90, n),
            "visit": pa.array(rng.permutation(40_000_000)[:n] + 1_500_000_000).cast(pa.timestamp("s")),
            "ward": pa.array(rng.permutation(wards)),
            "cost": cost,
            "diagnosis": pa.array(rng.permutation(ills)),
            "weight": np.round(rng.uniform(100, 999, n), 4),
        }
    )


def spellings(value):
    """How a page might show a value."""
    if isinstance(value, float):
        whole = {repr(value), f"{value:.2f}", f"{value:.1f}", f"{value:.0f}", f"{value:,.2f}", f"{value:,.0f}"}
        return {text for text in whole if len(text.strip("-").replace(",", "")) >= 6}
    return {str(value), value.isoformat(), str(value)[:16], str(value)[:10]}


def occurring(texts, source):
    """Values that one record of `source` alone has and that occur in the texts."""
    written = set().union(*(re.findall(r"\d[\d,.:T -]*\d|\d", text) for text in texts))
    written |= {piece for found in written for piece in re.split(r"[ T]", found)}
    found = []
    for name in ("income", "cost", "visit", "weight"):
        values = [value for value in source[name].to_pylist() if value is not None]
        distinct, counts = np.unique(np.array(values), return_counts=True)
        alone = [one.item() if hasattr(one, "item") else one for one in distinct[counts == 1]]
        if name == "visit":  # a day on which several came is nobody's
            days, often = np.unique([str(one)[:10] for one in values], return_counts=True)
            known = set(days[often > 1])
            alone = [one for one in alone if str(one)[:10] not in known]
        assert len(alone) > 20
        found += [(name, text) for one in alone for text in spellings(one) & written]
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("privacy")
    original, reference = table(400, 1), table(400, 2)
    common = {
        "columns": COLUMNS,
        "analysis": [{"formula": "cost ~ age + C(ward) + C(diagnosis)"}],
        "workload": [{"response": "cost", "columns": ["age"], "existing": {"ward": "east"}, "new": {"ward": "west"}}],
        "measures": {
            "population_uniqueness": {"fraction": 0.1},
            "distribution_fit": {"distribution": "uniform"},
            "model_efficacy": {"target": "diagnosis"},
            "cdf_points": {"at": {"income": [200_000]}},
        },
    }
    masks = {"grouped": {"method": "microaggregation", "k": 2}, "swapped": {"method": "rank-swap"}}
    for name, mask in masks.items():
        rules = {**common, "mask": [mask]}
        found = gpuanon.protect(original, rules, rng=KEY)
        seen = gpuanon.assess(original, found.data, rules, link=found.link, reference=reference)
        seen.report(folder / f"{name}-all.html")
        found.report(folder / f"{name}.html")
    grid = {**common, "mask": [{"method": "microaggregation", "k": [2, 4]}], "limits": {"reidentification": 0.9}}
    gpuanon.compare(original, [grid], rng=KEY).report(folder / "comparison.html")
    return original, reference, {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_no_value_that_one_record_has_is_on_any_page_or_in_its_figures(pages):
    original, reference, texts = pages
    assert len(texts) == 10
    for name, text in texts.items():
        assert occurring([text], original) == [], name
        assert occurring([text], reference) == [], name


def test_no_label_that_one_record_has_is_on_any_page(pages):
    for name, text in pages[2].items():
        assert not re.findall(r"hidden ward[^\"<]*|rare illness[^\"<]*", text), name


def test_the_extremes_are_not_on_any_page(pages):
    """Neither as they are nor rounded, and no mean of few that tells the largest one."""
    for name, text in pages[2].items():
        numbers = re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", text)
        near = [x for x in numbers if 0.9 * EXTREME < abs(float(x.replace(",", "") or 0)) < 1.1 * EXTREME]
        assert not near, (name, near[:3])
