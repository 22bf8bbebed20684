"""The verdict of a report: that of the run, word for word, and what was measured beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gpuanon.assessing.figures import By, Part, figure_text
from gpuanon.assessing.measures import MEASURES

if TYPE_CHECKING:  # the terminal prints verdicts without what draws pages
    from gpuanon.report.contents import Contents

State: TypeAlias = Literal["good", "bad", "open"]
"""Met, not met, or left to the reader."""

_LABELS = {
    "promise": "what is promised",
    "smallest_class": "smallest group of look-alikes",
    "warnings": "warning",
}
"""Points of a verdict that are no measures."""
ACCEPTED = ". Accepted by the recipe: "


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    state    : see `State`
    what     : in a few words
    how      : the statement, limit or reason
    accepted : why the recipe accepts a point that is not good
    name     : of the measure or point
    """

    state: State
    what: str
    how: str
    accepted: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the checks say together.

    reasons : the points that decide, as the manifest has them
    checks  : everything else that was looked at, the worst first
    """

    state: State
    headline: str
    reason: str
    reasons: tuple[Check, ...] = ()
    checks: tuple[Check, ...] = ()


def headline_of(verdict: Mapping[str, Any]) -> str:
    """The verdict of a run in one line, for page and terminal."""
    accepted = sum(ACCEPTED in point["text"] for point in verdict["points"])
    if verdict["state"] == "bad":
        return "Should not go out: people can be found in it"
    if verdict["state"] == "open":
        return f"Not decided: {_counted(len(verdict['reasons']), 'point')} to be settled before it goes out"
    return "May go out by its recipe" + (f", which accepts {_counted(accepted, 'point')}" if accepted else "")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def verdict_of(contents: Contents) -> Verdict | None:
    """The verdict on a release; None where the report is not about one."""
    if contents.figures is None and contents.manifest is None:
        return None
    manifest, found = contents.manifest, ranked([*_disclosures(contents), *_standards(contents)])
    if manifest is None:
        reason = (
            "No manifest lies beside the release, so that nothing is known of what it promises. The figures below say "
            "what was measured."
        )
        headline = "Measured, not verified: the figures alone cannot say whether it may go out"
        return Verdict("open", headline, reason + _weighed(found), (), tuple(found))
    return _of_run(manifest, found)


def _of_run(manifest: Mapping[str, Any], found: list[Check]) -> Verdict:
    """State and reasons are those of the manifest; a limit that is not met, or no verdict, is never good."""
    limits = _limits(manifest)
    missed = [check for check in limits if check.state == "bad"]
    told = manifest.get("verdict")
    if told is None:
        points = _promises(manifest)
        state: State = "bad" if missed else "open"
        headline = "Not judged: the manifest has no verdict"
    else:
        points = [point_check(point) for point in told["points"]]
        state = "bad" if missed else told["state"]
        headline = headline_of(told)
    deciding = [check for check in points if check.state in (state, "bad")] if state != "good" else points
    others = [*(check for check in points if check not in deciding), *(check for check in limits), *found]
    if missed:
        headline = "Should not go out: not as its recipe wants it"
        deciding, others = [*missed, *deciding], [check for check in others if check not in missed]
    reason = {
        "good": "All that follows was measured on the release as it was written.",
        "open": "Whoever signs decides on what follows.",
        "bad": f"Not met: {', '.join(check.what for check in deciding if check.state == 'bad')}.",
    }[state]
    return Verdict(state, headline, reason + _weighed(found), tuple(deciding), tuple(ranked(others)))


def point_check(point: Mapping[str, Any]) -> Check:
    """A point of the verdict, under the plain label of its measure; why it is accepted stands apart."""
    name, (text, _, accepted) = point["name"], point["text"].partition(ACCEPTED)
    label = MEASURES[name].label if name in MEASURES else _LABELS.get(name, name.replace("_", " "))
    if name == "warnings" and point["state"] == "good" and not accepted:
        label = "note"
    return Check(point["state"], label, text, accepted or None, name)


def ranked(checks: list[Check]) -> list[Check]:
    """The worst first, accepted ones before those that are simply good."""
    order = ("bad", "open", "good")
    return sorted(checks, key=lambda check: (order.index(check.state), check.accepted is None))


def _weighed(checks: list[Check]) -> str:
    """A sentence that names what was found beside the verdict; empty where nothing was."""
    points = [f"{check.what} ({check.how})" for check in checks if check.state != "good"]
    return f" Also to be weighed: {'; '.join(points)}." if points else ""


def _promises(manifest: Mapping[str, Any]) -> list[Check]:
    """The guarantees and the smallest class, of a manifest without a verdict."""
    found = [
        Check("good" if one["verified"] else "open", _LABELS["promise"], str(one["statement"]), name="promise")
        for one in manifest["guarantee"]
    ]
    if manifest["quasi"]["smallest_class"] == 1:
        text = f"1 {manifest['quasi']['unit']} is alone on the quasi-identifiers together"
        found.append(Check("open", _LABELS["smallest_class"], text, name="smallest_class"))
    return found


def _limits(manifest: Mapping[str, Any]) -> list[Check]:
    """The limits of the recipe, with what was measured."""
    measured, found = manifest.get("measured", {}), []
    for name, limit in manifest.get("limits", {}).items():
        known = MEASURES.get(name)
        met = name in measured and known is not None and not known.exceeds(measured[name], limit)
        value = figure_text(measured[name]) if name in measured else "not measured"
        way = "at most" if known is not None and known.better == "lower" else "at least"
        label = name if known is None else known.label
        text = f"{value}; the recipe allows {way} {figure_text(limit)}"
        found.append(Check("good" if met else "bad", f"limit on {label}", text, name=name))
    return found


def _disclosures(contents: Contents) -> list[Check]:
    """What the figures of the release itself disclose: a record alone in its class, a class with one sensitive value.

    The verdict of a run tells of the first, where there is a manifest.
    """
    measured = {} if contents.figures is None else contents.figures.measured
    found = []
    if contents.manifest is None and "k_anonymity" in measured and measured["k_anonymity"].value <= 1:
        alone = measured["k_anonymity"].details["in_smallest"]
        text = "1 record is alone in its class" if alone == 1 else f"{alone:,} records are alone in their class"
        found.append(_found("open", "k_anonymity", f"{text} over the quasi-identifiers"))
    if "l_diversity" in measured and measured["l_diversity"].value <= 1:
        names = [name for part in measured["l_diversity"].parts for name, value in _values(part) if value <= 1]
        text = f"everybody in some class has the same value of {', '.join(names)}: whoever knows the class knows it"
        found.append(_found("open", "l_diversity", text))
    return found


def _found(state: State, name: str, text: str) -> Check:
    return Check(state, MEASURES[name].label, text, name=name)


def _values(part: Part) -> list[tuple[str, float]]:
    """The values of a part by name."""
    return [(name, value) for name, value in part.values.items() if value is not None] if isinstance(part, By) else []


def _standards(contents: Contents) -> list[Check]:
    """Measures that hold a release to a standard say whether it passes."""
    figures = contents.figures
    found = []
    for name, figure in () if figures is None else figures.measured.items():
        passes = figure.details.get("passes")
        if isinstance(passes, bool):
            says = figure.details.get("verdict")
            found.append(_found("good" if passes else "open", name, str(says or figure_text(figure.value))))
    return found
