"""The form of what commands print with ``--json``, as ``gpuanon schema --of COMMAND`` publishes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION: Literal["gpuanon/1"] = "gpuanon/1"
"""Of the form of all results; a result that loses or renames a key has another one."""


class _Fixed(BaseModel):
    """An object with these keys and no others."""

    model_config = ConfigDict(extra="forbid")


class _Open(BaseModel):
    """An object with these keys, and others that depend on what it speaks of."""

    model_config = ConfigDict(extra="allow")


class _Result(_Fixed):
    schema_: Literal["gpuanon/1"] = Field(alias="schema")


class GuaranteeResult(_Open):
    """A promise of the recipe; `verified` is null where nothing is promised."""

    statement: str
    verified: bool | None


class QuasiResult(_Fixed):
    """The headline over all quasi-identifiers."""

    columns: list[str]
    kept: list[str]
    smallest_class: int | None
    unit: str


class VerdictResult(_Open):
    """Whether people are safe in the release."""

    state: Literal["good", "open", "bad"]
    reasons: list[str]


class UnmaskedResult(_Fixed):
    """The released columns that no mask changed, of how many."""

    columns: list[str]
    of: int


class ProtectResult(_Result):
    """What ``protect --json`` prints."""

    rows_in: int
    rows_out: int
    rows_added: int
    rows_dropped: int
    backend: str
    mask: list[dict[str, Any]]
    guarantee: list[GuaranteeResult]
    quasi: QuasiResult
    verdict: VerdictResult
    unmasked: UnmaskedResult
    warnings: list[str]
    seconds: float
    output: str


class FigureResult(_Open):
    """A measured figure, with what it is made of."""

    value: float


class NoFigureResult(_Open):
    """Why a measure has no figure."""

    error: str


class AssessResult(_Result):
    """What ``assess --json`` prints."""

    risk: dict[str, FigureResult | NoFigureResult]
    utility: dict[str, FigureResult | NoFigureResult]
    notes: list[str]


class TrialResult(_Fixed):
    """One release of a comparison."""

    name: str
    parameters: dict[str, Any]
    measured: dict[str, float]
    refused: str | None
    failed: dict[str, str]
    rows: dict[str, int]
    kept: float | None
    promise: str | None
    verdict: VerdictResult | None
    singled_out: float | None
    copies: float | None
    details: dict[str, Any]
    seconds: float


class LeftOutResult(_Fixed):
    """A trial or method that was left out."""

    name: str
    reason: str


class CompareResult(_Result):
    """What ``compare --json`` prints."""

    trials: list[TrialResult]
    best: str | None
    recipe: dict[str, Any] | None
    rule: str
    left_out: list[LeftOutResult]
    front: list[str]
    quasi: list[str]
    notes: list[str]


class ColumnResult(_Fixed):
    """What becomes of a column."""

    name: str
    role: str
    kind: str | None
    becomes: str
    alone: float | None


class CheckResult(_Result):
    """What ``check --json`` prints."""

    recipe: str
    columns_named: int
    masks: list[str]
    table: str | None
    rows: int
    unit: Literal["record", "person", "household"]
    singled_out: float | None
    warnings: list[str]
    notes: list[str]
    columns: list[ColumnResult]
    quasi: dict[str, Any] | None
    kept: dict[str, Any] | None
    promises: list[str]
    limits: dict[str, float]
    estimate: dict[str, Any] | None


class IntervalsResult(_Result):
    """What ``intervals --json`` prints."""

    columns: list[str]
    records: int
    different_boxes: int
    intervals: list[dict[str, Any]]
    notes: list[str]


class FailureResult(_Fixed):
    """What went wrong."""

    type: str
    message: str
    hint: str | None
    notes: list[str]
    exit_code: int


class ErrorResult(_Result):
    """What any command prints with ``--json`` when it fails."""

    error: FailureResult


RESULTS: Mapping[str, type[_Result]] = {
    "protect": ProtectResult,
    "assess": AssessResult,
    "compare": CompareResult,
    "check": CheckResult,
    "intervals": IntervalsResult,
    "error": ErrorResult,
}


def json_schema(of: str) -> dict[str, Any]:
    """The JSON Schema of a recipe, or of what a command prints."""
    from gpuanon.recipe import Recipe

    return Recipe.model_json_schema() if of == "recipe" else RESULTS[of].model_json_schema(by_alias=True)
