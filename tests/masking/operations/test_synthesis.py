"""Synthesis: what each model keeps, against pandas, SciPy and scikit-learn."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest, spearmanr, truncexpon

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.utility.propensity.pmse import pmse_cart
from gpuanon.errors import ParameterError, RecipeError
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.column_chain.conditional import Coded, tree_conditional
from gpuanon.masking.operations.maximum_entropy import GivenMoments, LargestEntropy, MaximumEntropy, MomentSums
from gpuanon.masking.operations.sample import Sample, condense
from gpuanon.masking.operations.sequential import PartlySynthetic, synthesise
from gpuanon.numerics.copula import ScoreSums

KEY = Key(b"a key for the tests of synthesis")


def draws(n, key=KEY):
    return key.draws(np.arange(n))


def info(names, ordered):
    return ClassInfo(tuple(names), tuple(ordered), (np.zeros((1, 1)),) * len(names))


def mixed_codes(n=4000, seed=0):
    """Codes of a number, a coarse number with nulls, a category of four levels and one of two, all dependent."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = 0.7 * x + 0.7 * rng.normal(size=n)
    level = np.array([2, 0, 3, 1])[np.digitize(x + rng.normal(size=n), [-1.5, 0, 1.5])]
    two = (y + (level == 3) + rng.normal(size=n) > 0.5).astype(int)
    coarse = np.digitize(y, np.linspace(-2, 2, 12))
    coarse[rng.random(n) < np.where(two == 1, 0.3, 0.05)] = -1
    return np.column_stack([np.argsort(np.argsort(x)) // 3, coarse, level, two]).astype(np.int64)


ORDERED = (True, True, False, False)


# Densities.


def test_columns_by_themselves_are_independent():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(5000, 2)) @ np.array([[1, 0.9], [0, 0.4]])
    whole = Partition.whole(5000)
    outcome = Sample(correlated=False).apply(Z, whole, Records(draws(5000), learned=ScoreSums.of(Z)))
    assert abs(np.corrcoef(outcome.values.T)[0, 1]) < 5 / np.sqrt(5000)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_moments_of_the_largest_entropy_are_kept(degree):
    """Beta and normal columns; tolerances are five standard errors of a mean of 20 000, and the chain's."""
    rng = np.random.default_rng(2)
    n = 20_000
    x = rng.beta(2, 3, n)
    X = np.column_stack([x, 0.8 * x + 0.2 * rng.normal(size=n)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    moments = GivenMoments.up_to(2, degree)
    model = MaximumEntropy.fit(MomentSums.of(X, moments), moments)
    Y = model.sample(draws(n), X)
    before, after = moments.functions(X), moments.functions(Y)
    error = np.sqrt((before.var(axis=0) + after.var(axis=0)) / n)
    assert (np.abs(before.mean(axis=0) - after.mean(axis=0)) < 5 * error + 0.02).all()
    assert (Y.min(axis=0) >= X.min(axis=0)).all()
    assert (Y.max(axis=0) <= X.max(axis=0)).all()


def test_moment_sums_of_parts_are_those_of_the_whole():
    X = np.random.default_rng(0).normal(size=(100, 3))
    moments = GivenMoments.up_to(3, 3)
    whole = MomentSums.of(X, moments)
    parts = MomentSums.of(X[:30], moments).merge(MomentSums.of(X[30:], moments))
    np.testing.assert_allclose(parts.sums, whole.sums)
    np.testing.assert_array_equal(parts.low, X.min(axis=0))
    np.testing.assert_allclose(parts.second, (X**2).sum(axis=0))
    assert MomentSums.of(X[:0], moments).merge(whole).rows == 100


def test_products_are_those_that_are_named():
    X = np.random.default_rng(0).normal(size=(50, 3))
    moments = GivenMoments(3, ((0, 0, 2), (1,), (0, 2), (2, 2, 2)))
    expected = np.column_stack([X[:, 0] ** 2 * X[:, 2], X[:, 1], X[:, 0] * X[:, 2], X[:, 2] ** 3])
    np.testing.assert_allclose(moments.functions(X), expected)
    assert moments.apart.all()


def named(X, *terms):
    """New rows of the largest entropy with these moments of `X` (n, d)."""
    moments = GivenMoments(X.shape[1], terms)
    return MaximumEntropy.fit(MomentSums.of(X, moments), moments).sample(draws(len(X)), X)


def test_a_mean_alone_gives_the_truncated_exponential_distribution():
    """The largest entropy on [0, 1] with a given mean; a Kolmogorov–Smirnov test of 20 000 rows."""
    X = np.random.default_rng(1).beta(1, 4, 20_000)[:, None]
    Y = named(X, (0,))
    low, high = X.min(), X.max()

    def mean(rate):
        return low + 1 / rate - (high - low) / np.expm1(rate * (high - low))

    rate = brentq(lambda rate: mean(rate) - X.mean(), 0.01, 50)
    fitted = truncexpon(b=rate * (high - low), loc=low, scale=1 / rate)
    # 1.95 / √n is passed in one of a thousand samples; Newton's method and its sample add some thousandths.
    assert kstest(Y[:, 0], fitted.cdf).statistic < 1.95 / np.sqrt(len(Y)) + 0.005


def test_what_is_not_named_is_not_kept():
    rng = np.random.default_rng(2)
    x = rng.normal(size=20_000)
    X = np.column_stack([x, 0.9 * x + 0.4 * rng.normal(size=len(x)), x**2 + rng.normal(size=len(x))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    singles, squares = ((0,), (1,), (2,)), ((0, 0), (1, 1), (2, 2))
    apart = named(X, *singles, *squares)
    pair = named(X, *singles, *squares, (0, 1))
    Z = X.copy()
    Z[:, 2] = 0.3 * X[:, 2] + np.sqrt(1 - 0.09) * rng.normal(size=len(x))
    third = named(Z, *singles, *squares, (0, 1), (0, 0, 2))
    error = 5 / np.sqrt(len(X))
    assert (np.abs(apart.mean(axis=0)) < error + 0.01).all()
    assert (np.abs(apart.var(axis=0) - 1) < 2 * error + 0.02).all()
    assert abs((apart[:, 0] * apart[:, 1]).mean()) < error
    assert abs((pair[:, 0] * pair[:, 1]).mean() - (X[:, 0] * X[:, 1]).mean()) < error + 0.02
    assert abs((pair[:, 0] ** 2 * pair[:, 2]).mean()) < 3 * error
    assert abs((third[:, 0] ** 2 * third[:, 2]).mean() - (Z[:, 0] ** 2 * Z[:, 2]).mean()) < 2 * error + 0.05
    assert (Z[:, 0] ** 2 * Z[:, 2]).mean() > 0.3
    # A parabola with little noise: the density would have to lie in the corners of the box, where nothing is proposed.
    with pytest.raises(ParameterError, match="does not meet"):
        named(X, *singles, *squares, (0, 1), (0, 0, 2))


def test_named_moments_in_a_recipe_are_of_columns_categories_among_them():
    rng = np.random.default_rng(4)
    sex = rng.integers(0, 2, 6000)
    kind = rng.choice(["a", "b", "c"], 6000, p=[0.5, 0.3, 0.2])
    age = 50 + 10 * rng.normal(size=6000) + 8 * sex
    frame = pd.DataFrame({"age": age, "sex": np.where(sex, "m", "f"), "kind": kind, "pay": age + rng.normal(size=6000)})
    columns = {name: {"role": "quasi"} for name in frame}

    def drawn(*moments):
        mask = {"method": "maximum-entropy", "moments": moments}
        return gpuanon.protect(frame, {"columns": columns, "mask": [mask]}, rng=KEY, backend="numpy").data

    plain = drawn(["age"], ["age", "age"], ["pay"], ["sex"], ["kind"])
    joint = drawn(["age"], ["age", "age"], ["pay"], ["sex"], ["kind"], ["sex", "age"])
    for found in (plain, joint):
        assert abs(found["age"].mean() - age.mean()) < 5 * age.std() / np.sqrt(6000)
        assert abs(found["age"].std() - age.std()) < 0.5
        assert abs(found["pay"].mean() - frame["pay"].mean()) < 0.1 * age.std()
        assert abs(np.corrcoef(found["age"], found["pay"])[0, 1]) < 5 / np.sqrt(6000)
    gaps = [found.groupby("sex")["age"].mean().diff().iloc[-1] for found in (plain, joint)]
    assert abs(gaps[0]) < 1.3  # five standard errors
    assert 3 < gaps[1] < 10  # 8, less what decoding the nearer category takes
    with pytest.raises(ParameterError, match="'pay' has no moment"):
        drawn(["age"], ["sex"], ["kind"])
    with pytest.raises(RecipeError, match="does not apply where moments are named"):
        gpuanon.protect(
            frame,
            {"columns": columns, "mask": [{"method": "maximum-entropy", "moments": [["age"]], "degree": 3}]},
        )


def test_moments_that_cannot_be_met_are_refused():
    X = np.concatenate([np.zeros(990), np.full(10, 30.0)])[:, None]
    X = (X - X.mean()) / X.std()
    learned = LargestEntropy(degree=4).learn(X, Partition.whole(1000), Records(draws(1000)))
    with pytest.raises(ParameterError, match="degree"):
        LargestEntropy(degree=4).apply(X, Partition.whole(1000), Records(draws(1000), learned=learned))


def test_condensed_groups_keep_mean_and_variance_along_each_axis():
    rng = np.random.default_rng(0)
    T = rng.normal(size=(30_000, 2)) * [3, 0.5] + [1, 2]
    groups = Partition.from_labels(np.arange(30_000) % 2)
    found = condense(T, groups, draws(30_000))
    for part in range(2):
        rows = np.arange(30_000) % 2 == part
        np.testing.assert_allclose(found[rows].mean(axis=0), T[rows].mean(axis=0), atol=5 * 3 / np.sqrt(15_000))
        np.testing.assert_allclose(found[rows].std(axis=0), T[rows].std(axis=0), rtol=0.02)
        # Uniform: no value farther than √3 deviations.
        reach = np.abs(found[rows] - T[rows].mean(axis=0)).max(axis=0) / T[rows].std(axis=0)
        assert (reach <= np.sqrt(3) + 1e-9).all()


# Column after column.


@pytest.mark.parametrize("model", ["cart", "parametric", "mixture"])
def test_sequential_synthesis_keeps_columns_and_what_links_them(model):
    codes = mixed_codes()
    new, _ = synthesise(codes, ORDERED, draws(len(codes)), model=model, leaf=5)
    for j in range(4):
        assert np.isin(new[:, j], codes[:, j]).all()
        before, after = (pd.Series(table[:, j]).value_counts(normalize=True) for table in (codes, new))
        common = before[before > 0.02].index
        assert (np.abs(after.reindex(common, fill_value=0) - before[common]) < 0.04).all()
    known = [table[(table[:, 1] >= 0)] for table in (codes, new)]
    assert abs(spearmanr(known[0][:, :2])[0] - spearmanr(known[1][:, :2])[0]) < 0.05
    for by, of in ((2, 0), (3, 0)):
        before, after = (pd.DataFrame(table).groupby(by)[of].mean() for table in (codes, new))
        assert np.corrcoef(before, after)[0, 1] > 0.97
    missing = [pd.DataFrame(table).groupby(3)[1].agg(lambda c: (c < 0).mean()) for table in (codes, new)]
    np.testing.assert_allclose(missing[1], missing[0], atol=0.05)
    pairs = len(pd.merge(pd.DataFrame(codes), pd.DataFrame(new)).drop_duplicates())
    assert pairs < 0.5 * len(codes)  # rows are not copied


def test_drawing_from_a_tree_draws_from_the_leaf():
    """A target that is a function of the predictor comes back exactly; one that is not keeps its shares there."""
    x = np.repeat(np.arange(4), 500)
    rng = np.random.default_rng(0)
    exact = Coded(np.array([2, 0, 1, 3])[x], False, 4)
    noisy = Coded((rng.random(2000) < 0.2 + 0.2 * x).astype(np.int64), True, 2)
    new, u = rng.integers(0, 4, 2000), rng.random(2000)
    for predictor in (Coded(x, True, 4), Coded(x, False, 4)):
        tree = tree_conditional(exact, [predictor], 1, [0], 0, 5)
        assert np.array_equal(tree.draw(tree.find([new]), u, False), np.array([2, 0, 1, 3])[new])
        tree = tree_conditional(noisy, [predictor], 1, [0], 0, 400)
        for even, tolerance in ((False, 0.1), (True, 1 / 400)):
            found = tree.draw(tree.find([new]), u, even)
            for value in range(4):
                assert abs(found[new == value].mean() - noisy.codes[x == value].mean()) < tolerance


def test_blocks_and_bootstrap_change_the_draw_not_the_distribution():
    codes = mixed_codes()
    for settings in ({"block": 500}, {"proper": True, "even": False}):
        new, _ = synthesise(codes, ORDERED, draws(len(codes)), **settings)
        assert abs(new[:, 0].mean() - codes[:, 0].mean()) < 5 * codes[:, 0].std() / np.sqrt(len(codes))
        assert abs((new[:, 3] == 1).mean() - (codes[:, 3] == 1).mean()) < 0.05


def test_partly_synthetic_rows_are_the_rare_ones():
    codes = mixed_codes(1000)[:, 1:]
    outcome = PartlySynthetic(below=5).apply(
        codes, Partition.whole(1000), Records(draws(1000), classes=info("bcd", ORDERED[1:]))
    )
    found = np.column_stack([column.codes for column in outcome.columns])
    sizes = pd.DataFrame(codes).groupby([0, 1, 2])[0].transform("size").to_numpy()
    rare = sizes < 5
    assert outcome.facts["records_synthetic"] == rare.sum() > 20
    assert np.array_equal(found[~rare], codes[~rare])
    assert (found[rare] != codes[rare]).any(axis=1).mean() > 0.5


def test_partly_synthetic_rows_are_those_that_a_column_marks():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"a": rng.normal(size=800), "b": rng.integers(0, 9, 800), "flag": rng.random(800) < 0.3})
    columns = {"a": {"role": "quasi"}, "b": {"role": "other"}, "flag": {"role": "other"}}

    def drawn(table, **settings):
        mask = {"method": "sequential-synthesis", "columns": ["a"], "chosen": "flag", **settings}
        return gpuanon.protect(table, {"columns": columns, "mask": [mask]}, rng=KEY, backend="numpy")

    for flag in (frame["flag"], frame["flag"].astype(int), frame["flag"] * 2.0):
        release = drawn(frame.assign(flag=flag))
        before = frame.iloc[release.link].reset_index(drop=True)
        marked = before["flag"]
        assert (release.data["a"] == before["a"])[~marked].all()
        assert (release.data["a"] != before["a"])[marked].mean() > 0.9
        assert release.manifest["mask"][0]["records_synthetic"] == marked.sum()
    rare = drawn(frame.assign(a=frame["a"].round()), below=30)
    sizes = frame["a"].round().map(frame["a"].round().value_counts())
    assert rare.manifest["mask"][0]["records_synthetic"] == (frame["flag"] & (sizes < 30)).sum() > 0
    for bad in (frame["flag"].astype(str), frame["flag"].where(frame["b"] > 0).astype("boolean")):
        with pytest.raises(ParameterError, match="true or false"):
            drawn(frame.assign(flag=bad))
    with pytest.raises(ParameterError, match="the mask changes it"):
        drawn(frame, columns=["a", "flag"])


@pytest.mark.data
def test_synthesis_of_the_social_diagnosis_is_as_good_as_synthpops(data_folder: Path) -> None:
    """pMSE by CART of synthpop's own synthesis is 0.008475; here the mean of ten keys, with leaves as small as its."""
    with open(data_folder / "sd2011" / "syn_cart_seed34567.csv", newline="") as file:
        names = next(csv.reader(file))
    table = pd.read_csv(data_folder / "sd2011" / "sd2011.csv")[names]
    numbers = ("income", "age", "height", "weight")
    levels = [pd.Categorical(table[name]) for name in names]
    codes = np.column_stack([level.codes for level in levels]).astype(np.int64)

    def matrix(coded):
        columns, flags = [], []
        for j, name in enumerate(names):
            if name not in numbers:
                columns.append(coded[:, j])
                flags.append(True)
                continue
            values = np.append(np.asarray(levels[j].categories, dtype=float), np.nan)[coded[:, j]]
            kind = np.where(np.isnan(values), 2.0, np.where(values < 0, 1.0, 0.0))
            columns += [kind, np.where(kind > 0, 0.0, values)]
            flags += [True, False]
        return np.column_stack(columns), flags

    X, flags = matrix(codes)
    ordered = [name in numbers for name in names]
    found = []
    for number in range(100, 110):
        own = draws(len(codes), Key(b"the key of social diagnosis %d" % number))
        new, _ = synthesise(codes, ordered, own, leaf=5)
        found.append(pmse_cart(X, matrix(new)[0], categorical=flags).value)
    assert np.mean(found) <= 0.008475


@pytest.mark.parametrize("skewed", [False, True])
def test_whether_a_degree_is_refused_does_not_depend_on_the_key(skewed):
    rng = np.random.default_rng(3)
    x = rng.gamma(2, 1, 2000) if skewed else rng.beta(2, 5, 2000)
    frame = pd.DataFrame({"x": x, "y": rng.normal(size=2000) + x})
    rules = {
        "columns": {name: {"role": "quasi"} for name in frame},
        "mask": [{"method": "maximum-entropy", "degree": 3}],
    }
    found = set()
    for number in range(6):
        try:
            gpuanon.protect(frame, rules, rng=Key(number.to_bytes(16, "big")), backend="numpy")
            found.add("released")
        except ParameterError as error:
            found.add(str(error))
    assert len(found) == 1
    assert ("released" in found) != skewed
