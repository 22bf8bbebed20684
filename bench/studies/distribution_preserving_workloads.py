"""What a release does to an insurer's figures: cost models, segments, another cost of living; ℓ, t and the posterior.

    python bench/studies/distribution_preserving_workloads.py [--only PART ...] [--registries 6] [--rows 100000]

Parts, in distribution_preserving_workloads.md: ``markets`` (models of skewed costs, bias and √(variance / m) by
segment, a factor of the cost of living, a changed p(y | x)), ``constraints`` (what ℓ-diversity and t-closeness cost),
``posterior`` (what an intruder who knows all groups concludes from a dithered record) and ``leak`` (strata of raw
columns).  Fixed before it was run: seeds 500, 501, … (450 was a trial of the programme, with 4000 people); groups with
w = 0, and the other defaults.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import distribution_preserving_confirm as confirm
import distribution_preserving_data as study
import numpy as np

from gpuanon.arrays.partition import Partition
from gpuanon.assessing.risk.attribute_disclosure import attribute_disclosure
from gpuanon.assessing.risk.reidentification import hit_probabilities
from gpuanon.assessing.workloads import aggregate_error, assess_market, cost_factor, predict_market
from gpuanon.masking.given import Records
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.operations.dither import Dither, _blocks_of_groups
from gpuanon.masking.operations.dither.mixture import group_means, group_mixture
from gpuanon.masking.view import form_inside, strata_of

FIRST = 500
MODELS = ("linear", "log", "two-part", "gamma", "multiplicative")
FACTOR = 1.15  # the new market costs 15 % more
STEEPER = 0.25  # the changed p(y | x): cost times exp(0.25 · age), standardised
SAMPLE = 1000  # people of the new market whose cost is known
SEXES, AGES = 0, 1
Found = dict[tuple, list[float]]


def releases(case: confirm.Case, k: int) -> dict[str, np.ndarray | None]:
    """Released levels of the members; None: unmasked."""
    groups = confirm.grouped(case.X, case.cost, k, 0.0)
    kinds = {"permute": "permute", "Gaussian": "gaussian, response", "centroid": "centroid"}
    made = {name: case.release(kind, groups, case.draws(f"{k} {name}")) for name, kind in kinds.items()}
    return {"unmasked": None, **made}


def markets(seed: int, rows: int, found: Found) -> None:
    """Bias of every model, errors of segments, and what a cost-of-living factor mends; weighted members, area 18."""
    case = confirm.Case(seed, rows, "weighted")
    market = case.market
    target = market.new_weights * market.enrolment
    people = np.random.default_rng([seed, 5]).choice(len(target), SAMPLE, p=target / target.sum())
    age = study.standardise(market.new[:, AGES])
    worlds = {
        "same": market.new_cost,
        "cost of living": FACTOR * market.new_cost,
        "steeper in age": market.new_cost * np.exp(STEEPER * age),
    }
    for k in (20, 100):
        for name, released in releases(case, k).items():
            for model in MODELS:
                found["models", model, k, name].append(assess_market(market, released, model=model).bias)
            predicted = predict_market(market, released)
            for segment, column in (("sex", SEXES), ("age", AGES)):
                errors = []
                for level in range(market.levels[column]):
                    inside = market.new[:, column] == level
                    error = aggregate_error(predicted[inside], market.new_cost[inside], target[inside], people=1000)
                    errors.append(error.bias)
                    found["segments", f"{segment} {level}", k, name].append(error.bias)
                    found["deviations", f"{segment} {level}", k, name].append(error.deviation)
                found["segments", f"{segment}: gap", k, name].append(max(errors) - min(errors))
            for world, cost in worlds.items():
                factor = cost_factor(predicted[people], cost[people])
                for how, made in (("as it is", predicted), ("with the factor", factor.value * predicted)):
                    by_age = [
                        aggregate_error(made[band], cost[band], target[band]).bias
                        for band in (market.new[:, AGES] == level for level in range(market.levels[AGES]))
                    ]
                    found["worlds", f"{world}, {how}: bias", k, name].append(aggregate_error(made, cost, target).bias)
                    found["worlds", f"{world}, {how}: mean |bias| of age bands", k, name].append(
                        float(np.abs(by_age).mean())
                    )
                found["worlds", f"{world}: factor", k, name].append(factor.value)


def constraints(seed: int, rows: int, found: Found) -> None:
    """What ℓ and t cost: groups of 20 drawn members, with bounds on the deciles of the cost that a group holds."""
    case = confirm.Case(seed, rows, "drawn")
    decile = confirm.deciles(case.cost)
    known = confirm.records(case.draws("constraints"), decile, None)
    assert known.sensitive is not None
    formed = confirm.grouped(case.X, case.cost, 20, 0.0)
    bounds = {"k = 20": {}, "l = 5": {"diversity": 5}, "l = 7": {"diversity": 7}, "l = 9": {"diversity": 9}}
    bounds |= {f"t = {t}": {"closeness": t} for t in (0.3, 0.2, 0.15, 0.1)}
    for name, bound in bounds.items():
        groups = KMember(k=20, **bound).constrain(formed, case.X, known.sensitive) if bound else formed
        for kind in ("permute", "gaussian, response"):
            released = case.release(kind, groups, case.draws(f"constraints {kind}"))
            Y = (released - case.levels.mean(axis=0)) / case.levels.std(axis=0)
            bias = assess_market(case.market, released).bias - case.unmasked
            disclosed = float(attribute_disclosure((case.X, decile[:, None]), (Y, decile[:, None])).value)
            hit = float(hit_probabilities(case.X, Y, np.arange(len(Y))).mean())
            for what, value in (("bias", bias), ("hit", hit), ("disclosure", disclosed)):
                found["constraints", name, kind, what].append(value)
        found["constraints", name, "groups", "mean size"].append(groups.n / groups.parts)


def posterior(seed: int, rows: int, found: Found) -> None:
    """The largest p(group | x̃) of dithered records, and what it gives an intruder: chance of a record, at most 1/k."""
    data = study.registry(rows, seed)
    X = study.standardise(data.levels)
    for k in (5, 20, 100):
        groups = confirm.grouped(X, data.cost, k, 0.0)
        mixture = group_mixture(X, groups, 1 / 3)
        labels, sizes = groups.labels(), groups.sizes
        draws = confirm.KEY.draws(np.arange(len(X)), f"posterior {seed} {k}")
        noisy = mixture.draw(labels, draws)
        released = X[Dither().apply(X, groups, Records(draws.child("release"))).source]
        scales = np.log(mixture.whitening.diagonal(axis1=1, axis2=2)).sum(axis=1)
        rowsof = np.random.default_rng(seed).permutation(len(X))[:1000]
        for blocks, block in (("blocks", None), ("whole table", 0)):
            part = _blocks_of_groups(group_means(X, groups)[0], groups, block, None).labels()
            largest, chance, entropy = [], [], []
            for row in rowsof:
                inside = np.flatnonzero(part == part[labels[row]])
                z = np.einsum("cij,cj->ci", mixture.whitening[inside], noisy[row] - mixture.means[inside])
                logs = mixture.log_weights[inside] + scales[inside] - 0.5 * (z**2).sum(axis=1)
                p = np.exp(logs - logs.max())
                p /= p.sum()
                largest.append(p.max())
                chance.append((p / sizes[inside]).max())
                entropy.append(-(p[p > 0] * np.log(p[p > 0])).sum())
            found["posterior", k, blocks, "largest p(group)"].append(float(np.mean(largest)))
            found["posterior", k, blocks, "groups, exp of entropy"].append(float(np.exp(np.mean(entropy))))
            found["posterior", k, blocks, "chance of the record"].append(float(np.mean(chance)))
        found["posterior", k, "blocks", "measured hit rate"].append(
            float(hit_probabilities(X, released, np.arange(len(X))).mean())
        )


def leak(seed: int, rows: int, found: Found) -> None:
    """Share of cost deciles that released raw columns tell, with and without strata and bins; k = 20."""
    data = study.registry(2 * rows, seed)
    X, decile = study.standardise(data.raw), confirm.deciles(data.cost)
    mine, other = slice(0, rows), slice(rows, None)
    T, y = X[mine], decile[mine]
    draws = confirm.KEY.draws(np.arange(rows), f"leak {seed}")
    sensitive = confirm.records(draws, data.cost[mine], None).sensitive
    assert sensitive is not None
    strata = strata_of(sensitive, 10, 40, draws.child("strata"))
    plain = KMember(k=20).form(T, draws)
    inside = form_inside(strata, lambda some: KMember(k=20).form(T[some], draws.take(some)))
    variants: dict[str, tuple[Partition, Partition | None, int | None]] = {
        "no strata, no bins": (plain, None, None),
        "10 strata, no bins (refused)": (inside, strata, None),
        "10 strata, 10 bins": (inside, strata, 10),
        "10 strata, 5 bins": (inside, strata, 5),
    }
    for name, (groups, within, bins) in variants.items():
        known = Records(draws.child(name), sensitive=sensitive, strata=within)
        outcome = Dither(bins=bins).apply(T, groups, known)
        Y = outcome.values if bins else T[outcome.source]
        got = attribute_disclosure((T, y[:, None]), (Y, y[:, None]), (X[other], decile[other][:, None]))
        for shown in got.beside:
            found["leak", name, shown.label, ""].append(float(shown.value))


PARTS = {"markets": markets, "constraints": constraints, "posterior": posterior, "leak": leak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--registries", type=int, default=6)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=FIRST)
    given = parser.parse_args()
    found: Found = defaultdict(list)
    for seed in range(given.first, given.first + given.registries):
        for part in given.only:
            few = {"posterior": given.rows // 4, "leak": given.rows // 4}.get(part, given.rows)
            PARTS[part](seed, few, found)
    for names, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        print(" | ".join(map(str, names)), "|", f"{np.mean(values):.4f} ± {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
