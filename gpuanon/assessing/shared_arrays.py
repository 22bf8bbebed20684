"""Which arrays of a comparison each measure works on, so that they are made once and given up after the last of them.

The arrays of a table of a million rows and twenty columns are about a gigabyte of each kind; all kinds together would
not fit where one does.  A measure that is in no list works on the tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    """Something with the name of a measure."""

    @property
    def name(self) -> str:
        """Of the measure."""


N = TypeVar("N", bound=Named)

ARRAYS: Mapping[str, tuple[str, ...]] = {
    "classes": ("classes", "column_classes", "sensitive_codes"),
    "points": ("quasi", "standardised", "reference", "standardised_reference"),
    "values": ("codes", "values", "binned", "quasi_codes"),
    "encoded": ("encoded", "encoded_reference"),
}
"""Properties of `Comparison`, by kind."""

_ON: Mapping[str, tuple[str, ...]] = {
    "classes": (
        *("k_anonymity", "uniqueness", "suda2", "population_uniqueness", "individual_risk", "synthetic_rows_auc"),
        *("l_diversity", "t_closeness", "k_ambiguity"),
    ),
    "points": (
        *("reidentification", "reidentification_by_class", "household_risk", "linkage_probabilistic"),
        *("prediction_distance", "prediction_ambiguity", "prediction_uncertainty", "noise_stripping"),
        *("match_auc", "match_auc_joint", "reference_standard", "attribute_disclosure", "closest_record"),
        *("ct_isolation", "mse", "r2", "il1s", "information_loss"),
    ),
    "values": (
        *("suppression_reconstruction", "histogram_intersection", "records_changed", "exact_copies"),
        *("kl", "jsd", "vw", "ft", "g", "cell_ks", "mutual_information", "grouping_sensitivity", "cdf_points"),
        *("model_efficacy", "distribution_fit", "analysis", "workload"),
        *("pmse_logit", "pmse_cart", "pmse_forest", "propensity_ks", "propensity_wilcoxon"),
    ),
    "encoded": (
        *("means", "variances", "correlations", "covariances", "rank_correlations", "mean_bias", "correlation_bias"),
        *("mmd", "paired_means", "confidence_overlap", "estimator_mse", "cluster_balance", "regression_drift"),
        *("ks", "kernel_pca"),
    ),
}
ALONE = frozenset(
    (
        *("reidentification", "reidentification_by_class", "household_risk", "linkage_probabilistic"),
        *("prediction_distance", "prediction_ambiguity", "prediction_uncertainty", "noise_stripping"),
        *("match_auc", "match_auc_joint", "reference_standard", "attribute_disclosure", "closest_record"),
        *("ct_isolation", "singling_out", "linkability", "inference", "membership", "model_efficacy"),
        *("mmd", "estimator_mse", "cluster_balance", "kernel_pca", "pmse_forest", "interval_statistics"),
        *("analysis", "workload"),  # they change the filters of warnings, which threads share
    )
)
"""Measures that use all cores by themselves, and much memory: they do not run beside others."""

_KIND = {name: kind for kind, names in _ON.items() for name in names}
_ORDER = [*ARRAYS, ""]


def kind_of(measure: str) -> str:
    """The kind of arrays that a measure works on; empty for the tables themselves."""
    return _KIND.get(measure, "")


def by_kind(measures: Sequence[N]) -> Iterable[tuple[str, list[N]]]:
    """The measures by the kind of arrays that they work on, one kind after the other."""
    ordered = sorted(measures, key=lambda measure: _ORDER.index(kind_of(measure.name)))
    return [(kind, list(those)) for kind, those in groupby(ordered, key=lambda measure: kind_of(measure.name))]


def give_up(comparison: Any, kind: str) -> None:
    """Give up the arrays of a kind; whoever asks for them again gets them made again."""
    for side in (comparison, comparison.__dict__.get("host", comparison)):
        for name in ARRAYS.get(kind, ()):
            side.__dict__.pop(name, None)
