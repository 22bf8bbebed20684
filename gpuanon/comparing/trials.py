"""The trials of a comparison, and which of them is the best.

A utility that chooses has to mean the same for rows that are kept, dropped, added and new: the usual one is
`marginals`, against all original rows.  A loss of single records knows nothing of those that are gone: it is shown, and
chooses only when it is asked to, among releases that keep every record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.assessing.figures import figure_text
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES
from gpuanon.engine.outputs import RECIPE_MARK, Guard, write_report
from gpuanon.errors import ParameterError
from gpuanon.tables.formats import io
from gpuanon.visible import json_text, visible

CHOOSES = "marginals"
"""The measure of utility that chooses unless another one is named."""
MEAN_RANK = "mean-rank"
"""The rule by which the release with the best mean rank over measures of utility is chosen."""


@dataclass(frozen=True)
class Trial:
    """One point of the grid.

    name       : the recipe, with the values that were chosen
    chosen     : those values
    measured   : figures by name; empty when the release was refused
    refused    : why it was refused, or None
    failed     : why a measure could not be computed, by name
    rows       : in, out, added and dropped; empty when it was refused
    promise    : what was verified on the release; None when nothing is promised
    k          : the largest k that was verified
    verdict    : state and reasons; empty when it was refused
    only_drops : every released row is as its original was, and some originals are gone
    details    : all that was measured, by name, as ``assess`` has it
    recipe     : the recipe of this point, ready to be written
    seconds    : that masking and measuring took
    """

    name: str
    chosen: Mapping[str, Any]
    measured: Mapping[str, float] = field(default_factory=dict)
    refused: str | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    promise: str | None = None
    k: int | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    only_drops: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def kept(self) -> float | None:
        """Share of the original rows that the release stands for; 0 when all of its rows are new."""
        if not self.rows:
            return None
        return (self.rows["rows_out"] - self.rows["rows_added"]) / max(1, self.rows["rows_in"])

    @property
    def state(self) -> str | None:
        """Of the verdict."""
        return self.verdict.get("state")

    @property
    def promised(self) -> str:
        """The promise in a few characters."""
        return "–" if self.promise is None else "verified" if self.k is None else f"k = {self.k}"

    def to_json(self) -> dict[str, Any]:
        """Strict JSON."""
        return {
            "name": self.name,
            "parameters": dict(self.chosen),
            "measured": dict(self.measured),
            "refused": self.refused,
            "failed": dict(self.failed),
            "rows": dict(self.rows),
            "kept": self.kept,
            "promise": self.promise,
            "verdict": dict(self.verdict) or None,
            "singled_out": self.measured.get("singled_out"),
            "copies": self.measured.get("copies"),
            "details": dict(self.details),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Trials:
    """All points, and the best of those that were not refused.

    columns  : the quasi-identifiers that every release was measured on
    decides  : the measure of utility on the map, which decides unless the rule is another
    against  : the measure of risk that stands beside it
    best     : the point that is best by the rule; None when no release qualifies
    rule     : how the best was chosen, in words
    left_out : trials that were not finished in the given time, and methods that do not suit the table, with the reason
    """

    trials: tuple[Trial, ...]
    best: Trial | None
    columns: tuple[str, ...] = ()
    decides: str | None = None
    against: str | None = None
    rule: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The measures of every release, one release per line; `to_json` has their details."""
        lines = [f"Comparison of {len(self.trials)} releases"]
        for trial in self.trials:
            figures = ", ".join(f"{name} {figure_text(value)}" for name, value in trial.measured.items())
            lines.append(f"  {trial.name}: {figures or 'refused'}{'  (best)' if trial is self.best else ''}")
        lines += [f"  {name}: left out, {reason}" for name, reason in self.left_out.items()]
        return "\n".join(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know."""
        found = (
            [f"every release was measured on the quasi-identifiers {', '.join(self.columns)}"] if self.columns else []
        )
        kept = [trial for trial in self.trials if trial.refused is None]
        if self.best is None:
            bad = sum(trial.state == "bad" for trial in kept)
            why = f"{len(self.trials) - len(kept)} releases were refused, the verdict on {bad} is bad"
            found.append(f"no best is named: {why}, of {len(self.trials)}; {self.rule} was measured for no other")
        elif any(trial.only_drops for trial in kept) and not self.best.only_drops:
            found.append(
                "releases that only drop rows lose the people who are rare, which shares of tables hardly show: they"
                " are not named best while another release qualifies"
            )
        return tuple(found)

    @property
    def front(self) -> tuple[int, ...]:
        """Numbers, from 0, of the trials that no other beats in both risk and utility, from the least risk on."""
        if self.decides is None or self.against is None:
            return ()
        risk, utility = MEASURES[self.against], MEASURES[self.decides]
        known = [n for n, t in enumerate(self.trials) if {risk.name, utility.name} <= t.measured.keys()]
        kept = [n for n in known if not any(self._beats(other, n, risk, utility) for other in known)]
        sign = 1 if risk.better == "lower" else -1
        return tuple(sorted(kept, key=lambda n: sign * self.trials[n].measured[risk.name]))

    def _beats(self, one: int, other: int, risk: Measure, utility: Measure) -> bool:
        """Whether `one` is better in one of both and not worse in the other."""
        mine, theirs = self.trials[one].measured, self.trials[other].measured
        worse = any(m.exceeds(mine[m.name], theirs[m.name]) for m in (risk, utility))
        return not worse and any(m.exceeds(theirs[m.name], mine[m.name]) for m in (risk, utility))

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the map of risk and utility, and the table of all trials, as one HTML page."""
        from gpuanon.report.contents import compared

        write_report(compared(self), path, force=force)

    def write_best(self, path: str | Path, *, force: bool = False) -> None:
        """Write the recipe of the best release, ready to be run; TOML, or JSON where the name ends so."""
        if self.best is None:
            raise ParameterError("best: no release was chosen, so that there is no recipe to write")
        with io.Writing(force=force, guard=Guard()) as out:
            out.text(path, self.best_recipe(Path(path)))

    def best_recipe(self, path: Path = Path("best.toml")) -> str:
        """The text of the recipe of the best release; empty where there is none."""
        if self.best is None:
            return ""
        head = "" if path.suffix.lower() == ".json" else f"{RECIPE_MARK}: {self.rule}\n"
        return head + recipe_text(self.best.recipe, path)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the page of the comparison."""
        from gpuanon.report.contents import compared
        from gpuanon.report.page import shown_in_notebook

        return shown_in_notebook(compared(self))

    def to_json(self) -> dict[str, Any]:
        """The object of ``compare --json``."""
        return {
            "trials": [trial.to_json() for trial in self.trials],
            "best": None if self.best is None else self.best.name,
            "recipe": None if self.best is None else dict(self.best.recipe),
            "rule": self.rule,
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out.items()],
            "front": [self.trials[number].name for number in self.front],
            "quasi": list(self.columns),
            "notes": list(self.notes),
        }


def rule_of(names: Sequence[str], choose_by: str | None) -> tuple[Measure, str]:
    """The measure of utility on the map, and the rule of the choice in words."""
    useful = [MEASURES[name] for name in names if MEASURES[name].family == "utility"]
    if choose_by == MEAN_RANK:
        ranked = [measure for measure in useful if not measure.is_record_wise]
        first = ranked[0] if ranked else MEASURES[CHOOSES]
        return first, "the best mean rank over " + ", ".join(measure.name for measure in ranked)
    decides = next((measure for measure in useful if measure.name == (choose_by or CHOOSES)), None)
    if decides is None:
        raise ParameterError(
            f"choose: {choose_by!r} is not among the measures of utility that are computed",
            hint=f"there are {', '.join([*(measure.name for measure in useful), MEAN_RANK])}",
        )
    way = "lowest" if decides.better == "lower" else "highest"
    among = ", among releases that keep every record" if decides.is_record_wise else ""
    return decides, f"the {way} {decides.name}{among}"


def best_of(trials: Sequence[Trial], names: Sequence[str], choose_by: str | None) -> Trial | None:
    """The best of the releases whose verdict is not bad; the first on a tie.

    One that only drops rows is chosen where nothing else qualifies.
    """
    decides, _ = rule_of(names, choose_by)
    kept = [trial for trial in trials if trial.refused is None and trial.state != "bad"]
    kept = [trial for trial in kept if not trial.only_drops] or kept
    if choose_by == MEAN_RANK:
        return _mean_rank_best(kept, names)
    if decides.is_record_wise:
        kept = [trial for trial in kept if trial.kept is not None and trial.kept >= 1.0]
    best: Trial | None = None
    for trial in kept:
        if decides.name not in trial.measured:
            continue
        if best is None or decides.exceeds(best.measured[decides.name], trial.measured[decides.name]):
            best = trial
    return best


def _mean_rank_best(kept: Sequence[Trial], names: Sequence[str]) -> Trial | None:
    """The trial with the best mean rank over the measures of utility that all of them have."""
    from scipy.stats import rankdata

    useful = [MEASURES[name] for name in names if MEASURES[name].family == "utility"]
    useful = [m for m in useful if not m.is_record_wise and all(m.name in trial.measured for trial in kept)]
    if not kept or not useful:
        return None
    signed = [[(1 if m.better == "lower" else -1) * trial.measured[m.name] for trial in kept] for m in useful]
    return kept[int(np.argmin(np.mean([rankdata(values) for values in signed], axis=0)))]


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def recipe_text(data: Mapping[str, Any], path: Path) -> str:
    """The structure of a recipe as TOML, or as JSON where the name of the file ends so."""
    if path.suffix.lower() == ".json":
        return json_text(data, indent=2) + "\n"
    lines = [f"{_key(name)} = {_value(value)}" for name, value in data.items() if not _is_section(value)]
    for name, value in data.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(name)}]", *(f"{_key(inner)} = {_value(one)}" for inner, one in value.items())]
        elif _is_section(value):
            for table in value:
                lines += ["", f"[[{_key(name)}]]", *(f"{_key(inner)} = {_value(one)}" for inner, one in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_section(value: Any) -> bool:
    """Whether a value is written as tables of its own."""
    return isinstance(value, Mapping) or (
        isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and isinstance(value[0], Mapping)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(name))} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    """A basic string: what JSON escapes TOML escapes alike."""
    return visible(json.dumps(text, ensure_ascii=False))
