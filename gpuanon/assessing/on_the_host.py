"""Why some measures run on the CPU whatever the backend: a decision for each of them, which `explain` tells.

The others compute on the arrays that were uploaded.  Of those, what comes back to the host are figures, one number per
record or per cell of a table, or a sample whose size does not grow with the table.
"""

from __future__ import annotations

REASONS: dict[str, str] = {
    "linkage_probabilistic": "EM runs over agreement patterns of candidate pairs, which a k-d tree proposes: it leaves"
    " out nearly all pairs, which a device would all measure",
    "attribute_disclosure": "2 000 people are attacked, whose neighbours vote in lists",
    "suppression_reconstruction": "counts by set of columns that blanked records are left with, few records each",
    "interval_disclosure": "not written for a device: sums and sorts of pairs with missing values",
    "singling_out": "a few thousand predicates over ranges and levels of the table itself; most are given up on 4 096"
    " records",
    "synthetic_rows_auc": "gradient boosting of scikit-learn, on at most 100 000 rows; cuML has none",
    "cdf_points": "not written for a device: sorts of columns with missing values, for five points of each",
    "mmd": "random features of 20 000 rows at most",
    "model_efficacy": "gradient boosting of scikit-learn, on at most 50 000 rows; cuML has none",
    "distribution_fit": "distribution functions of SciPy",
    "analysis": "generalised linear models of statsmodels, as an analyst would fit them",
    "workload": "generalised linear models of scikit-learn, as an analyst would fit them",
    "histogram_intersection": "not written for a device: 500 cells at most, whose cuts are found column by column",
    "confidence_overlap": "not written for a device: means, deviations and medians of each column",
    "estimator_mse": "a bootstrap of 20 000 rows at most",
    "pmse_logit": "a logit of 100 000 rows at most, with the rank of its design",
    "pmse_cart": "one tree of 20 000 rows at most, grown as synthpop's is; cuML has forests only (`pmse_forest`)",
    "propensity_ks": "the scores of `pmse_logit` or `pmse_cart`",
    "propensity_wilcoxon": "the scores of `pmse_logit` or `pmse_cart`",
    "regression_drift": "one least-squares fit of each table, by LAPACK, and SciPy's p-values",
    "interval_statistics": "exact sums over ends of intervals, which only releases of intervals have",
}
"""Measure: why it is `host_only`."""
