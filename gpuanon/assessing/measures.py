"""Every measure by its name: a line each.  A measure is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from gpuanon.assessing.figures import strict
from gpuanon.assessing.measure import Measure, described

_PLACES: Mapping[str, str] = {
    "k_anonymity": "risk.k_anonymity.K_ANONYMITY",
    "uniqueness": "risk.k_anonymity.UNIQUENESS",
    "suda2": "risk.suda2.SUDA2",
    "population_uniqueness": "risk.population_uniqueness.POPULATION_UNIQUENESS",
    "l_diversity": "risk.diversity.L_DIVERSITY",
    "t_closeness": "risk.diversity.T_CLOSENESS",
    "individual_risk": "risk.individual_risk.INDIVIDUAL_RISK",
    "reidentification": "risk.reidentification.REIDENTIFICATION",
    "reidentification_by_class": "risk.reidentification.REIDENTIFICATION_BY_CLASS",
    "prediction_distance": "risk.prediction.PREDICTION_DISTANCE",
    "prediction_ambiguity": "risk.prediction.PREDICTION_AMBIGUITY",
    "prediction_uncertainty": "risk.prediction.PREDICTION_UNCERTAINTY",
    "reference_standard": "risk.reference_standard.REFERENCE_STANDARD",
    "attribute_disclosure": "risk.attribute_disclosure.ATTRIBUTE_DISCLOSURE",
    "singled_out": "risk.singled_out.SINGLED_OUT",
    "copies": "risk.copies.COPIES",
    "given_back": "risk.given_back.GIVEN_BACK",
    "exact_copies": "risk.copies.EXACT_COPIES",
    "suppression_reconstruction": "risk.suppression_reconstruction.SUPPRESSION_RECONSTRUCTION",
    "household_risk": "risk.household_risk.HOUSEHOLD_RISK",
    "hierarchical_risk": "risk.household_risk.HIERARCHICAL_RISK",
    "match_auc": "risk.match_auc.MATCH_AUC",
    "match_auc_joint": "risk.match_auc.MATCH_AUC_JOINT",
    "linkage_probabilistic": "risk.linkage.LINKAGE_PROBABILISTIC",
    "k_ambiguity": "risk.k_ambiguity.K_AMBIGUITY",
    "ct_isolation": "risk.ct_isolation.CT_ISOLATION",
    "exact_ends": "risk.exact_ends.EXACT_ENDS",
    "dominance": "risk.dominance.DOMINANCE",
    "interval_disclosure": "risk.interval_disclosure.INTERVAL_DISCLOSURE",
    "closest_record": "risk.closest_record.CLOSEST_RECORD",
    "singling_out": "risk.singling_out.SINGLING_OUT",
    "linkability": "risk.linkability.LINKABILITY",
    "inference": "risk.inference.INFERENCE",
    "membership": "risk.membership.MEMBERSHIP",
    "synthetic_rows_auc": "risk.synthetic_rows_auc.SYNTHETIC_ROWS_AUC",
    "noise_stripping": "risk.noise_stripping.NOISE_STRIPPING",
    "records_changed": "utility.information_loss.RECORDS_CHANGED",
    "means": "utility.differences.MEANS",
    "variances": "utility.differences.VARIANCES",
    "correlations": "utility.differences.CORRELATIONS",
    "covariances": "utility.differences.COVARIANCES",
    "rank_correlations": "utility.differences.RANK_CORRELATIONS",
    "mean_bias": "utility.bias.MEAN_BIAS",
    "correlation_bias": "utility.bias.CORRELATION_BIAS",
    "mse": "utility.information_loss.MSE",
    "r2": "utility.information_loss.R2",
    "il1s": "utility.information_loss.IL1S",
    "information_loss": "utility.information_loss.INFORMATION_LOSS",
    "marginals": "utility.marginals.MARGINALS",
    "ks": "utility.ks.KS",
    "wasserstein": "utility.wasserstein.WASSERSTEIN",
    "kl": "utility.contingency.KL",
    "jsd": "utility.contingency.JSD",
    "vw": "utility.contingency.VW",
    "ft": "utility.contingency.FT",
    "g": "utility.contingency.G",
    "mutual_information": "utility.mutual_information.MUTUAL_INFORMATION",
    "cdf_points": "utility.cdf_points.CDF_POINTS",
    "mmd": "utility.mmd.MMD",
    "model_efficacy": "utility.model_efficacy.MODEL_EFFICACY",
    "paired_means": "utility.paired_means.PAIRED_MEANS",
    "distribution_fit": "utility.distribution_fit.DISTRIBUTION_FIT",
    "grouping_sensitivity": "utility.grouping_sensitivity.GROUPING_SENSITIVITY",
    "analysis": "utility.analysis.ANALYSIS",
    "workload": "predictions.WORKLOAD",
    "cell_ks": "utility.contingency.CELL_KS",
    "histogram_intersection": "utility.histogram_intersection.HISTOGRAM_INTERSECTION",
    "confidence_overlap": "utility.confidence_overlap.CONFIDENCE_OVERLAP",
    "estimator_mse": "utility.confidence_overlap.ESTIMATOR_MSE",
    "pmse_logit": "utility.propensity.pmse.PMSE_LOGIT",
    "pmse_cart": "utility.propensity.pmse.PMSE_CART",
    "pmse_forest": "utility.propensity.forest.PMSE_FOREST",
    "propensity_ks": "utility.propensity.pmse.PROPENSITY_KS",
    "propensity_wilcoxon": "utility.propensity.pmse.PROPENSITY_WILCOXON",
    "cluster_balance": "utility.cluster_balance.CLUSTER_BALANCE",
    "kernel_pca": "utility.kernel_pca.KERNEL_PCA",
    "regression_drift": "utility.bias.REGRESSION_DRIFT",
    "interval_statistics": "intervals.ranges_of_statistics.INTERVAL_STATISTICS",
}
"""Name → module of this package and declaration, in the order in which measures are shown."""


class _Registry(Mapping[str, Measure]):
    """The measures by name."""

    def __getitem__(self, name: str) -> Measure:
        return _declaration(_PLACES[name])

    def __contains__(self, name: object) -> bool:
        return name in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


@cache
def _declaration(place: str) -> Measure:
    module, _, name = place.rpartition(".")
    found: Measure = getattr(import_module(f"gpuanon.assessing.{module}"), name)
    return found


MEASURES = _Registry()


def catalogue() -> list[dict[str, Any]]:
    """The measures as ``measures --json`` lists them.

    Examples
    --------
    >>> import gpuanon
    >>> {measure["name"]: measure["family"] for measure in gpuanon.measures()}["k_anonymity"]
    'risk'
    """
    return [_entry(measure) for measure in MEASURES.values()]


def _entry(measure: Measure) -> dict[str, Any]:
    applies = measure.applies
    told = ("name", "label", "sentence", "summary", "source", "family", "better", "usual", "unit", "nulls", "scaling")
    return {
        **{field: getattr(measure, field) for field in told},
        "host_only": measure.host is not None,
        **({"host_reason": measure.host} if measure.host is not None else {}),
        "weights": measure.weights.told,
        "applies": {
            "rows": list(applies.rows),
            "link": applies.link,
            "others": applies.others,
            "roles": list(applies.roles),
        },
        "range": strict(measure.range),
        "parameters": described(measure.options),
    }
