"""Population uniqueness: of the records that are alone in a sample, how many are alone in the population?

Estimated from the sizes of the sample's classes and the sampling fraction f, by three models of the population:

Pitman : sizes follow Pitman's sampling formula with θ and α of greatest likelihood; the N people of the population
         hold Γ(θ + 1) / Γ(θ + α) · N^α uniques [1]
Zayatz : classes of the population have sizes as those of the sample; a sample unique comes from a class of size i
         with the hypergeometric probability that one of i is drawn [2]
SNB    : sizes less one are negative binomial (α, β), fitted to the numbers of classes of one and two; K β^α of the K
         classes are unique, K by Shlosser's estimator [3, 4]

The headline follows the rule of [5]: Pitman for f ≤ 0.1, else the smaller of Zayatz and SNB.

References
----------
.. [1] N. Hoshino (2001), Applying Pitman's sampling formula to microdata disclosure risk assessment, J. Off. Stat. 17.
.. [2] L. Zayatz (1991), Estimation of the percent of unique population elements, Census Bureau RR-91/08.
.. [3] G. Chen, S. Keller-McNulty (1998), Estimation of identification disclosure risk in microdata, J. Off. Stat. 14.
.. [4] P. J. Haas, L. Stokes (1998), Estimating the number of classes in a finite population, JASA 93: estimator Sh3.
.. [5] F. K. Dankar, K. El Emam, A. Neisa, T. Roffey (2012), Estimating the re-identification risk of clinical data
       sets, BMC Med. Inform. Decis. Mak. 12:66.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.evidence import EvidenceSource, MissingEvidence, sampling_fraction
from gpuanon.assessing.figures import Beside, Measured
from gpuanon.assessing.measure import FRACTION, NULL_IS_A_VALUE, QUASI, SHARE, Measure, Weights
from gpuanon.errors import ParameterError

_LABELS = {"pitman": "Pitman", "zayatz": "Zayatz", "snb": "SNB"}
_FINE = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 500}
SMALL = 0.1
"""Sampling fraction up to which Pitman's model is the better one."""


def population_uniqueness(sizes: Array, fraction: float) -> Measured:
    """Estimated share of the population that is alone on the quasi-identifiers.

    sizes    : (classes,) released records of each class
    fraction : of the population that the records are, in (0, 1]
    """
    sizes = to_host(sizes)
    if len(sizes) == 0 or not 0 < fraction <= 1:
        raise ParameterError(f"population_uniqueness: a sampling fraction in (0, 1] is needed, got {fraction:g}")
    n, alone = int(sizes.sum()), int((sizes == 1).sum())
    people = n / fraction
    if alone == 0 or fraction == 1:
        estimates = dict.fromkeys(_LABELS, float(alone))
    else:
        estimates = {
            "pitman": pitman(sizes, people),
            "zayatz": zayatz(sizes, people),
            "snb": negative_binomial(sizes, fraction),
        }
    shares = {name: _share(found, people) for name, found in estimates.items()}
    model = _chosen(shares, fraction)
    value = shares[model]
    assert value is not None
    return Measured(
        value,
        {
            "model": model,
            "sampling_fraction": fraction,
            "sample_uniques": alone,
            "unique_in_population_given_unique_in_sample": min(1.0, value * n / alone) if alone else 0.0,
        },
        "an estimate by a model of the population, which the table cannot check",
        beside=tuple(Beside(name, f"by {_LABELS[name]}", share) for name, share in shares.items()),
    )


def _share(uniques: float, people: float) -> float | None:
    """Uniques as a share of the population; None where the model gives no number of people."""
    return uniques / people if np.isfinite(uniques) and 0 <= uniques <= people else None


def _chosen(shares: dict[str, float | None], fraction: float) -> str:
    """The model by the rule of [5]; Zayatz's, which always has a value, where the others have none."""
    if fraction <= SMALL:
        return "pitman" if shares["pitman"] is not None else "zayatz"
    snb, zayatz_ = shares["snb"], shares["zayatz"]
    assert zayatz_ is not None
    return "snb" if snb is not None and snb < zayatz_ else "zayatz"


def zayatz(sizes: Host, people: float) -> float:
    """Expected uniques of a population of `people`, by [2]."""
    from scipy.stats import hypergeom

    size, count = np.unique(sizes, return_counts=True)
    n, total = int(sizes.sum()), round(people)
    once = hypergeom.pmf(1, total, size, n)  # one of a class of this size is drawn
    drawn = float((count * once).sum())
    alone = float(count[size == 1].sum())
    return min(people, alone * (alone * n / total / drawn) * people / n)  # never more, but for rounding


def pitman(sizes: Host, people: float) -> float:
    """Expected uniques of a population of `people`, by [1]; NaN where the likelihood has no maximum with α > 0."""
    from scipy.special import gammaln

    theta, alpha = pitman_parameters(sizes)
    return float(np.exp(gammaln(theta + 1) - gammaln(theta + alpha) + alpha * np.log(people)))


def pitman_parameters(sizes: Host) -> tuple[float, float]:
    """θ and α ∈ (0, 1) of greatest likelihood, θ ≥ 0 as in ARX; NaN for both where α tends to an end."""
    from scipy.optimize import minimize
    from scipy.special import expit

    size, count = np.unique(sizes, return_counts=True)
    bounds = [(-7.0, np.log(100.0 * sizes.sum())), (-9.0, 9.0)]  # beyond these, differences of log Γ lose their digits
    starts = [(np.log(t), a) for t in (1.0, len(sizes)) for a in (-1.0, 1.0)]
    settings = {"method": "L-BFGS-B", "jac": True, "bounds": bounds, "options": _FINE}
    tried = [minimize(_pitman_loss, at, (size, count), **settings) for at in starts]
    best = min(tried, key=lambda result: float(result.fun))
    theta, alpha = float(np.exp(best.x[0])), float(expit(best.x[1]))
    return (theta, alpha) if 2e-4 < alpha < 1 - 2e-4 else (float("nan"), float("nan"))


def _pitman_loss(at: Host, size: Host, count: Host) -> tuple[float, Host]:
    """Minus the log-likelihood per class at (log θ, logit α), and its gradient.

    log L = Σ_{i=1}^{u−1} log(θ + iα) − Σ_{i=1}^{n−1} log(θ + i) + Σ_j Σ_{i=1}^{n_j−1} log(i − α)
    """
    from scipy.special import digamma, expit, gammaln

    theta, alpha = float(np.exp(at[0])), float(expit(at[1]))
    u, n, ratio = float(count.sum()), float((size * count).sum()), theta / alpha
    ends = gammaln(ratio + u) - gammaln(ratio + 1)
    value = (u - 1) * np.log(alpha) + ends - (gammaln(theta + n) - gammaln(theta + 1))
    value += float((count * (gammaln(size - alpha) - gammaln(1 - alpha))).sum())
    slope = digamma(ratio + u) - digamma(ratio + 1)
    by_theta = slope / alpha - (digamma(theta + n) - digamma(theta + 1))
    by_alpha = (u - 1) / alpha - slope * ratio / alpha
    by_alpha -= float((count * (digamma(size - alpha) - digamma(1 - alpha))).sum())
    return -value / u, -np.array([by_theta * theta, by_alpha * alpha * (1 - alpha)]) / u


def negative_binomial(sizes: Host, fraction: float, classes: float | None = None) -> float:
    """Expected uniques by [3]; NaN where no negative binomial fits.

    classes : K, of the population; None: estimated by `shlosser`

    A class of 1 + X people, X ~ NB(α, β), q = 1 − β, is met i times in the sample with probability G⁽ⁱ⁾(0) / i! of
    G(s) = v (β / (1 − q v))^α, v = 1 − f + f s:  G'(0) = f (β / (1 − w))^α (1 + α w / (1 − w)) and
    G''(0) = f² α q β^α (2 − (1 − α) w) / (1 − w)^{α + 2}, w = q (1 − f).
    """
    from scipy.optimize import root

    one, two = float((sizes == 1).sum()), float((sizes == 2).sum())
    if two == 0:
        return float("nan")
    f, classes = fraction, shlosser(sizes, fraction) if classes is None else classes

    def gap(at: Host) -> Host:
        alpha, beta = np.exp(at[0]), 1 / (1 + np.exp(-at[1]))
        q = 1 - beta
        w = q * (1 - f)
        first = f * (beta / (1 - w)) ** alpha * (1 + alpha * w / (1 - w))
        second = f * f * alpha * q * beta**alpha * (2 - (1 - alpha) * w) / (1 - w) ** (alpha + 2)
        return np.array([classes * first / one - 1, classes * second / 2 / two - 1])

    with np.errstate(all="ignore"):
        for start in ((0.0, 0.0), (-2.0, -2.0), (0.0, -4.0), (-3.0, 0.0)):
            found = root(gap, start)
            if found.success and np.abs(found.fun).max() < 1e-6:
                alpha, beta = np.exp(found.x[0]), 1 / (1 + np.exp(-found.x[1]))
                return float(classes * beta**alpha)
    return float("nan")


def shlosser(sizes: Host, fraction: float) -> float:
    """Classes of the population: the modified Shlosser estimator Sh3 of [4]."""
    f = fraction
    size, count = np.unique(sizes, return_counts=True)
    i, c = size.astype(float), count.astype(float)
    missed = (1 - f) ** i
    ratio = (i * f**2 * (1 - f**2) ** (i - 1) * c).sum() / (missed * ((1 + f) ** i - 1) * c).sum()
    again = (missed * c).sum() / (i * f * (1 - f) ** (i - 1) * c).sum()
    return float(c.sum() + c[size == 1].sum() * ratio * again**2)


def _population_uniqueness(source: EvidenceSource, fraction: float | None = None) -> Measured:
    """With the sampling fraction of the recipe, else by the sample weights."""
    taken = fraction or sampling_fraction(source)
    if taken is None:
        raise MissingEvidence(
            "needs the sampling fraction ([measures] population_uniqueness = { fraction = 0.01 }), or sample weights"
        )
    return population_uniqueness(source.class_sizes, taken)


POPULATION_UNIQUENESS = Measure(
    name="population_uniqueness", label="unique people in the population",
    sentence="About this share of the whole population, not only of the file, is alone with its values of the"
    " quasi-identifiers.",
    summary="estimated share of the population alone on the quasi-identifiers",
    family="risk", range=SHARE,
    usual="0: nobody is unique in the population",
    unit="person", applies=QUASI, function=population_uniqueness,
    compute=_population_uniqueness, options=FRACTION, arrays="classes",
    weights=Weights("estimates", "their sum gives the sampling fraction, where the recipe names none"),
    nulls=NULL_IS_A_VALUE, scaling="merged", source="Dankar, El Emam, Neisa and Roffey 2012; ARX",
)  # fmt: skip
