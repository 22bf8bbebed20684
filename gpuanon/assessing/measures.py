"""The catalogue of measures: name, how to read it, source, how it scales, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from gpuanon.assessing import adjustable as with_options
from gpuanon.assessing import attacks, controlled, named, weighting
from gpuanon.assessing import disclosure_adapters as people
from gpuanon.assessing.adjustable import Adjustable, tables
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured, strict
from gpuanon.assessing.intervals import ranges_of_statistics as intervals
from gpuanon.assessing.moments import Moments
from gpuanon.assessing.on_the_host import REASONS
from gpuanon.assessing.options import described
from gpuanon.assessing.predictions import WORKLOAD
from gpuanon.assessing.quasi_median import MedianBeside
from gpuanon.assessing.risk import diversity, individual_risk, k_anonymity, match_auc, noise_stripping, prediction
from gpuanon.assessing.risk import k_ambiguity as ambiguity
from gpuanon.assessing.risk import reference_standard as standard
from gpuanon.assessing.risk import reidentification as attack
from gpuanon.assessing.sampled_figures import with_sampling_error
from gpuanon.assessing.shared_arrays import Kind
from gpuanon.assessing.singled_out import POPULATION_UNIQUENESS, SUDA2
from gpuanon.assessing.source import Source
from gpuanon.assessing.utility import bias, differences, histogram_intersection, information_loss, mutual_information
from gpuanon.assessing.utility import cluster_balance as clusters
from gpuanon.assessing.utility import confidence_overlap as confidence
from gpuanon.assessing.utility import contingency as cells
from gpuanon.assessing.value_ranges import declared

BENEDETTI = "Benedetti and Franconi 1998; sdcMicro"
BREUGEL = "Chen et al. 2020; van Breugel et al. 2023"
CHAWLA = "Chawla et al. 2005; Lasko 2007"
COVER = "Cover and Thomas 2006"
DANKAR = "Dankar, El Emam, Neisa and Roffey 2012; ARX"
ESTEBAN = "Esteban, Hyland and Rätsch 2017"
FELLEGI = "Fellegi and Sunter 1969; Jaro 1989"
FRIED = "Fried and Vamvourellis"
GIOMI = "Giomi et al. 2023; ours"
GRETTON = "Gretton et al. 2012; Rahimi and Recht 2007"
HUNDEPOOL = "Hundepool et al. 2012; sdcMicro"
KARR = "Karr et al. 2006; Duan et al. 1983"
KULIK = "Kulik, lecture on utility and information loss"
LASKO = "Lasko 2007"
LI = "Li, Li and Venkatasubramanian 2007"
MACHANAVAJJHALA = "Machanavajjhala et al. 2007"
MANNING = "Manning, Haglin and Keane 2008; Elliot et al. 2005; sdcMicro"
MATEO = "Mateo-Sanz, Sebé and Domingo-Ferrer 2004; sdcMicro"
OURS = "ours"
PLATZER = "Platzer and Reutterer 2021"
SAMARATI = "Samarati and Sweeney 1998"
SNOKE = "Snoke et al. 2018; synthpop"
TORRA = "Domingo-Ferrer and Torra 2005"
VINTERBO = "Vinterbo 2004; Lasko 2007"
WEI = "Wei, Ramamurthy and Varshney 2018"
XIANG = "Xiang and Kreinovich 2013"
WOO = "Woo, Reiter, Oganian and Karr 2009"


E = TypeVar("E")
Compute: TypeAlias = Callable[[Comparison], Measured]
Better: TypeAlias = Literal["lower", "higher"]

Scaling: TypeAlias = Literal["merged", "sample", "pairs", "queries", "whole"]
"""What a measure can be computed on when the tables are larger than memory:

merged  : evidence of all rows that merges exactly over pieces (`Merged`)
sample  : a random sample of each table; the value does not depend on the number of rows, but for sampling error
pairs   : a random sample of released rows, each with its own original
queries : a random sample of originals, against all released rows
whole   : everything in one place only; a sample would give another value
"""


@dataclass(frozen=True)
class Merged(Generic[E]):
    """A measure of evidence that merges over pieces.

    collect : from all pieces to the evidence; collected once for all measures that name the same function
    figure  : from the evidence to the figure
    """

    collect: Callable[[Source], E]
    figure: Callable[[E], Measured]

    def __call__(self, source: Source) -> Measured:
        return self.figure(source.collect(self.collect))


@dataclass(frozen=True)
class Measure:
    """One measure.

    better    : which way a release is better
    compute   : from a `Comparison` to the figure; with `scaling` merged from any `Source`
    scaling   : see `Scaling`
    host_only : written for host arrays, which it then receives whatever the backend
    on        : the kind of arrays that it works on (`gpuanon.assessing.shared_arrays.ARRAYS`): they are made once for
                all measures of the kind, and given up after the last of them; None: the tables themselves
    long      : processor seconds on 100 000 × 10 numbers, about, where they are many: longer ones of a kind start first
    large     : needs about as much memory again as its arrays: on tables of many rows it runs beside no other measure
    settles   : what of it settles as 1/√n with the rows of a sample, for its error: the value, the root of a mean of
                squares, or nothing (a p-value)
    alone     : runs beside no other measure: it changes filters of warnings for long, which threads share
    openmp    : OpenMP runs its loops, whose threads wait for each other by spinning: it is given one of them
    """

    name: str
    family: Literal["risk", "utility"]
    better: Better
    summary: str
    source: str
    compute: Compute
    scaling: Scaling
    host_only: bool = False
    on: Kind | None = None
    long: float = 0.0
    large: bool = False
    alone: bool = False
    settles: Literal["value", "root", "nothing"] = "value"
    openmp: bool = False

    @property
    def options(self) -> Mapping[str, Any]:
        """Type of each option that a recipe may set."""
        return self.compute.options if isinstance(self.compute, Adjustable) else {}

    def measured(self, comparison: Any, options: Mapping[str, Any]) -> Measured:
        """The figure, with these options; of a random sample of both tables or of pairs, with its error."""
        compute: Compute = self.compute
        if isinstance(compute, Adjustable):
            compute = partial(compute.function, **options)
        if self.scaling not in ("sample", "pairs") or self.settles == "nothing":
            return compute(comparison)
        return with_sampling_error(compute(comparison), comparison, compute, squares=self.settles == "root")

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value that it can take."""
        return declared(self.name).low, declared(self.name).high

    def exceeds(self, value: float, limit: float) -> bool:
        """Whether `value` is worse than `limit`."""
        return value > limit if self.better == "lower" else value < limit


def class_evidence(source: Source) -> Any:
    """Sizes of the classes of the release."""
    return source.class_sizes


def uniqueness_evidence(source: Source) -> tuple[Any, Mapping[str, Any]]:
    """Sizes of the classes of the release, and of those of each quasi-identifier by itself."""
    return source.class_sizes, source.class_sizes_by_column


def moment_evidence(source: Source) -> tuple[Moments, Moments, tuple[str, ...]]:
    """Moments of original and release, and the table column of each feature."""
    before, after = (
        Moments.over(source.encoded_pieces(side), source.weight_pieces(side)) for side in ("original", "release")
    )
    return before, after, source.features


def _from_moments(figure: Callable[[Moments, Moments, tuple[str, ...]], Measured]) -> Compute:
    return Merged(moment_evidence, lambda evidence: figure(*evidence))


def _risk(name: str, better: Better, source: str, summary: str, compute: Compute, *run: Any, **more: Any) -> Measure:
    """A measure of risk; `run` and `more`: the fields of `Measure` from `scaling` on."""
    return Measure(name, "risk", better, summary, source, compute, *run, **more)


def _loss(name: str, source: str, summary: str, compute: Compute, *run: Any, **more: Any) -> Measure:
    """A measure of utility that is better when it is lower; `run` and `more` as above."""
    return Measure(name, "utility", "lower", summary, source, compute, *run, **more)


def _gain(name: str, source: str, summary: str, compute: Compute, *run: Any, **more: Any) -> Measure:
    """A measure of utility that is better when it is higher; `run` and `more` as above."""
    return Measure(name, "utility", "higher", summary, source, compute, *run, **more)


def _linked(measure: Callable[..., Measured]) -> Compute:
    """A measure of the quasi-identifiers of a released record and its original."""
    return lambda c: measure(*c.quasi, link=c.link, names=c.quasi_features)


def _intersection(c: Comparison) -> Measured:
    """Of the quasi-identifiers, with the sample weights."""
    before, after = c.weights_or_none or (None, None)
    return histogram_intersection.histogram_intersection(
        *c.quasi_codes, weights=before, release_weights=after, names=c.schema.quasi
    )


def _encoded(measure: Callable[..., Measured]) -> Compute:
    """A measure of all compared columns, encoded."""
    return lambda c: measure(*c.encoded, names=c.features)


def _predicted(measure: Callable[..., Measured]) -> Compute:
    """A measure of how well the release predicts its originals."""
    return lambda c: measure(*c.standardised, prediction=c.prediction)


HOST = True  # as the last argument below: written for host arrays

# fmt: off
MEASURES: tuple[Measure, ...] = (
    _risk("k_anonymity", "higher", SAMARATI, "records in the smallest class that is equal on the quasi-identifiers",
          Merged(class_evidence, k_anonymity.smallest_of), "merged", on="classes"),
    _risk("uniqueness", "lower", SAMARATI, "share of records alone in their class, and by column in their value",
          Merged(uniqueness_evidence, lambda evidence: k_anonymity.alone_of(*evidence)), "merged", on="classes"),
    _risk("suda2", "lower", MANNING, "share of records that a few quasi-identifiers are enough to single out",
          SUDA2, "whole", on="classes", long=0.3),
    _risk("population_uniqueness", "lower", DANKAR, "estimated share of the population alone on the quasi-identifiers",
          POPULATION_UNIQUENESS, "merged", on="classes"),
    _risk("l_diversity", "higher", MACHANAVAJJHALA, "fewest different sensitive values in a class",
          lambda c: diversity.l_diversity(c.classes, c.sensitive_codes, names=c.schema.sensitive), "whole",
          on="classes"),
    _risk("t_closeness", "lower", LI, "largest distance of a class's sensitive values from the table's",
          lambda c: diversity.t_closeness(c.classes, c.sensitive_codes, ordered=c.sensitive_ordered,
                                          names=c.schema.sensitive), "whole", on="classes"),
    _risk("individual_risk", "lower", BENEDETTI, "expected share of records reidentified in the population (weights)",
          lambda c: individual_risk.individual_risk(c.classes, c.release_weights), "whole", on="classes"),
    _risk("reidentification", "lower", WEI, "expected share of originals whose nearest released record is their own",
          lambda c: attack.reidentification(*c.quasi, c.link, unmasked=c.unmasked, hits=c.hits), "queries",
          on="quasi", long=1),
    _risk("reidentification_by_class", "lower", WEI, "the same, each class of equal originals counting once",
          lambda c: attack.reidentification_by_class(*c.quasi, c.link, hits=c.hits), "whole", on="quasi"),
    _risk("prediction_distance", "higher", LASKO, "median distance from an original to the nearest released record",
          _predicted(prediction.prediction_distance), "queries", on="points"),
    _risk("prediction_ambiguity", "higher", LASKO, "median of nearest over k-th nearest distance",
          _predicted(prediction.prediction_ambiguity), "queries", on="points"),
    _risk("prediction_uncertainty", "higher", LASKO, "median variance among the k nearest released records",
          attacks.UNCERTAINTY, "queries", on="points"),
    _risk("reference_standard", "higher", LASKO, "p: does it predict its subjects no better than a sample does?",
          lambda c: standard.reference_standard(*c.standardised, c.standardised_reference, link=c.link_or_none,
                                                standardise=False), "queries", on="points", long=0.8),
    _risk("attribute_disclosure", "lower", GIOMI, "share of sensitive values predicted beyond what other people's tell",
          people.disclosure, "whole", HOST, on="points", long=0.4),
    _risk("exact_copies", "lower", OURS, "share of released records that equal a unique original record",
          people.copies, "whole", on="values"),
    _risk("suppression_reconstruction", "lower", LASKO, "share of blanked cells whose value a minimal pattern tells",
          people.reconstruction, "whole", HOST, on="values", large=True),
    _risk("household_risk", "lower", HUNDEPOOL, "expected share of households of which a member is reidentified",
          people.households, "whole", on="quasi"),
    _risk("match_auc", "lower", LASKO, "how well an attacker tells right matches from wrong ones (0.5: not at all)",
          lambda c: match_auc.match_auc(*c.standardised, c.link, prediction=c.prediction), "queries",
          on="points"),
    _risk("match_auc_joint", "lower", LASKO, "the same, by the three prediction measures together, held-out records",
          attacks.joint, "queries", on="points", long=1),
    _risk("linkage_probabilistic", "lower", FELLEGI, "share of originals linked with their own release by likelihood",
          attacks.LINKAGE, "queries", HOST, on="points", long=1.6, large=True),
    _risk("k_ambiguity", "higher", VINTERBO, "fewest different combinations of sensitive values in a class",
          lambda c: ambiguity.k_ambiguity(c.classes, c.sensitive_codes), "whole", on="classes"),
    _risk("ct_isolation", "lower", CHAWLA, "share of released records that single out an original: c times closer",
          attacks.ISOLATION, "whole", on="points", long=0.7),
    _risk("interval_disclosure", "lower", MATEO, "mean share of originals in a narrow interval around their release",
          attacks.INTERVALS, "pairs", HOST, long=0.4),
    _risk("closest_record", "lower", PLATZER, "share of released records closer to originals than to a reference",
          attacks.closest, "whole", on="points", long=0.3),
    _risk("singling_out", "lower", GIOMI, "share of predicates that single out people, beyond people not in the table",
          controlled.SINGLING_OUT, "whole", HOST, long=0.8),
    _risk("linkability", "lower", GIOMI, "share of people whose columns it links, beyond people not in the table",
          controlled.LINKABILITY, "whole", long=1),
    _risk("inference", "lower", GIOMI, "share of attributes that it tells, beyond those of people not in the table",
          controlled.INFERENCE, "whole", long=0.3),
    _risk("membership", "lower", BREUGEL, "how well people in the table are told from people who are not (0.5: not)",
          controlled.MEMBERSHIP, "whole", long=0.6),
    _risk("synthetic_rows_auc", "lower", FRIED, "how well added rows are told from records of their class (0.5: not)",
          people.padding, "whole", HOST, on="classes"),
    _risk("noise_stripping", "lower", LASKO, "share of records matched after noise is stripped by principal components",
          lambda c: noise_stripping.noise_stripping(*c.standardised, c.link, prediction=c.prediction_or_none),
          "queries", on="points", long=0.5),
    _loss("records_changed", KULIK, "mean share of records whose value changed, by column",
          lambda c: information_loss.records_changed(*c.codes, link=c.link, names=c.columns), "pairs", on="values"),
    _loss("means", LASKO, "median shift of a mean, in standard deviations",
          MedianBeside(_from_moments(differences.means_of)), "merged", on="encoded"),
    _loss("variances", LASKO, "median relative change of a variance",
          MedianBeside(_from_moments(differences.variances_of)), "merged", on="encoded"),
    _loss("correlations", LASKO, "median change of a correlation",
          MedianBeside(_from_moments(differences.correlations_of)), "merged", on="encoded"),
    _loss("covariances", KULIK, "median change of a covariance, in the original's standard deviations",
          MedianBeside(_from_moments(differences.covariances_of)), "merged", on="encoded"),
    _loss("rank_correlations", LASKO, "median change of a rank correlation",
          MedianBeside(lambda c: differences.rank_correlations(*c.encoded, names=c.features, weights=c.weights)),
          "sample", on="encoded", long=0.4, large=True),
    _loss("mean_bias", FRIED, "mean absolute shift of a mean, standardised columns",
          named.adjusted(named.mean_bias, _from_moments(bias.mean_bias_of), {"columns": list[str]}), "merged",
          on="encoded"),
    _loss("correlation_bias", FRIED, "mean absolute change of a correlation",
          named.adjusted(named.correlation_bias, _from_moments(bias.correlation_bias_of), {"pair": list[str]}),
          "merged", on="encoded"),
    _loss("mse", KULIK, "mean squared change of a cell, standardised quasi-identifiers",
          _linked(information_loss.mse), "pairs", on="quasi", large=True),
    _gain("r2", KULIK, "median share of a quasi-identifier's variance that its released values explain",
          _linked(information_loss.r2), "pairs", on="quasi", large=True),
    _loss("il1s", MATEO, "sum of absolute changes over √2 standard deviations, quasi-identifiers",
          _linked(information_loss.il1s), "whole", on="quasi", large=True),
    _loss("information_loss", TORRA, "100 · SSE / SST over the quasi-identifiers",
          _linked(information_loss.information_loss), "pairs", on="quasi", large=True),
    _loss("ks", KULIK, "largest Kolmogorov–Smirnov distance of a column", with_options.KS, "sample",
          on="encoded", long=0.5),
    _loss("kl", KULIK, "mean Kullback–Leibler divergence of two-way tables", tables(cells.kl), "sample", on="values",
          settles="root"),
    _loss("jsd", KULIK, "mean Jensen–Shannon divergence of two-way tables", tables(cells.jsd), "sample", on="values",
          settles="root"),
    _loss("vw", KULIK, "mean Σ (td − ta)² / ta of two-way tables", tables(cells.vw), "whole", on="values"),
    _loss("ft", SNOKE, "mean Freeman–Tukey statistic of two-way tables over its degrees of freedom",
          tables(cells.ft), "whole", on="values"),
    _loss("g", SNOKE, "mean likelihood ratio statistic of two-way tables over its degrees of freedom",
          tables(cells.g), "whole", on="values"),
    _loss("mutual_information", COVER, "mean change of the mutual information of two columns",
          lambda c: mutual_information.mutual_information(*c.binned_by_weight, names=c.columns, weights=c.weights),
          "sample", on="values"),
    _loss("cdf_points", KULIK, "largest change of the share of values up to a point",
          with_options.CDF_POINTS, "sample", HOST, on="values"),
    _loss("mmd", GRETTON, "distance of all columns together, Gaussian kernel",
          with_options.MMD, "sample", HOST, on="encoded", long=0.8),
    _loss("model_efficacy", ESTEBAN, "how much worse a model of the release predicts held-out originals",
          with_options.MODEL_EFFICACY, "whole", HOST, on="values", long=0.7, openmp=True),
    _gain("paired_means", KULIK, "p of the largest change of a mean, by flipping the signs of differences",
          with_options.PAIRED_MEANS, "pairs", on="encoded", settles="nothing"),
    _loss("distribution_fit", KULIK, "largest change of a column's distance from a named distribution",
          with_options.DISTRIBUTION_FIT, "sample", HOST, on="values"),
    _loss("grouping_sensitivity", KULIK, "how far a divergence of tables depends on the number of bins",
          with_options.GROUPING_SENSITIVITY, "sample", on="values", long=0.7),
    _loss("analysis", KARR, "one less the overlap of the intervals of coefficients of the recipe's models",
          with_options.ANALYSIS, "whole", HOST, on="values", alone=True),
    _loss("workload", WEI, "largest change of the relative bias of the recipe's predictions, in points of per cent",
          WORKLOAD, "whole", HOST, on="values", alone=True),
    _loss("cell_ks", KULIK, "mean of the largest difference of a cell's share, two-way tables",
          tables(cells.cell_ks), "sample", on="values"),
    _gain("histogram_intersection", WEI, "probability that the quasi-identifiers' distributions have in common",
          _intersection, "sample", HOST, on="values"),
    _gain("confidence_overlap", KULIK, "mean overlap of the confidence intervals of a mean",
          with_options.CONFIDENCE_OVERLAP, "whole", HOST, on="encoded"),
    _loss("estimator_mse", KULIK, "median ratio of an estimator's error from the release to that from the original",
          _encoded(confidence.estimator_mse), "whole", HOST, on="encoded", long=0.7),
    _loss("pmse_logit", SNOKE, "mean squared propensity score error, main-effects logit",
          with_options.PMSE_LOGIT, "sample", HOST, on="values"),
    _loss("pmse_cart", SNOKE, "mean squared propensity score error, classification tree",
          with_options.PMSE_CART, "sample", HOST, on="values", long=1),
    _loss("pmse_forest", SNOKE, "mean squared propensity score error, random forest, on held-out records",
          with_options.PMSE_FOREST, "sample", on="values", long=5),
    _loss("propensity_ks", KULIK, "Kolmogorov–Smirnov distance of the propensity scores",
          with_options.PROPENSITY_KS, "sample", HOST, on="values"),
    _loss("propensity_wilcoxon", KULIK, "distance of the propensity scores' rank sums",
          with_options.PROPENSITY_WILCOXON, "sample", HOST, on="values"),
    _loss("cluster_balance", WOO, "mean squared deviation of a cluster's share of original records",
          lambda c: clusters.cluster_balance(*c.encoded, sampled=c.sampled), "sample", on="encoded", long=1,
          openmp=True),
    _loss("kernel_pca", LASKO, "mean Kolmogorov–Smirnov distance along kernel principal components",
          with_options.KERNEL_PCA, "sample", on="encoded", long=2.5),
    _loss("regression_drift", FRIED, "mean shift of the coefficients that explain the last column by the others",
          named.adjusted(named.regression_drift, _encoded(bias.regression_drift),
                         {"response": str, "predictors": list[str]}), "whole", HOST, on="encoded"),
    _loss("interval_statistics", XIANG, "mean width of the guaranteed range of a covariance, in standard deviations",
          Merged(intervals.evidence, intervals.interval_statistics), "merged", HOST, long=0.4),
)
# fmt: on


def by_name() -> dict[str, Measure]:
    """The measures by name."""
    return {measure.name: measure for measure in MEASURES}


def catalogue() -> list[dict[str, Any]]:
    """The measures as ``measures --json`` lists them."""
    fields = ("name", "summary", "source", "family", "better", "scaling", "host_only")
    return [
        {
            **{field: getattr(measure, field) for field in fields},
            **({"host_reason": REASONS[measure.name]} if measure.host_only else {}),
            **({"weights": told} if (told := weighting.declared_weighting(measure.name)) else {}),
            "range": strict(measure.range),
            "parameters": described(measure.options),
        }
        for measure in MEASURES
    ]
