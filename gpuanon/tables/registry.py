"""A synthetic health registry of any size, for the demo, the tests and the benchmarks.

The columns are correlated as in a real registry (age drives disease, disease and education drive cost), so that a loss
of utility by masking can be measured.

column       type                    nulls  what it is
-----------  ----------------------  -----  -----------------------------------------------------------------
person_id    string                  no     identifier, unique
age          int8                    no     18 to 99 years
sex          dictionary              no     female, male
region       dictionary              no     16 regions of unequal size and wealth
education    dictionary, ordered     no     6 levels, see `EDUCATION`
income       float64                 6 %    yearly, whole units, heavy right tail
smoker       bool                    no     depends on age, sex, education
bmi          float64                 no     kg/m², one decimal
systolic     int16                   4 %    blood pressure, mmHg
cholesterol  float64                 9 %    mmol/l, one decimal
hba1c        float64                 42 %   per cent, one decimal; measured more often in the ill
diagnosis    dictionary              no     main diagnosis, 12 levels, depends on age, sex, smoking, weight
visits       int32                   no     outpatient visits in the year, overdispersed count
admission    date32                  27 %   last admission to hospital, 2019 to 2023, more in winter
cost         float64                 no     yearly cost of care, cents; one fifth zeros, heavy right tail
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa


BATCH_ROWS = 1 << 18

REGIONS = (
    "Ålvik", "Brackwater", "Castle Down", "Dunmere", "Eastmark", "Fenland", "Glass Coast", "Hochwald",
    "Isles", "Karst", "Lakeside", "Midvale", "Northmoor", "Port Sévrin", "Southreach", "Westfold",
)  # fmt: skip
EDUCATION = ("none", "primary", "secondary", "vocational", "bachelor", "master or higher")
DIAGNOSES = (
    "none", "hypertension", "diabetes", "ischaemic heart disease", "stroke", "lung disease",
    "asthma", "depression", "cancer", "arthrosis", "pregnancy", "injury",
)  # fmt: skip
# Effect of each diagnosis, in the order of DIAGNOSES, on the logarithms of cost and of visits.
_COSTLY = np.array([0.0, 0.35, 0.8, 1.3, 1.6, 1.1, 0.3, 0.6, 2.1, 0.6, 0.9, 0.7])
_BUSY = np.array([0.0, 0.5, 0.8, 0.8, 0.9, 0.8, 0.5, 0.9, 1.2, 0.6, 0.9, 0.4])

_RECIPE = """\
nulls = "indicator"

[columns]
person_id   = { role = "identifier" }
age         = { role = "quasi" }
sex         = { role = "quasi" }
region      = { role = "quasi" }
education   = { role = "quasi", kind = "ordinal", levels = LEVELS }
income      = { role = "quasi", transform = "log" }
admission   = { role = "quasi" }
diagnosis   = { role = "sensitive" }
cost        = { role = "sensitive", transform = "log1p" }
smoker      = { role = "other" }
bmi         = { role = "other" }
systolic    = { role = "other" }
cholesterol = { role = "other" }
hba1c       = { role = "other" }
visits      = { role = "other" }

[[mask]]
method = "microaggregation"
k = 5
"""


def registry_recipe() -> str:
    """A recipe (TOML) for the registry: what an intruder may know is quasi, diagnosis and cost are sensitive."""
    return _RECIPE.replace("LEVELS", json.dumps(EDUCATION))


def make_registry(rows: int, seed: int = 0) -> pa.Table:
    """Make a registry of `rows` people.

    Whole batches of `BATCH_ROWS` rows are the same in registries of every size; the number of threads changes nothing.

    Parameters
    ----------
    rows : number of people, 0 or more
    seed : the registry is a function of `rows` and `seed`

    Returns
    -------
    A `pyarrow.Table` with the columns listed in the module docstring.
    """
    import pyarrow as pa

    return pa.concat_tables(each(lambda plan: _batch(*plan, seed), _plan(rows)))


def _plan(rows: int) -> list[tuple[int, int]]:
    """Number and row count of each batch; an empty registry has one empty batch."""
    if rows < 0:
        raise ParameterError(f"rows: 0 or more are allowed, got {rows}")
    starts = range(0, max(rows, 1), BATCH_ROWS)
    return [(number, min(BATCH_ROWS, rows - start)) for number, start in enumerate(starts)]


def _batch(number: int, count: int, seed: int) -> pa.Table:
    """Batch `number`, of `count` rows, from its own random stream."""
    import pyarrow as pa

    rng = np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(number,)))
    people = _people(rng, count)
    people |= _body(rng, people)
    people |= _care(rng, people)
    identifiers = _identifiers(number * BATCH_ROWS, count)
    return pa.table({"person_id": identifiers, **_typed(people)})


def _people(rng: np.random.Generator, n: int) -> dict[str, Host]:
    """Age, sex, region, education, income."""
    age = np.floor(18 + 82 * rng.beta(1.3, 1.9, n))
    male = rng.random(n) > 0.49 + 0.002 * (age - 50)
    sizes = np.linspace(2.5, 0.4, len(REGIONS)) ** 1.5
    region = np.searchsorted(np.cumsum(sizes / sizes.sum())[:-1], rng.random(n), side="right")
    wealth = 0.18 * np.cos(1.7 * np.arange(len(REGIONS)))[region]
    latent = rng.standard_normal(n) - 0.018 * (age - 50) + 0.8 * wealth
    education = np.searchsorted([-2.2, -1.0, 0.1, 0.8, 1.5], latent, side="right")
    working = 1 - ((age - 48) / 45) ** 2
    log_income = 9.9 + 0.17 * education + 0.5 * working + wealth + 0.12 * male + 0.5 * rng.standard_normal(n)
    income = np.exp(log_income) * np.where(rng.random(n) < 0.02, 1 + rng.pareto(2.2, n), 1.0)
    hidden = rng.random(n) < np.where(log_income > 11.2, 0.12, 0.04)
    income = np.where(hidden, np.nan, np.maximum(np.round(income), 1))
    return {"age": age, "male": male, "region": region, "education": education, "income": income}


def _body(rng: np.random.Generator, people: dict[str, Host]) -> dict[str, Host]:
    """Smoking, body mass, laboratory values, diagnosis."""
    age, male, education = people["age"], people["male"], people["education"]
    n = len(age)
    smoker = rng.random(n) < _logistic(-1.1 - 0.3 * (education - 2) - 0.02 * (age - 45) + 0.3 * male)
    bmi = 25.5 * np.exp(0.002 * (age - 50) - 0.02 * (education - 2) - 0.03 * smoker + 0.16 * rng.standard_normal(n))
    bmi = np.clip(np.round(bmi, 1), 14, 65)
    diabetic = rng.random(n) < _logistic(-3.1 + 0.045 * (age - 50) + 0.12 * (bmi - 26))
    systolic = np.round(124 + 0.42 * (age - 50) + 0.7 * (bmi - 26) + 4 * male + 13 * rng.standard_normal(n))
    cholesterol = 5.1 + 0.012 * (age - 50) + 0.03 * (bmi - 26) + 0.25 * smoker + 0.9 * rng.standard_normal(n)
    sugar = diabetic * rng.gamma(2, 0.8, n)
    hba1c = 5.3 + 0.008 * (age - 50) + 0.02 * (bmi - 26) + 0.3 * rng.standard_normal(n) + sugar
    return {
        "smoker": smoker,
        "bmi": bmi,
        "systolic": np.where(rng.random(n) < 0.04, np.nan, np.clip(systolic, 75, 240)),
        "cholesterol": np.where(rng.random(n) < 0.09, np.nan, np.clip(np.round(cholesterol, 1), 1.8, 13)),
        "hba1c": np.where(rng.random(n) < np.where(diabetic, 0.08, 0.45), np.nan, np.clip(np.round(hba1c, 1), 3.8, 16)),
        "diagnosis": _diagnosis(rng, age, male, smoker, bmi, diabetic, np.clip(systolic, 75, 240)),
    }


def _diagnosis(
    rng: np.random.Generator, age: Host, male: Host, smoker: Host, bmi: Host, diabetic: Host, systolic: Host
) -> Host:
    """One main diagnosis each: the largest of twelve propensities with Gumbel noise (a multinomial logit)."""
    old, heavy = (age - 50) / 10, (bmi - 26) / 5
    fertile = ~male & (age < 45)
    propensities = (
        1.3 - 0.25 * old,
        -0.3 + 0.2 * old + 0.05 * (systolic - 130),
        np.where(diabetic, 2.2, -6.0),
        -1.7 + 0.55 * old + 0.5 * male + 0.5 * smoker + 0.2 * heavy,
        -2.4 + 0.6 * old + 0.2 * male + 0.4 * smoker,
        -2.4 + 0.4 * old + 1.6 * smoker,
        -0.9 - 0.1 * old + 0.1 * heavy,
        -0.2 - 0.1 * old - 0.5 * male,
        -1.4 + 0.45 * old + 0.4 * smoker,
        -0.9 + 0.35 * old + 0.4 * heavy,
        np.where(fertile, 0.3 - 0.1 * np.abs(age - 30), -30.0),
        -0.6 - 0.05 * old + 0.4 * male,
    )
    best, chosen = np.full(len(age), -np.inf), np.zeros(len(age), dtype=np.int64)
    for level, propensity in enumerate(propensities):
        score = propensity + rng.gumbel(size=len(age))
        chosen[score > best] = level
        best = np.maximum(score, best)
    return chosen


def _care(rng: np.random.Generator, people: dict[str, Host]) -> dict[str, Host]:
    """Visits, admission, cost."""
    age, male, smoker = people["age"], people["male"], people["smoker"]
    education, diagnosis = people["education"], people["diagnosis"]
    n = len(age)
    expected = np.exp(0.5 + 0.012 * (age - 50) - 0.15 * male + _BUSY[diagnosis])
    visits = rng.poisson(expected * rng.gamma(1.5, 1 / 1.5, n))
    admitted = rng.random(n) < _logistic(0.85 + 0.02 * (age - 50) + 0.5 * _COSTLY[diagnosis])
    winter = np.cumsum(1 + 0.25 * np.cos(2 * np.pi * (np.arange(365) - 20) / 365))
    day_of_year = np.searchsorted(winter / winter[-1], rng.random(n))
    first_days = np.array([f"{year}-01-01" for year in range(2019, 2024)], dtype="datetime64[D]")
    admission = first_days[rng.integers(0, 5, n)] + day_of_year.astype("timedelta64[D]")
    log_cost = 6.0 + 0.018 * (age - 50) + 0.08 * education + _COSTLY[diagnosis] + 0.25 * smoker + 0.04 * visits
    spent = np.exp(np.minimum(log_cost + 1.05 * rng.standard_normal(n), 16))
    nothing = rng.random(n) < _logistic(-0.75 - 0.025 * (age - 50) - 0.9 * _COSTLY[diagnosis] - 0.15 * visits)
    return {
        "visits": visits,
        "admission": np.where(admitted, admission, np.datetime64("NaT", "D")),
        "cost": np.where(nothing, 0.0, np.round(spent, 2)),
    }


def _logistic(x: Host) -> Host:
    """The inverse of the logit."""
    return 1 / (1 + np.exp(-x))


def _identifiers(first: int, count: int) -> pa.Array:
    """Unique 10-character identifiers in no informative order (multiplication modulo 10^9 by a number prime to 10)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = (np.arange(first, first + count, dtype=np.int64) * 387_420_489 + 271_828_183) % 1_000_000_000
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    return pc.binary_join_element_wise("P", digits, "")


def _typed(people: dict[str, Host]) -> dict[str, pa.Array]:
    """The columns in their Arrow types, in the documented order."""
    import pyarrow as pa

    def labels(codes: Host, levels: tuple[str, ...], ordered: bool = False) -> pa.Array:
        return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(levels), ordered=ordered)

    return {
        "age": pa.array(people["age"].astype(np.int8)),
        "sex": labels(people["male"], ("female", "male")),
        "region": labels(people["region"], REGIONS),
        "education": labels(people["education"], EDUCATION, ordered=True),
        "income": pa.array(people["income"], from_pandas=True),
        "smoker": pa.array(people["smoker"]),
        "bmi": pa.array(people["bmi"]),
        "systolic": pa.array(people["systolic"], from_pandas=True).cast(pa.int16()),
        "cholesterol": pa.array(people["cholesterol"], from_pandas=True),
        "hba1c": pa.array(people["hba1c"], from_pandas=True),
        "diagnosis": labels(people["diagnosis"], DIAGNOSES),
        "visits": pa.array(people["visits"].astype(np.int32)),
        "admission": pa.array(people["admission"]),
        "cost": pa.array(people["cost"]),
    }
