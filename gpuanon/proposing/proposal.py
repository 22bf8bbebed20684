"""`propose`: look at a table, and propose a recipe with a reason beside each choice: an object, TOML, text or HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from gpuanon.engine.combinations import risk_lines
from gpuanon.errors import ParameterError, nearest
from gpuanon.proposing.choices import Choice
from gpuanon.proposing.codebook import read_codebook
from gpuanon.proposing.dependencies import dependency_notes
from gpuanon.proposing.findings import Findings, examine
from gpuanon.proposing.purposes import purpose_of
from gpuanon.proposing.trials_of_masks import tried
from gpuanon.recipe import Recipe
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.table import Table
from gpuanon.visible import visible

_WIDTH = 100
_FEWEST = 50  # rows of a table on which masks are tried
_BARE = re.compile(r"[A-Za-z0-9_-]+")
MARK = "Proposed by gpuanon init"
HEADINGS = ("column", "role", "kind", "why")


class Proposal(Recipe):
    """A recipe that was proposed, with the reason of each choice; `to_toml` writes it with comments.

    Like every recipe it is frozen: `with_column`, `with_mask` and `with_limits` return a changed proposal.
    """

    _findings: Findings = PrivateAttr()
    _edits: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def findings(self) -> Findings:
        """What was found in the table."""
        return self._findings

    def with_column(self, name: str, **settings: Any) -> Proposal:
        """The proposal with other settings of a column, such as its `role`, `kind` or `hierarchy`.

        Mask and limits follow the new roles unless they were set.  The risk is no longer shown when the
        quasi-identifiers change: it was measured on the proposed ones.

        Examples
        --------
        >>> import gpuanon
        >>> import pyarrow as pa
        >>> proposal = gpuanon.propose(pa.table({"age": [31, 35, 52, 58, 64, 69], "ward": [1, 2, 1, 2, 1, 2]}))
        >>> proposal.with_column("ward", role="dropped").columns["ward"].role
        'dropped'
        """
        found = self.findings
        names = [choice.name for choice in found.choices]
        if name not in names:
            raise ParameterError(f"there is no column {name!r} in the proposal{nearest(name, names)}")
        edited = {**self._edits.get("columns", {}).get(name, {}), **settings}
        edits = {**self._edits, "columns": {**self._edits.get("columns", {}), name: edited}}
        shown = {key: edited[key] for key in ("role", "kind", "transform", "levels") if key in edited}
        changed = tuple(
            choice.because("as edited", doubtful=False, **shown) if choice.name == name else choice
            for choice in found.choices
        )
        quasi = [[one.name for one in chosen if one.role == "quasi"] for chosen in (found.choices, changed)]
        risk = found.risk if quasi[0] == quasi[1] else None
        return assembled(replace(found, choices=changed, risk=risk), edits)

    def with_mask(self, *masks: Mapping[str, Any]) -> Proposal:
        """The proposal with these masks, applied one after the other, instead of the proposed one.

        Examples
        --------
        >>> import gpuanon
        >>> import pyarrow as pa
        >>> proposal = gpuanon.propose(pa.table({"age": [31, 35, 52, 58, 64, 69]}))
        >>> proposal.with_mask({"method": "microaggregation", "k": 2}).mask[0].k
        2
        """
        return assembled(self.findings, {**self._edits, "mask": [dict(mask) for mask in masks]})

    def with_limits(self, **limits: float) -> Proposal:
        """The proposal with these limits instead of the proposed ones; without an argument it has none.

        Examples
        --------
        >>> import gpuanon
        >>> import pyarrow as pa
        >>> gpuanon.propose(pa.table({"age": [31, 35, 52, 58, 64, 69]})).with_limits(k_anonymity=3).limits
        {'k_anonymity': 3.0}
        """
        return assembled(self.findings, {**self._edits, "limits": limits})

    def to_toml(self) -> str:
        """The recipe as TOML, with a reason beside each choice."""
        return _toml(self)

    def __repr__(self) -> str:
        return _text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return _html(self)


def propose(
    data: Any, purpose: str | None = None, *, codebook: str | Path | None = None, strict: bool = False
) -> Proposal:
    """Look at every column of a table, and propose a recipe.

    Parameters
    ----------
    data    : any dataframe that narwhals reads, or `Table`
    purpose : what the release is for; ``gpuanon recipes`` lists them.  None: a research file
    codebook : file of what is known of the columns, .csv or .json; what it says wins
    strict  : whether columns of which nothing is known are dropped, and not masked

    Returns
    -------
    Proposal
        A `Recipe`.  Its repr is a table of the choices and their reasons, `to_toml()` the file to edit.  It holds no
        value of the table except names of ordered levels that at least 10 records have.

    Examples
    --------
    >>> import gpuanon
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [31, 35, 52, 58, 64, 69], "cost": [1.0, 2.0, 2.5, 4.0, 3.0, 6.0]})
    >>> proposal = gpuanon.propose(table)
    >>> proposal.columns["age"].role, proposal.columns["cost"].role
    ('quasi', 'sensitive')
    >>> release = gpuanon.protect(table, proposal.with_limits(k_anonymity=3))
    """
    known = None if codebook is None else read_codebook(Path(codebook))
    table = Table.of(data)
    return assembled(with_trials(table, examine(table, purpose_of(purpose), codebook=known, strict=strict)))


def with_trials(table: Table, findings: Findings) -> Findings:
    """The findings with the mask that keeps the table best, of those that keep people safe."""
    first = findings.mask_and_limits[0]
    masks = [first, *({**mask, "columns": first["columns"]} for mask in findings.purpose.instead)]
    persons = any(choice.role == "person" for choice in findings.choices)
    if len(masks) == 1 or persons or table.n_rows < _FEWEST or not any(c.released for c in findings.choices):
        return findings
    best, found = tried(table, _recipe(findings), masks)
    return replace(findings, trials=tuple(found), instead=None if best.mask is masks[0] else best.mask)


def _recipe(findings: Findings, edits: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The recipe of the choices, as a mapping, with what was edited in it."""
    mask, limits = findings.mask_and_limits
    edited = edits or {}
    columns = edited.get("columns", {})
    recipe: dict[str, Any] = {
        "purpose": findings.purpose.name,
        "columns": {choice.name: {**choice.spec(), **columns.get(choice.name, {})} for choice in findings.choices},
        "others": "refuse",
        "nulls": "indicator",
        "mask": edited.get("mask", [*findings.recoding, mask]),
        "limits": edited.get("limits", limits),
    }
    if findings.csv != CsvOptions():
        recipe["csv"] = findings.csv.model_dump(exclude_defaults=True)
    return recipe


def assembled(findings: Findings, edits: Mapping[str, Any] | None = None) -> Proposal:
    """The recipe of the choices, with what was edited in it."""
    proposal = Proposal._validated(_recipe(findings, edits), "proposal")
    proposal._findings, proposal._edits = findings, edits or {}
    return proposal


def _toml(proposal: Proposal) -> str:
    """The recipe as TOML; every column has its reason beside it."""
    found = proposal.findings
    recipe = _recipe(found, proposal._edits)
    lines = [*_head(found), ""]
    lines += [
        f"purpose = {_value(proposal.purpose):<11} # what the release is for, as the report prints it",
        f"nulls  = {_value(proposal.nulls):<12} # what a missing value means: refuse | category | indicator | wildcard",
        f"others = {_value(proposal.others):<12} # columns that are not named here: refuse | drop | keep",
        "",
        "[columns]",
    ]
    keys = [_key(choice.name) for choice in found.choices]
    width = min(28, max(map(len, keys)))
    specs = [_value(recipe["columns"][choice.name]) for choice in found.choices]
    wide = min(56, max(map(len, specs)))
    for choice, key, spec in zip(found.choices, keys, specs, strict=True):
        doubt = "?  " if choice.doubtful else ""
        lines.append(f"{key:<{width}} = {spec:<{wide}} # {doubt}{reason_of(choice, found)}")
    lines += ["", *_why_masked(proposal, "# ")]
    for at, mask in enumerate(recipe["mask"]):
        lines += [*([""] if at else []), "[[mask]]", *(f"{_key(name)} = {_value(mask[name])}" for name in mask)]
    if proposal.limits:
        lines += ["", "[limits]                     # a release that does not keep them is not written"]
        lines += [f"{name} = {value:g}" for name, value in proposal.limits.items()]
    csv = proposal.csv.model_dump(exclude_defaults=True, mode="json")
    if csv:
        lines += ["", "[csv]                        # how the input is read; the release is written so too"]
        if "nulls" in csv:
            lines.append("# words for a missing value in columns that are masked or measured")
        lines += [f"{name} = {_value(value)}" for name, value in csv.items()]
    return "".join(f"{visible(line, lines=False)}\n" for line in lines)


def _why_masked(proposal: Proposal, mark: str) -> list[str]:
    """Why the mask is as it is: the purpose and the trials, or that it was edited."""
    if "mask" in proposal._edits:
        return [f"{mark}as edited"]
    found = proposal.findings
    return [f"{mark}{found.purpose.summary}", *(f"{mark}tried on a sample: {one}" for one in found.trials)]


def _head(found: Findings) -> list[str]:
    """What was looked at, and what it is at risk of, as comments."""
    of = f" for {found.source}" if found.source else ""
    lines = [
        f"{MARK}{of}: {found.rows:,} rows, {len(found.choices)} columns.  Purpose: {found.purpose.name}.",
        "Read it before you sign it: a ? marks what somebody who knows the table should decide.",
        "'gpuanon check RECIPE TABLE' says what it does; 'gpuanon explain METHOD' what the mask is.",
    ]
    if found.risk is not None:
        lines += ["", *risk_lines(found.risk)]
    if found.unmasked is not None:
        lines.append(str(found.unmasked))
    notes = [*found.notes, *dependency_notes(found.determined, found.choices, found.masked)]
    lines += ["", *(f"note: {note}" for note in notes)] if notes else []
    return [f"# {line}".rstrip() for line in lines]


def reason_of(choice: Choice, found: Findings) -> str:
    """Why a column was chosen so, with nulls, what it shows by itself and what determines it."""
    profile, said = choice.profile, [choice.reason]
    if choice.released and profile.nulls:
        said.append(f"{profile.nulls / max(profile.rows, 1):.1%} null")
    if choice.released and profile.share_alone >= 0.005 and "of their own" not in choice.reason:
        said.append(f"{profile.share_alone:.0%} alone in it")
    by = found.determined.get(choice.name, ())
    if by:
        said.append(f"determined by {', '.join(by[:3])}" + (" and others" if len(by) > 3 else ""))
    return "; ".join(said)


def rows_of(proposal: Proposal) -> list[tuple[str, str, str, str]]:
    """Column, role, kind and reason, a row each; a ? stands before what is doubtful."""
    found = proposal.findings
    rows: list[tuple[str, str, str, str]] = []
    for choice in found.choices:
        kind: str = choice.kind or "" if choice.role in ("quasi", "sensitive") else ""
        if kind and choice.transform != "none":
            kind = f"{kind}, {choice.transform}"
        doubt = "? " if choice.doubtful else ""
        rows.append((choice.name, choice.role, kind, f"{doubt}{reason_of(choice, found)}"))
    return rows


def foot_of(proposal: Proposal) -> list[str]:
    """Mask, limits, risk and notes, a line each."""
    lines = []
    for mask in _recipe(proposal.findings, proposal._edits)["mask"]:
        said = ", ".join(f"{name} = {value}" for name, value in mask.items() if name != "method")
        name = mask.get("method", "combination")
        lines.append(f"mask: {name}" + (f" ({said})" if said else "") + f"; {_why_masked(proposal, '')[0]}")
    if proposal.limits:
        lines.append("held to: " + ", ".join(f"{name} {value:g}" for name, value in proposal.limits.items()))
    if proposal.findings.risk is not None:
        lines += risk_lines(proposal.findings.risk)
    found = proposal.findings
    if found.unmasked is not None:
        lines.append(str(found.unmasked))
    return lines + [
        f"note: {note}" for note in (*found.notes, *dependency_notes(found.determined, found.choices, found.masked))
    ]


def _text(proposal: Proposal) -> str:
    """The proposal as a table of plain text."""
    rows = [HEADINGS, *rows_of(proposal)]
    widths = [min(30, max(len(row[at]) for row in rows)) for at in range(3)]
    lines = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
        for row in rows
    ]
    lines = [lines[0], "-" * min(_WIDTH, max(map(len, lines))), *lines[1:], "", *foot_of(proposal)]
    return "\n".join(visible(line, lines=False) for line in lines)


def _html(proposal: Proposal) -> str:
    """The proposal as an HTML table, names escaped, without scripts."""
    head = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(visible(cell))}</td>" for cell in row) + "</tr>"
        for row in rows_of(proposal)
    )
    foot = "".join(f"<p>{escape(visible(line))}</p>" for line in foot_of(proposal))
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}</div>"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    """A TOML value: JSON's texts and numbers are TOML's, a path is a text, None is left out of a table."""
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items() if one is not None) + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)
