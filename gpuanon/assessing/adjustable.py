"""Measures that a recipe can adjust: a function of a comparison, and the types of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.formulas import Analysis
from gpuanon.assessing.groupings import OPTIONS, grouped, grouping_sensitivity
from gpuanon.assessing.options import LEVEL, PERMUTATIONS, WHOLE
from gpuanon.assessing.source import MissingEvidence
from gpuanon.assessing.utility import analysis, distribution_fit, kernel_pca, ks, mmd, model_efficacy, paired_means
from gpuanon.assessing.utility import cdf_points as cdf
from gpuanon.assessing.utility import confidence_overlap as confidence
from gpuanon.assessing.utility.contingency import SHARES
from gpuanon.assessing.utility.propensity import forest as propensity_forest
from gpuanon.assessing.utility.propensity import pmse as propensity
from gpuanon.assessing.utility.propensity import scores as propensity_scores


@dataclass(frozen=True)
class Adjustable:
    """A measure with options.

    function : from a comparison, and options by keyword, to the figure
    options  : type of each option that a recipe may set
    """

    function: Callable[..., Measured]
    options: Mapping[str, Any]

    def __call__(self, comparison: Comparison, **options: Any) -> Measured:
        return self.function(comparison, **options)


def tables(measure: Callable[..., Measured]) -> Adjustable:
    """A measure of contingency tables: of all compared columns, or as a recipe groups them."""

    def computed(c: Comparison, ways: Any = 2, **grouping: Any) -> Measured:
        weighted: dict[str, Any] = {"weights": c.weights} if measure in SHARES else {}
        if ways == 2 and not grouping:
            codes, counted = (c.binned_by_weight, c.weighted_tables) if weighted else (c.binned, c.two_way_tables)
            return measure(*codes, ways=ways, names=c.columns, counted=counted, **weighted)
        before, after, names = grouped(c, **grouping, weighted=bool(weighted))
        return measure(before, after, ways=ways, names=names, **weighted)

    return Adjustable(computed, OPTIONS)


def scores(measure: Callable[..., Measured], *, by_logit: bool = False) -> Adjustable:
    """A measure of propensity scores; its null permutes labels, within pairs where the link is known.

    by_logit : of those of the logit that measures share
    """

    def computed(c: Comparison, permutations: int = 0) -> Measured:
        before, after = c.values
        link = _pairs(c) if permutations else None
        shared = {"fit": c.logit_fit} if by_logit else {}
        return measure(
            before, after, categorical=c.categorical, permutations=permutations, link=link, sampled=c.sampled, **shared
        )

    return Adjustable(computed, PERMUTATIONS)


def _pairs(c: Comparison) -> Any:
    """The link where it is known and a released row has an original; None: there are no pairs to exchange."""
    link = c.link_or_none
    return link if link is not None and bool((link >= 0).any()) else None


def _ks(c: Comparison, permutations: int | None = None) -> Measured:
    """Of every column; the null where the link is known, the reference's distances where there is one."""
    link = _pairs(c)
    rounds = (0 if link is None else KS_EXCHANGES) if permutations is None else permutations
    if rounds and link is None:
        raise MissingEvidence("permutations need the private link (--link), and released rows that have an original")
    before, after = c.encoded
    return ks.ks(
        before,
        after,
        reference=c.encoded_reference,
        link=link,
        permutations=rounds,
        names=c.features,
        weights=c.weights,
    )


def _paired_means(c: Comparison, **options: Any) -> Measured:
    """Of every column of a released record and its original."""
    before, after = c.encoded
    return paired_means.paired_means(before, after, link=c.link, names=c.features, **options)


def _distribution_fit(c: Comparison, **options: Any) -> Measured:
    """Of the columns of numbers."""
    chosen = [at for at, name in enumerate(c.columns) if c.schema[name].kind == "numeric"]
    before, after = (side[:, chosen] for side in c.values)
    return distribution_fit.distribution_fit(before, after, names=[c.columns[at] for at in chosen], **options)


def _kernel_pca(c: Comparison, components: int = 20, **options: Any) -> Measured:
    """Of all compared columns, beside the reference where there is one."""
    before, after = c.encoded
    return kernel_pca.kernel_pca(before, after, reference=c.encoded_reference, most=components, **options)


def _confidence_overlap(c: Comparison, **options: Any) -> Measured:
    """Of every column."""
    before, after = c.encoded
    return confidence.confidence_overlap(before, after, names=c.features, **options)


def _model_of_scores(measure: Callable[..., Measured]) -> Adjustable:
    """A measure of the propensity scores of a model that a recipe may choose."""

    def computed(c: Comparison, model: propensity_scores.Model = "logit") -> Measured:
        before, after = c.values
        fit = c.logit_fit if model == "logit" else None
        return measure(before, after, model=model, categorical=c.categorical, sampled=c.sampled, fit=fit)

    return Adjustable(computed, {"model": propensity_scores.Model})


def _analysis(c: Comparison, models: Sequence[Mapping[str, Any]] = ()) -> Measured:
    """Of the columns that the formulas name."""
    parsed = TypeAdapter(list[Analysis]).validate_python(list(models))
    if not parsed:
        raise MissingEvidence("needs models of analysts in the recipe ([[analysis]])")
    named = list(dict.fromkeys(name for model in parsed for name in model.columns))
    unknown = [name for name in named if name not in c.columns]
    if unknown:
        raise MissingEvidence(f"analysis: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    frames = frames_of(c, named)
    return analysis.analysis(frames[0], frames[1], parsed, weights=c.weights_or_none)


def frames_of(c: Comparison, named: Sequence[str]) -> tuple[Any, Any]:
    """Data frames of original and release for formulas; numbers and dates as numbers, everything else as text."""
    import pandas as pd

    def frame(side: Any, table: Any) -> Any:
        columns = {}
        for name in named:
            number = c.schema[name].kind in ("numeric", "date")
            text = table.arrow(name).to_pandas().astype("object")
            columns[name] = side[:, c.columns.index(name)] if number else text.to_numpy()
        return pd.DataFrame(columns)

    return frame(c.values[0], c.original), frame(c.values[1], c.points)


def _mmd(c: Comparison, **options: Any) -> Measured:
    """Of all compared columns, encoded."""
    before, after = c.encoded
    return mmd.mmd(before, after, link=_pairs(c), **options)


def _cdf_points(c: Comparison, **options: Any) -> Measured:
    """Of the columns of numbers and dates."""
    chosen = [at for at, name in enumerate(c.columns) if c.schema[name].kind in ("numeric", "date")]
    before, after = (side[:, chosen] for side in c.values)
    names = [c.columns[at] for at in chosen]
    return cdf.cdf_points(before, after, names=names, weights=c.weights_or_none, **options)


def _model_efficacy(c: Comparison, target: str | None = None) -> Measured:
    """For a named target, else the last sensitive column, else the last column."""
    named = target or (c.schema.sensitive or c.columns)[-1]
    codes = [c.schema[name].kind not in ("numeric", "date") for name in c.columns]
    before, after = c.values
    return model_efficacy.model_efficacy(
        before, after, names=c.columns, categorical=codes, target=named, link=c.link_or_none
    )


DEGREE = Annotated[int, Field(strict=True, ge=1, le=10)]
KS_EXCHANGES = 99
PMSE_LOGIT, PMSE_CART = scores(propensity.pmse_logit, by_logit=True), scores(propensity.pmse_cart)
PMSE_FOREST = scores(propensity_forest.pmse_forest)
KS = Adjustable(_ks, PERMUTATIONS)
MMD = Adjustable(_mmd, {**PERMUTATIONS, "features": WHOLE})
PAIRED_MEANS = Adjustable(_paired_means, {"permutations": WHOLE})
CDF_POINTS = Adjustable(_cdf_points, {**LEVEL, "at": dict[str, list[float]]})
DISTRIBUTION_FIT = Adjustable(
    _distribution_fit, {"distribution": distribution_fit.Family, "parameters": dict[str, list[float]]}
)
KERNEL_PCA = Adjustable(
    _kernel_pca,
    {
        "kernel": Literal["polynomial", "rbf", "exponential"],
        "degree": DEGREE,
        "components": WHOLE,
        "share": LEVEL["level"],
    },
)
CONFIDENCE_OVERLAP = Adjustable(_confidence_overlap, LEVEL)
PROPENSITY_KS = _model_of_scores(propensity.propensity_ks)
PROPENSITY_WILCOXON = _model_of_scores(propensity.propensity_wilcoxon)
GROUPING_SENSITIVITY = Adjustable(grouping_sensitivity, {"ways": WHOLE, "columns": list[str]})
MODEL_EFFICACY = Adjustable(_model_efficacy, {"target": str})
ANALYSIS = Adjustable(_analysis, {"models": list[Analysis]})
