"""The catalogue of measures: each name, how to read it, its source, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.risk import diversity, individual_risk, k_anonymity, match_auc, noise_stripping, prediction
from gpuanon.assessing.risk import reference_standard as standard
from gpuanon.assessing.risk import reidentification as attack
from gpuanon.assessing.utility import (
    bias,
    cells,
    clusters,
    confidence,
    differences,
    histogram_intersection,
    information_loss,
    propensity,
    propensity_forest,
)
from gpuanon.assessing.utility import kernel_pca as components
from gpuanon.assessing.utility import ks as distances

BENEDETTI = "Benedetti and Franconi 1998; sdcMicro"
FRIED = "Fried and Vamvourellis"
KULIK = "Kulik, lecture on utility and information loss"
LASKO = "Lasko 2007"
LI = "Li, Li and Venkatasubramanian 2007"
MACHANAVAJJHALA = "Machanavajjhala et al. 2007"
MATEO = "Mateo-Sanz, Sebé and Domingo-Ferrer 2004; sdcMicro"
SAMARATI = "Samarati and Sweeney 1998"
SNOKE = "Snoke et al. 2018; synthpop"
TORRA = "Domingo-Ferrer and Torra 2005"
WEI = "Wei, Ramamurthy and Varshney 2018"
WOO = "Woo, Reiter, Oganian and Karr 2009"


@dataclass(frozen=True)
class Measure:
    """One measure.

    better  : which way a release is better
    compute : from original and release side by side to the figure
    """

    name: str
    family: Literal["risk", "utility"]
    better: Literal["lower", "higher"]
    summary: str
    source: str
    compute: Callable[[Comparison], Measured]

    def exceeds(self, value: float, limit: float) -> bool:
        """Whether `value` is worse than `limit`."""
        return value > limit if self.better == "lower" else value < limit


def _risk(
    name: str, better: Literal["lower", "higher"], source: str, summary: str, compute: Callable[[Comparison], Measured]
) -> Measure:
    return Measure(name, "risk", better, summary, source, compute)


def _loss(name: str, source: str, summary: str, compute: Callable[[Comparison], Measured]) -> Measure:
    """A measure of utility that is better when it is lower."""
    return Measure(name, "utility", "lower", summary, source, compute)


def _gain(name: str, source: str, summary: str, compute: Callable[[Comparison], Measured]) -> Measure:
    """A measure of utility that is better when it is higher."""
    return Measure(name, "utility", "higher", summary, source, compute)


# fmt: off
MEASURES: tuple[Measure, ...] = (
    _risk("k_anonymity", "higher", SAMARATI, "records in the smallest class that is equal on the quasi-identifiers",
          lambda c: k_anonymity.k_anonymity(c.quasi_codes[1])),
    _risk("uniqueness", "lower", SAMARATI, "share of records alone in their class",
          lambda c: k_anonymity.uniqueness(c.quasi_codes[1])),
    _risk("l_diversity", "higher", MACHANAVAJJHALA, "fewest different sensitive values in a class",
          lambda c: diversity.l_diversity(c.quasi_codes[1], c.sensitive_codes)),
    _risk("t_closeness", "lower", LI, "largest distance of a class's sensitive values from the table's",
          lambda c: diversity.t_closeness(c.quasi_codes[1], c.sensitive_codes, ordered=c.sensitive_ordered)),
    _risk("individual_risk", "lower", BENEDETTI, "expected share of records reidentified in the population (weights)",
          lambda c: individual_risk.individual_risk(c.quasi_codes[1], c.release_weights)),
    _risk("reidentification", "lower", WEI, "expected share of originals whose nearest released record is their own",
          lambda c: attack.reidentification(*c.quasi, c.link)),
    _risk("reidentification_by_class", "lower", WEI, "the same, each class of equal originals counting once",
          lambda c: attack.reidentification_by_class(*c.quasi, c.link)),
    _risk("prediction_distance", "higher", LASKO, "median distance from an original to the nearest released record",
          lambda c: prediction.prediction_distance(*c.quasi, prediction=c.prediction)),
    _risk("prediction_ambiguity", "higher", LASKO, "median of nearest over k-th nearest distance",
          lambda c: prediction.prediction_ambiguity(*c.quasi, prediction=c.prediction)),
    _risk("prediction_uncertainty", "higher", LASKO, "median variance among the k nearest released records",
          lambda c: prediction.prediction_uncertainty(*c.quasi, prediction=c.prediction)),
    _risk("reference_standard", "higher", LASKO, "p: does it predict its subjects no better than a sample does?",
          lambda c: standard.reference_standard(*c.quasi, c.reference, link=c.known_link)),
    _risk("match_auc", "lower", LASKO, "how well an attacker tells right matches from wrong ones (0.5: not at all)",
          lambda c: match_auc.match_auc(*c.quasi, c.link)),
    _risk("noise_stripping", "lower", LASKO, "share of records matched after noise is stripped by principal components",
          lambda c: noise_stripping.noise_stripping(*c.quasi, c.link)),
    _loss("records_changed", KULIK, "mean share of records whose value changed, by column",
          lambda c: information_loss.records_changed(*c.codes, link=c.link)),
    _loss("means", LASKO, "median shift of a mean, in standard deviations",
          lambda c: differences.means(*c.encoded)),
    _loss("variances", LASKO, "median relative change of a variance",
          lambda c: differences.variances(*c.encoded)),
    _loss("correlations", LASKO, "median change of a correlation",
          lambda c: differences.correlations(*c.encoded)),
    _loss("rank_correlations", LASKO, "median change of a rank correlation",
          lambda c: differences.rank_correlations(*c.encoded)),
    _loss("mean_bias", FRIED, "mean absolute shift of a mean, standardised columns",
          lambda c: bias.mean_bias(*c.encoded)),
    _loss("correlation_bias", FRIED, "mean absolute change of a correlation",
          lambda c: bias.correlation_bias(*c.encoded)),
    _loss("mse", KULIK, "mean squared change of a cell, standardised quasi-identifiers",
          lambda c: information_loss.mse(*c.quasi, link=c.link)),
    _gain("r2", KULIK, "median share of a quasi-identifier's variance that its released values explain",
          lambda c: information_loss.r2(*c.quasi, link=c.link)),
    _loss("il1s", MATEO, "sum of absolute changes over √2 standard deviations, quasi-identifiers",
          lambda c: information_loss.il1s(*c.quasi, link=c.link)),
    _loss("information_loss", TORRA, "100 · SSE / SST over the quasi-identifiers",
          lambda c: information_loss.information_loss(*c.quasi, link=c.link)),
    _loss("ks", KULIK, "largest Kolmogorov–Smirnov distance of a column",
          lambda c: distances.ks(*c.encoded)),
    _loss("kl", KULIK, "mean Kullback–Leibler divergence of two-way tables", lambda c: cells.kl(*c.binned)),
    _loss("jsd", KULIK, "mean Jensen–Shannon divergence of two-way tables", lambda c: cells.jsd(*c.binned)),
    _loss("vw", KULIK, "mean Σ (td − ta)² / ta of two-way tables", lambda c: cells.vw(*c.binned)),
    _loss("cell_ks", KULIK, "mean of the largest difference of a cell's share, two-way tables",
          lambda c: cells.cell_ks(*c.binned)),
    _gain("histogram_intersection", WEI, "probability that the quasi-identifiers' distributions have in common",
          lambda c: histogram_intersection.histogram_intersection(*c.quasi_codes)),
    _gain("confidence_overlap", KULIK, "mean overlap of the confidence intervals of a mean",
          lambda c: confidence.confidence_overlap(*c.encoded)),
    _loss("estimator_mse", KULIK, "median ratio of an estimator's error from the release to that from the original",
          lambda c: confidence.estimator_mse(*c.encoded)),
    _loss("pmse_logit", SNOKE, "mean squared propensity score error, main-effects logit",
          lambda c: propensity.pmse_logit(*c.values, categorical=c.categorical)),
    _loss("pmse_cart", SNOKE, "mean squared propensity score error, classification tree",
          lambda c: propensity.pmse_cart(*c.values, categorical=c.categorical)),
    _loss("pmse_forest", SNOKE, "mean squared propensity score error, random forest, on held-out records",
          lambda c: propensity_forest.pmse_forest(*c.values, categorical=c.categorical)),
    _loss("propensity_ks", KULIK, "Kolmogorov–Smirnov distance of the propensity scores",
          lambda c: propensity.propensity_ks(*c.values, categorical=c.categorical)),
    _loss("propensity_wilcoxon", KULIK, "distance of the propensity scores' rank sums",
          lambda c: propensity.propensity_wilcoxon(*c.values, categorical=c.categorical)),
    _loss("cluster_balance", WOO, "mean squared deviation of a cluster's share of original records",
          lambda c: clusters.cluster_balance(*c.encoded)),
    _loss("kernel_pca", LASKO, "mean Kolmogorov–Smirnov distance along kernel principal components",
          lambda c: components.kernel_pca(*c.encoded)),
    _loss("regression_drift", FRIED, "mean shift of the coefficients that explain the last column by the others",
          lambda c: bias.regression_drift(*c.encoded)),
)
# fmt: on


def by_name() -> dict[str, Measure]:
    """The measures by name."""
    return {measure.name: measure for measure in MEASURES}


def catalogue() -> list[dict[str, Any]]:
    """The measures as ``measures --json`` lists them."""
    fields = ("name", "summary", "source", "family", "better")
    return [{**{field: getattr(measure, field) for field in fields}, "parameters": {}} for measure in MEASURES]
