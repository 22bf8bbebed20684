"""Work that analysts do with a release, and that needs the distribution of the quasi-identifiers kept.

Covariate shift, transfer learning and the market-risk study of Wei, Ramamurthy and Varshney (2018): importance
weights, weighted regression, relative bias and R² of predictions.  Everything here takes arrays of the original or
of a release alike, so that the two can be compared.
"""

from gpuanon.assessing.workloads.estimates import (
    Combined,
    combine,
    combined_mean,
    combined_regression,
    reconstruct_distribution,
    recovered_covariance,
)
from gpuanon.assessing.workloads.importance import logistic_weights, nonparametric_weights, transfer_weights
from gpuanon.assessing.workloads.market import (
    Market,
    MarketRisk,
    assess_market,
    assess_subgroups,
    predict_market,
    simulate_market,
)
from gpuanon.assessing.workloads.prediction_errors import (
    AggregateError,
    CostFactor,
    SubgroupBias,
    aggregate_error,
    cost_factor,
    subgroup_bias,
)
from gpuanon.assessing.workloads.regression import (
    CostFit,
    Fit,
    design,
    fit_cost,
    fit_weighted,
    r_squared,
    relative_bias,
)

__all__ = [
    "nonparametric_weights",
    "logistic_weights",
    "transfer_weights",
    "design",
    "fit_weighted",
    "Fit",
    "relative_bias",
    "r_squared",
    "Market",
    "MarketRisk",
    "simulate_market",
    "assess_market",
    "fit_cost",
    "CostFit",
    "subgroup_bias",
    "SubgroupBias",
    "assess_subgroups",
    "predict_market",
    "aggregate_error",
    "AggregateError",
    "cost_factor",
    "CostFactor",
    "Combined",
    "combine",
    "combined_mean",
    "combined_regression",
    "recovered_covariance",
    "reconstruct_distribution",
]
