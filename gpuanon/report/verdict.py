"""The verdict of a report: may the release go out by its own recipe, and why?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gpuanon.assessing.figures import By, Part, figure_text
from gpuanon.assessing.measures import MEASURES
from gpuanon.report.contents import Contents

State: TypeAlias = Literal["good", "bad", "open"]
"""Met, not met, or left to the reader."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    state : see `State`
    what  : in a few words
    how   : the statement, limit or reason
    """

    state: State
    what: str
    how: str


@dataclass(frozen=True)
class Verdict:
    """What the checks say together."""

    state: State
    headline: str
    reason: str
    checks: tuple[Check, ...]


def verdict_of(contents: Contents) -> Verdict | None:
    """The verdict on a release; None where the report is not about one."""
    if contents.figures is None and contents.manifest is None:
        return None
    manifest = contents.manifest
    standards = [*_disclosures(contents), *_standards(contents)]
    if manifest is None:
        reason = (
            "No manifest lies beside the release, so that nothing is known of what it promises. The figures below say "
            "what was measured."
        )
        return Verdict(
            "open",
            "Measured, not verified: the figures alone cannot say whether it may go out",
            reason + _decided(standards),
            tuple(standards),
        )
    checks = [*_promises(manifest), _headline(manifest), *_limits(manifest), *_judged(manifest), *standards]
    accepted = manifest.get("accept", {})
    checks += [Check("open", "warning", warning) for warning in manifest["warnings"] if "warnings" not in accepted]
    return _concluded([check for check in checks if check is not None], manifest)


def _judged(manifest: Mapping[str, Any]) -> list[Check]:
    """What the run measured of the people in the release."""
    points = manifest.get("verdict", {}).get("points", ())
    return [
        Check(point["state"], MEASURES[point["name"]].label, point["text"])
        for point in points
        if point["name"] in MEASURES
    ]


def _concluded(checks: list[Check], manifest: Mapping[str, Any]) -> Verdict:
    """The worst check decides."""
    found = tuple(checks)
    if any(check.state == "bad" for check in checks):
        missed = ", ".join(check.what for check in checks if check.state == "bad")
        unmet = any(check.state == "bad" and check.what.startswith("limit on") for check in checks)
        why = "not as its recipe wants it" if unmet else "people can be found in it"
        return Verdict("bad", f"Should not go out: {why}", f"Not met: {missed}.", found)
    judged = {point["name"]: point["state"] for point in manifest.get("verdict", {}).get("points", ())}
    promised = any(one["verified"] for one in manifest["guarantee"]) or judged.get("promise") == "good"
    held = "every promise of the recipe was verified on the release"
    held += ", and its limits are met" if manifest.get("limits") else "; the recipe sets no limits"
    if not promised:
        reason = "This method promises nothing that could be verified. Whether the release may go out rests on the "
        reason += "limits of the recipe, which are met" if manifest.get("limits") else "measured risk below"
        reason += "." + _decided([check for check in checks if check.what != "no promise"])
        return Verdict("open", "Nothing is promised: somebody has to decide by the measured risk", reason, found)
    if points := [check for check in checks if check.state == "open"]:
        count = "one point has" if len(points) == 1 else f"{len(points)} points have"
        headline = f"May go out by its recipe; {count} to be decided first"
        return Verdict("open", headline, f"In short: {held}.{_decided(points)}", found)
    return Verdict("good", "May go out by its recipe", f"In short: {held}.", found)


def _decided(checks: list[Check]) -> str:
    """A sentence that names what is left to the reader; empty where nothing is."""
    points = [check for check in checks if check.state == "open"]
    return f" To be decided: {_named(points)}." if points else ""


def _named(points: list[Check]) -> str:
    """What is left to the reader: each kind once, a standard that is failed with its reason."""
    kinds: dict[str, list[Check]] = {}
    for point in points:
        kinds.setdefault(point.what, []).append(point)
    texts = []
    for what, those in kinds.items():
        if what == "warning":
            texts.append("a warning" if len(those) == 1 else f"{len(those)} warnings")
        else:
            texts += [f"{what} ({one.how})" for one in those]
    return "; ".join(texts)


def _promises(manifest: Mapping[str, Any]) -> list[Check]:
    """The guarantees; of rows that are all new nothing has to be promised, what they reproduce is judged."""
    points = manifest.get("verdict", {}).get("points", ())
    open_promise = not any(point["name"] == "promise" and point["state"] == "good" for point in points)
    return [
        Check("good", "promise, verified on what was written", str(found["statement"]))
        if found["verified"]
        else Check("open" if open_promise else "good", "no promise", str(found["statement"]))
        for found in manifest["guarantee"]
    ]


def _headline(manifest: Mapping[str, Any]) -> Check | None:
    """The smallest class over all quasi-identifiers."""
    quasi = manifest["quasi"]
    if not quasi["columns"] or quasi["smallest_class"] is None:
        return None
    smallest, unit = quasi["smallest_class"], quasi["unit"]
    text = f"{smallest:,} {unit}{'' if smallest == 1 else 's'} in the smallest class over {', '.join(quasi['columns'])}"
    if quasi["kept"]:
        text += f"; kept as they were: {', '.join(quasi['kept'])}"
    return Check("good" if smallest > 1 else "open", "headline k", text)


def _limits(manifest: Mapping[str, Any]) -> list[Check]:
    """The limits of the recipe, with what was measured."""
    measured, known, found = manifest.get("measured", {}), MEASURES, []
    for name, limit in manifest.get("limits", {}).items():
        way = "at most" if name in known and known[name].better == "lower" else "at least"
        met = name in measured and name in known and not known[name].exceeds(measured[name], limit)
        value = figure_text(measured[name]) if name in measured else "not measured"
        allowed = f"{way} {figure_text(limit)} is allowed; {value}"
        found.append(Check("good" if met else "bad", f"limit on {name}", allowed))
    return found


def _disclosures(contents: Contents) -> list[Check]:
    """What the figures of the release itself disclose: a record alone in its class, a class with one sensitive value.

    The manifest's headline tells of the first, where there is a manifest.
    """
    measured = {} if contents.figures is None else contents.figures.measured
    found = []
    if contents.manifest is None and "k_anonymity" in measured and measured["k_anonymity"].value <= 1:
        alone = measured["k_anonymity"].details["in_smallest"]
        text = "1 record is alone in its class" if alone == 1 else f"{alone:,} records are alone in their class"
        found.append(Check("open", "k-anonymity", f"{text} over the quasi-identifiers"))
    if "l_diversity" in measured and measured["l_diversity"].value <= 1:
        names = [name for part in measured["l_diversity"].parts for name, value in _values(part) if value <= 1]
        text = f"everybody in some class has the same value of {', '.join(names)}: whoever knows the class knows it"
        found.append(Check("open", "l-diversity", text))
    return found


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
            found.append(Check("good" if passes else "open", name.replace("_", " "), str(says or figure.value)))
    return found
