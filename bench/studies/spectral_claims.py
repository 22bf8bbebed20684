"""The claims of the spectral study: statement, figure, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from spectral_releases import FRONTIER, RHS_K
from spectral_runs import Run

from gpuanon.assessing.risk.match_auc import auc_of

MEASURES = ("distance", "ambiguity", "uncertainty")


@dataclass(frozen=True)
class Claim:
    """A statement, the measured figure, and whether it is met; None if it is only reported."""

    text: str
    figure: str
    met: bool | None


def claims(runs: list[Run]) -> list[Claim]:
    """All claims, in the order of the thesis's chapters."""
    return [*swapping(runs), *privacy(runs), *kernel(runs), *frontier(runs), *attacks(runs), *table(runs), *ica(runs)]


def swapping(runs: list[Run]) -> list[Claim]:
    """The guarantees of SVD swapping."""
    means = max(run.swap.means for run in runs)
    correlation = max(run.swap.correlation for run in runs)
    ratio = max(run.swap.change / run.swap.bound for run in runs)
    covariance = max(run.swap.covariance for run in runs)
    return [
        Claim("svd-swap: means exact", f"largest change {means:.1e}", means < 1e-12),
        Claim("svd-swap: max |corr(Ũ) − I| ≤ 0.05", f"{correlation:.4f}", correlation <= 0.05),
        Claim("svd-swap: correlations within the bound of ‖corr(Ũ) − I‖₂", f"{ratio:.2f} of the bound", ratio <= 1),
        Claim("svd-swap, orthonormal: covariance to 1e-10", f"{covariance:.1e}", covariance <= 1e-10),
    ]


def privacy(runs: list[Run]) -> list[Claim]:
    """The reference standard, against the second reference sample."""
    need = required(runs)
    found = []
    for name in ("svd-swap", "pica auto"):
        passed = sum(run.verdicts[name].passes for run in runs)
        extra = f"; targets {sorted(run.target for run in runs)}" if name == "pica auto" else ""
        found.append(Claim(f"{name} passes all three in ≥ {need}", _passes(runs, name) + extra, passed >= need))
    control = sum(run.verdicts["third sample"].passes for run in runs)
    found.append(Claim("an untouched third sample passes", _passes(runs, "third sample"), control == len(runs)))
    failed = sum("distance" in run.verdicts["pica 100"].failed for run in runs)
    low, high = _range(run.verdicts["pica 100"].excess["distance"] for run in runs)
    found.append(
        Claim(
            "pica 100 fails on distance in every seed",
            f"{failed}/{len(runs)}, D+ {low:.3f}–{high:.3f}",
            failed == len(runs),
        )
    )
    steps = [[run.verdicts[f"pica {target}"].excess["distance"] for target in (100, 200, 300)] for run in runs]
    falls = sum(a > b > c for a, b, c in steps)
    medians = " → ".join(f"{value:.3f}" for value in np.median(steps, axis=0))
    found.append(
        Claim(f"D+ of distance falls 100 → 200 → 300 in ≥ {need}", f"{falls}/{len(runs)}, {medians}", falls >= need)
    )
    found.append(Claim("pica 200 as in the thesis", _passes(runs, "pica 200"), None))
    sign = sum(run.by_sign[0].passes for run in runs)
    share = np.median([run.by_sign[1] for run in runs])
    found.append(Claim("pica 200 decoded sign by sign", f"{sign}/{len(runs)}, impossible records {share:.0%}", None))
    return found


def kernel(runs: list[Run]) -> list[Claim]:
    """Kernel-PCA utility: mean KS distance over the top 20 components."""
    pica, reference = (np.array([run.distances[name].mean() for run in runs]) for name in ("pica 200", "reference"))
    svd, random = (np.array([run.distances[name].mean() for run in runs]) for name in ("svd-swap", "random 200 × ica"))
    thesis = {name: float(np.median([run.thesis_form[name] for run in runs])) for name in runs[0].thesis_form}
    return [
        Claim(
            "kernel PCA: median of pica 200 at most the reference's",
            f"{np.median(pica):.4f} against {np.median(reference):.4f}",
            bool(np.median(pica) <= np.median(reference)),
        ),
        Claim(
            "kernel PCA: svd-swap ≥ 1.5 × pica 200 in every seed",
            f"smallest ratio {(svd / pica).min():.2f}, median {np.median(svd / pica):.2f}",
            bool((svd >= 1.5 * pica).all()),
        ),
        Claim(
            "kernel PCA: random partition ≥ 1.4 × pica 200 in every seed",
            f"smallest ratio {(random / pica).min():.2f}, median {np.median(random / pica):.2f}",
            bool((random >= 1.4 * pica).all()),
        ),
        Claim(
            "kernel PCA on unstandardised logarithms (the thesis's form)",
            ", ".join(f"{name} {value:.4f}" for name, value in thesis.items()),
            None,
        ),
    ]


def best_combination(runs: list[Run], rare: bool = False) -> str | None:
    """The combination with the smallest median KS distance among those that pass often enough.

    rare : only those that change no column's variance more than two samples differ: rare categories are kept too
    """
    passing = [name for name in FRONTIER if sum(run.verdicts[name].passes for run in runs) >= required(runs)]
    if rare:
        passing = [name for name in passing if _largest_variance(runs, name) <= _largest_variance(runs, "reference")]
    return min(passing, key=lambda name: _median_distance(runs, name), default=None)


def frontier(runs: list[Run]) -> list[Claim]:
    """Combinations that meet the privacy standard and keep as much as an independent sample."""
    reference = _median_distance(runs, "reference")
    found = []
    for rare, text in (
        (False, "a combination passes and keeps as much as the reference"),
        (True, "… and rare categories"),
    ):
        best = best_combination(runs, rare)
        if best is None:
            found.append(Claim(text, "none passes", None if rare else False))
            continue
        value = _median_distance(runs, best)
        wins = sum(run.distances[best].mean() <= run.distances["reference"].mean() for run in runs)
        excess = _range(run.verdicts[best].excess["distance"] for run in runs)
        figure = (
            f"{best}: {_passes(runs, best)}, D+ distance {excess[0]:.3f}–{excess[1]:.3f}, mean KS {value:.4f} against "
            f"{reference:.4f}, no larger in {wins}/{len(runs)}; largest change of a variance "
            f"{_largest_variance(runs, best):.2f} against {_largest_variance(runs, 'reference'):.2f}"
        )
        found.append(Claim(text, figure, value <= reference))
    return found


def attacks(runs: list[Run]) -> list[Claim]:
    """Matching attacks, pooled over seeds."""
    found = []
    for name, least in (("noise 0.1", 0.99), ("noise 0.3", 0.85)):
        pooled = auc_of([run.attacks[name] for run in runs])
        rates = [float(run.attacks[name].right.mean()) for run in runs]
        found.append(
            Claim(f"{name}: matched at ≥ {least:.0%}", f"{min(rates):.2%}–{max(rates):.2%}", min(rates) >= least)
        )
        area = pooled.details["ambiguity"]["auc"]  # type: ignore[index, call-overload]
        text = str(pooled.note) if area is None else f"{area:.3f}"
        met = None if area is None or name == "noise 0.1" else area >= 0.9
        found.append(Claim(f"{name}: ambiguity AUC ≥ 0.90", text, met))
    pooled = auc_of([run.attacks["spectral-rhs"] for run in runs])
    rates = [float(run.attacks["spectral-rhs"].right.mean()) for run in runs]
    most = max(rates)
    details: dict[str, dict[str, float]] = {name: pooled.details[name] for name in MEASURES}  # type: ignore[misc]
    tenth = max(details[name]["most_confident_tenth"] for name in MEASURES)
    alone, small, seconds = (max(run.rhs[at] for run in runs) for at in range(3))
    least_alone = min(run.rhs[0] for run in runs)
    return [
        *found,
        Claim(f"spectral-rhs, k = {RHS_K}: matched at ≤ 1/k", f"{min(rates):.3f}–{most:.3f}", most <= 1 / RHS_K),
        Claim(f"spectral-rhs, k = {RHS_K}: most confident tenth ≤ 1/k", f"{tenth:.3f}", tenth <= 1 / RHS_K),
        Claim(
            f"spectral-rhs, k = {RHS_K}: distance AUC ≤ 0.60",
            f"{details['distance']['auc']:.3f}",
            details["distance"]["auc"] <= 0.6,
        ),
        Claim(
            "plain rhs fails: ≥ 90 % single records",
            f"{least_alone:.1%}–{alone:.1%} alone, up to {small:.1%} below k, {seconds:.2f} s",
            least_alone >= 0.9,
        ),
    ]


def table(runs: list[Run]) -> list[Claim]:
    """Table 4.1 with the orthonormal option."""
    found = []
    for title, factor in (("mean", 1.0), ("var", 1.0), ("cor", 1.0), ("rank cor", 1.15)):
        ours, theirs = (
            [float(np.median([run.table[name][title][at] for run in runs])) for at in (0, 1)]
            for name in ("svd-swap, orthonormal", "reference")
        )
        text = f"{ours[0]:.4f} against {theirs[0]:.4f} (maxima {ours[1]:.3f}, {theirs[1]:.3f})"
        limit = "" if factor == 1 else f" within {factor} ×"
        name = f"table 4.1, orthonormal: {title} no larger than between samples{limit}"
        found.append(Claim(name, text, ours[0] <= factor * theirs[0]))
    return found


def ica(runs: list[Run]) -> list[Claim]:
    """Independent components of rank-deficient groups."""
    low, high = min(run.ranks[0] for run in runs), max(run.ranks[1] for run in runs)
    error = max(run.ica_error for run in runs)
    return [
        Claim("every spectral cluster is rank-deficient", f"{low}–{high} of 28 components", high < 28),
        # Components below 1e-6 of a cluster's largest are dropped, so that is how much may be lost.
        Claim("ica and back reproduces rank-deficient clusters to 1e-6", f"{error:.1e}", error < 1e-6),
    ]


def required(runs: list[Run]) -> int:
    """Nine of ten seeds, or as many of fewer."""
    return int(np.ceil(0.9 * len(runs)))


def _passes(runs: list[Run], name: str) -> str:
    """How many seeds pass, and what the others failed on."""
    passed = sum(run.verdicts[name].passes for run in runs)
    failed = {measure: sum(measure in run.verdicts[name].failed for run in runs) for measure in MEASURES}
    causes = ", ".join(f"{measure} {count}" for measure, count in failed.items() if count)
    return f"{passed}/{len(runs)}" + (f" (failed on {causes})" if causes else "")


def _median_distance(runs: list[Run], name: str) -> float:
    """Median over seeds of the mean KS distance."""
    return float(np.median([run.distances[name].mean() for run in runs]))


def _largest_variance(runs: list[Run], name: str) -> float:
    """Median over seeds of the largest relative change of a variance."""
    return float(np.median([run.table[name]["var"][1] for run in runs]))


def _range(values: object) -> tuple[float, float]:
    """Smallest and largest."""
    found = list(values)  # type: ignore[call-overload]
    return min(found), max(found)
