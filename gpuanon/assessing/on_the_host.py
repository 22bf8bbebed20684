"""Why some measures run on the CPU whatever the backend: a decision for each of them, which `explain` tells.

The others compute on the arrays that were uploaded.  Of those, what comes back to the host are figures, one number per
record, or a sample whose size does not grow with the table.
"""

from __future__ import annotations

_VALUES = "it compares values and levels of the table itself, which a device does not hold"
_MODELS = "it fits models of scikit-learn or statsmodels, on a sample of at most 100 000 rows"
_SAMPLE = "it looks at a sample of a few ten thousand rows, for which an upload takes longer than the work"
_TREE = "a k-d tree over distinct rows leaves out nearly all pairs, which a device would all measure"

REASONS: dict[str, str] = {
    **dict.fromkeys(("reidentification", "reidentification_by_class", "linkage_probabilistic"), _TREE),
    **dict.fromkeys(
        (
            *("l_diversity", "t_closeness", "individual_risk", "household_risk", "exact_copies", "k_ambiguity"),
            *("interval_disclosure", "attribute_disclosure", "suppression_reconstruction", "grouping_sensitivity"),
            *("singling_out",),
            *("mutual_information", "cdf_points", "histogram_intersection", "interval_statistics"),
        ),
        _VALUES,
    ),
    **dict.fromkeys(
        (
            *("synthetic_rows_auc", "model_efficacy", "analysis", "workload", "regression_drift"),
            *("pmse_logit", "pmse_cart", "propensity_ks", "propensity_wilcoxon", "distribution_fit"),
        ),
        _MODELS,
    ),
    **dict.fromkeys(("mmd", "confidence_overlap", "estimator_mse"), _SAMPLE),
}
"""Measure: why it is `host_only`."""
