"""The catalogue of measures: each name, what it needs to know, how to read it, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gpuanon.comparison import Comparison
from gpuanon.measure import Measured
from gpuanon.risk import match_auc, noise_stripping, prediction, reference_standard, reidentification
from gpuanon.risk.k_anonymity import k_anonymity, uniqueness
from gpuanon.utility import differences, information_loss, ks

LASKO = "Lasko 2007"
WEI = "Wei, Ramamurthy and Varshney 2018"
KULIK = "Kulik, lecture notes on utility"


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


MEASURES: tuple[Measure, ...] = (
    Measure(
        "k_anonymity",
        "risk",
        "higher",
        "records in the smallest class that is equal on the quasi-identifiers",
        "Samarati and Sweeney 1998",
        lambda c: k_anonymity(c.quasi_codes[1]),
    ),
    Measure(
        "uniqueness",
        "risk",
        "lower",
        "share of records alone in their class",
        "Samarati and Sweeney 1998",
        lambda c: uniqueness(c.quasi_codes[1]),
    ),
    Measure(
        "reidentification",
        "risk",
        "lower",
        "expected share of originals whose nearest released record is their own",
        WEI,
        lambda c: reidentification.reidentification(*c.quasi, c.link),
    ),
    Measure(
        "prediction_distance",
        "risk",
        "higher",
        "distance from an original to the nearest released record",
        LASKO,
        lambda c: prediction.prediction_distance(*c.quasi, prediction=c.prediction),
    ),
    Measure(
        "prediction_ambiguity",
        "risk",
        "higher",
        "nearest over k-th nearest distance",
        LASKO,
        lambda c: prediction.prediction_ambiguity(*c.quasi, prediction=c.prediction),
    ),
    Measure(
        "prediction_uncertainty",
        "risk",
        "higher",
        "variance among the k nearest released records",
        LASKO,
        lambda c: prediction.prediction_uncertainty(*c.quasi, prediction=c.prediction),
    ),
    Measure(
        "reference_standard",
        "risk",
        "higher",
        "whether the release predicts its subjects no better than a sample without them",
        LASKO,
        lambda c: reference_standard.reference_standard(*c.quasi, c.reference, link=c.known_link),
    ),
    Measure(
        "match_auc",
        "risk",
        "lower",
        "how well an attacker can tell right matches from wrong ones",
        LASKO,
        lambda c: match_auc.match_auc(*c.quasi, c.link),
    ),
    Measure(
        "noise_stripping",
        "risk",
        "lower",
        "share of records matched after noise is stripped by principal components",
        LASKO,
        lambda c: noise_stripping.noise_stripping(*c.quasi, c.link),
    ),
    Measure(
        "records_changed",
        "utility",
        "lower",
        "share of cells that changed",
        KULIK,
        lambda c: information_loss.records_changed(*c.codes, link=c.link),
    ),
    Measure(
        "means",
        "utility",
        "lower",
        "median shift of a mean, in standard deviations",
        LASKO,
        lambda c: differences.means(*c.encoded),
    ),
    Measure(
        "variances",
        "utility",
        "lower",
        "median relative change of a variance",
        LASKO,
        lambda c: differences.variances(*c.encoded),
    ),
    Measure(
        "correlations",
        "utility",
        "lower",
        "median change of a correlation",
        LASKO,
        lambda c: differences.correlations(*c.encoded),
    ),
    Measure(
        "rank_correlations",
        "utility",
        "lower",
        "median change of a rank correlation",
        LASKO,
        lambda c: differences.rank_correlations(*c.encoded),
    ),
    Measure(
        "information_loss",
        "utility",
        "lower",
        "100 · SSE / SST over the quasi-identifiers",
        "Domingo-Ferrer and Torra 2005",
        lambda c: information_loss.information_loss(*c.quasi, link=c.link),
    ),
    Measure(
        "ks", "utility", "lower", "largest Kolmogorov–Smirnov distance of a column", KULIK, lambda c: ks.ks(*c.encoded)
    ),
)


def by_name() -> dict[str, Measure]:
    """The measures by name."""
    return {measure.name: measure for measure in MEASURES}


def catalogue() -> list[dict[str, Any]]:
    """The measures as ``measures --json`` lists them."""
    return [
        {
            "name": m.name,
            "summary": m.summary,
            "source": m.source,
            "family": m.family,
            "better": m.better,
            "parameters": {},
        }
        for m in MEASURES
    ]
