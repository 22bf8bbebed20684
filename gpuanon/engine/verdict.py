"""The verdict of a run: whether people are safe in a release, and not only whether a narrow promise was kept.

It is made of the claims, the limits, who can be singled out by all released columns together, whether unique people
stand whole in the release more often than chance, what a kept column gives back of a masked one, and whether a large
value follows from what is released for its class.  *good* means all of it; *bad*, that something was measured to be
unsafe; *open*, that something is left to be decided or could not be measured.  A recipe can accept a point by name,
with a reason that is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, Host
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.risk.singled_out import LIMIT
from gpuanon.assessing.run import Measurements, measure
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.warnings import Minor
from gpuanon.errors import GpuanonError
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

State: TypeAlias = Literal["good", "open", "bad"]

JUDGED = ("singled_out", "copies", "given_back", "dominance")
"""What is measured of every release."""
GIVEN_BACK = 0.05
"""Share of the people from which on a kept column must not give a masked value back."""


@dataclass(frozen=True)
class Point:
    """One thing that was looked at.

    name  : by which a recipe accepts it
    state : see `State`
    text  : what was found, for whoever signs
    """

    name: str
    state: State
    text: str

    def to_json(self) -> dict[str, str]:
        """As the manifest has it."""
        return {"name": self.name, "state": self.state, "text": self.text}


def judged(
    original: Pieces,
    release: Pieces,
    schema: Schema,
    manifest: Mapping[str, Any],
    *,
    link: Host,
    reference: Table | None,
    backend: Backend,
    accept: Mapping[str, str],
) -> dict[str, Any]:
    """The verdict on a release, for manifest, summary and report.

    manifest : with the guarantees, the headline, the limits and the warnings
    accept   : points that the recipe accepts by name, with a reason each
    """
    with progress.stage("verdict"):
        try:
            found = measure(original, release, schema, JUDGED, link=link, reference=reference, backend=backend)
        except (GpuanonError, ValueError, ArithmeticError, NotImplementedError, TypeError) as error:
            # What cannot be measured is left open: a release of odd columns is no reason to lose the run.
            found = Measurements({}, dict.fromkeys(JUDGED, f"not defined for these tables ({type(error).__name__})"))
    limits = manifest.get("limits", {})
    whom = "households" if schema.unit == "household" else "people"
    points = [
        *_promises(manifest, all_new=bool((link < 0).all())),
        _headline(manifest),
        _singled_out(found, limits.get("singled_out", LIMIT), whom),
        _copies(found, whom),
        _given_back(found, limits.get("given_back", GIVEN_BACK), whom),
        _dominance(found, manifest, limits.get("dominance", 0.0)),
        *(Point("warnings", "good" if isinstance(one, Minor) else "open", one) for one in manifest["warnings"]),
    ]
    verdict = concluded([_accepted(point, accept) for point in points if point is not None])
    return {**verdict, "measured": {name: figure.value for name, figure in found.measured.items()}}


def concluded(points: list[Point]) -> dict[str, Any]:
    """The worst point decides."""
    states = {point.state for point in points}
    state: State = "bad" if "bad" in states else "open" if "open" in states else "good"
    reasons = [point.text for point in points if point.state == state or point.state == "bad"]
    if state == "good":
        reasons = [point.text for point in points]
    return {"state": state, "reasons": reasons, "points": [point.to_json() for point in points]}


def _accepted(point: Point, accept: Mapping[str, str]) -> Point:
    """A point that is not good, accepted by the recipe with a reason."""
    if point.state == "good" or point.name not in accept:
        return point
    return Point(point.name, "good", f"{point.text}. Accepted by the recipe: {accept[point.name]}")


def _promises(manifest: Mapping[str, Any], *, all_new: bool) -> list[Point]:
    """What is promised; of rows that are all new nothing has to be, what they reproduce is measured."""
    points = []
    for claim in manifest["guarantee"]:
        if claim["verified"]:
            points.append(Point("promise", "good", f"verified on what was written: {claim['statement']}"))
        elif all_new:
            points.append(Point("promise", "good", "every row is drawn anew: judged by what it reproduces"))
        else:
            points.append(Point("promise", "open", str(claim["statement"])))
    return points


def _headline(manifest: Mapping[str, Any]) -> Point | None:
    """The smallest class over all quasi-identifiers, where a promise rests on classes."""
    quasi = manifest["quasi"]
    if not quasi["columns"] or quasi["smallest_class"] is None or quasi["smallest_class"] > 1:
        return None
    if not any(claim["verified"] for claim in manifest["guarantee"]):
        return None  # judged by who is singled out
    return Point("smallest_class", "open", f"1 {quasi['unit']} is alone on the quasi-identifiers together")


def _unknown(found: Measurements, name: str) -> Point:
    return Point(name, "open", f"{MEASURES[name].label}: not measured ({found.failed[name]})")


def _singled_out(found: Measurements, limit: float, whom: str) -> Point:
    name = "singled_out"
    if name not in found.measured:
        return _unknown(found, name)
    figure = found.measured[name]
    if "chance" in {one.name for one in figure.beside}:
        text = f"{figure.value:.1%} of the originals can be found in the new rows beyond chance; at most {limit:.0%}"
    else:
        worst = figure.details.get("worst_sets")
        by = f", most by {next(iter(worst))}" if isinstance(worst, dict) and worst and figure.value > limit else ""
        text = f"{figure.value:.1%} of the {whom} are alone on at most three released columns{by}; at most {limit:.0%}"
    return Point(name, "good" if figure.value <= limit else "bad", f"{text} is called safe")


def _copies(found: Measurements, whom: str) -> Point:
    name = "copies"
    if name not in found.measured:
        return _unknown(found, name)
    figure = found.measured[name]
    chance = next(one.value for one in figure.beside if one.name == "chance")
    text = f"{figure.value:.1%} of the unique {whom} stand whole in the release, {chance:.1%} in a second sample"
    return Point(name, "bad" if figure.details["beyond_chance"] else "good", text)


def _given_back(found: Measurements, limit: float, whom: str) -> Point | None:
    name = "given_back"
    if name in found.inapplicable:
        return None
    if name not in found.measured:
        return _unknown(found, name)
    figure = found.measured[name]
    if figure.value <= limit:
        return None
    return Point(
        name,
        "bad",
        f"for {figure.value:.1%} of the {whom} a column that is released as it is tells a masked value{_worst(figure)}",
    )


def _dominance(found: Measurements, manifest: Mapping[str, Any], limit: float) -> Point | None:
    """Of releases whose records are equal in classes: a value of its own near the original is another risk."""
    classes = any(claim["verified"] and claim.get("smallest_class", 1) > 1 for claim in manifest["guarantee"])
    if not classes or "dominance" not in found.measured:
        return None
    figure = found.measured["dominance"]
    if figure.value <= limit:
        return None
    return Point(
        "dominance",
        "open",
        f"in {figure.value:.2%} of the groups the largest value follows within {figure.details['p']:g} % from what is"
        f" released{_worst(figure)}: centre = 'median', or a top code of the column, keeps it",
    )


def _worst(figure: Measured) -> str:
    worst = [part.worst for part in figure.parts if isinstance(part, By) and part.worst is not None]
    return f", most by {worst[0][0]}" if worst else ""
