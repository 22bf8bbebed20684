"""What values a measure can take, and what of a table it looks at: declared, and held to by the tests of extremes.

A measure that is not listed takes values from 0 up, and says nothing of what it looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Literal, TypeAlias

Sees: TypeAlias = Literal["columns", "together", "records"]
"""What a measure of utility looks at:

columns  : each column by itself; columns that are permuted independently are as good as a copy
together : columns with each other; columns that are permuted independently are bad
records  : a released record and its original; columns that are permuted independently are bad
"""


@dataclass(frozen=True)
class Declared:
    """The range of a measure, both ends included, and what it looks at; None where that is not declared."""

    low: float = 0.0
    high: float = inf
    sees: Sees | None = None


_SHARE = Declared(0.0, 1.0)
_RISK = {
    "k_anonymity": Declared(1.0),
    "l_diversity": Declared(1.0),
    "prediction_ambiguity": _SHARE,
    "attribute_disclosure": Declared(-1.0, 1.0),
    "suppression_reconstruction": _SHARE,
    "noise_stripping": _SHARE,
    "k_ambiguity": Declared(1.0),
    **dict.fromkeys(
        ("match_auc_joint", "linkage_probabilistic", "ct_isolation", "interval_disclosure", "closest_record"), _SHARE
    ),
    "suda2": _SHARE,
    **dict.fromkeys(("singling_out", "linkability", "inference", "membership"), _SHARE),
    "population_uniqueness": _SHARE,
    **dict.fromkeys(
        ("uniqueness", "t_closeness", "individual_risk", "reidentification", "reidentification_by_class",
         "reference_standard", "exact_copies", "household_risk", "match_auc", "synthetic_rows_auc"), _SHARE,
    ),
}  # fmt: skip
_COLUMNS = {
    **dict.fromkeys(("means", "variances", "mean_bias"), Declared(sees="columns")),
    **dict.fromkeys(("ks", "cdf_points", "distribution_fit"), Declared(0.0, 1.0, "columns")),
    "grouping_sensitivity": Declared(0.0, log(2), "columns"),
    "confidence_overlap": Declared(-inf, 1.0, "columns"),
    "estimator_mse": Declared(),
}
_TOGETHER = {
    **dict.fromkeys(
        ("correlations", "rank_correlations", "correlation_bias"), Declared(0.0, 2.0, "together")
    ),
    **dict.fromkeys(("covariances", "kl", "vw", "ft", "g", "mutual_information"), Declared(sees="together")),
    "jsd": Declared(0.0, log(2), "together"),
    "cell_ks": Declared(0.0, 1.0, "together"),
    "kernel_pca": Declared(0.0, 1.0, "together"),
    "mmd": Declared(0.0, sqrt(2) + 1e-9, "together"),
    "histogram_intersection": Declared(0.0, 1.0),
    "analysis": Declared(0.0, 1.0, "together"),
    "workload": Declared(sees="together"),
    "model_efficacy": Declared(-inf, inf),
    "regression_drift": Declared(sees="together"),
    "cluster_balance": Declared(0.0, 1.0, "together"),  # tables of one size: at most 0.25
    "pmse_forest": Declared(0.0, 0.25, "together"),
    "pmse_cart": Declared(0.0, 0.25),  # greedy splits on one column can miss what is joint only
    "pmse_logit": Declared(0.0, 0.25, "columns"),
    "propensity_ks": Declared(0.0, 1.0),
    "propensity_wilcoxon": Declared(0.0, 1.0),
}  # fmt: skip
_RECORDS = {
    "records_changed": Declared(0.0, 1.0, "records"),
    "r2": Declared(-inf, 1.0, "records"),
    "paired_means": Declared(0.0, 1.0),
    **dict.fromkeys(("mse", "il1s", "information_loss"), Declared(sees="records")),
}

_DECLARED = {**_RISK, **_COLUMNS, **_TOGETHER, **_RECORDS}


def declared(name: str) -> Declared:
    """What is declared of a measure."""
    return _DECLARED.get(name, Declared())
