"""``gpuanon explain``: what a method, a part of a mask or a measure does, from what each declares of itself.

Nothing is listed here: whatever is in the catalogues is explained by its docstrings, parameters and declarations.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from pydantic import BaseModel

from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES
from gpuanon.errors import ParameterError
from gpuanon.masking.bases import BASES
from gpuanon.masking.contract import Basis, Groups, MaskPart, Operation
from gpuanon.masking.groups import GROUPS
from gpuanon.masking.methods import METHODS
from gpuanon.masking.methods.combination import Combination, Method
from gpuanon.masking.operations import OPERATIONS

_ROWS = {
    "kept": "every record is released once",
    "dropped": "some records are not released",
    "added": "every record is released once, and rows that stand for no record are added",
    "new": "no released row stands for a record",
}
_SCALING = {
    "merged": "exact on tables of any size",
    "sample": "on a random sample of a table larger than memory",
    "pairs": "on a random sample of released records and their originals, of a table larger than memory",
    "queries": "for a random sample of originals of a table larger than memory",
    "whole": "on tables that fit in memory only",
}


@dataclass(frozen=True)
class Explanation:
    """What is said of a name.

    kind       : method, groups, basis, operation, risk or utility
    text       : docstrings, the formula and references among them
    facts      : what it declares, by heading
    parameters : name → type, default and meaning
    """

    name: str
    kind: str
    summary: str
    text: tuple[str, ...]
    facts: dict[str, str]
    parameters: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """As ``explain --json`` prints it."""
        return dataclasses.asdict(self)


def names() -> dict[str, str]:
    """Every name that can be explained, with its summary: methods first, then measures, then parts."""
    return {name: _first(summary) for name, (summary, _) in _catalogue().items()}


def explain(name: str) -> Explanation:
    """The explanation of a method, part or measure."""
    known = _catalogue()
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "'gpuanon methods' and 'gpuanon measures' list them"
        raise ParameterError(f"explain: there is no method, part or measure {name!r}", hint=hint)
    return known[name][1]()


def _catalogue() -> dict[str, tuple[str, Callable[[], Explanation]]]:
    """Name → summary, and what makes its explanation.  A part that has the name of a method is explained with it."""
    found: dict[str, tuple[str, Callable[[], Explanation]]] = {}
    for name, method in METHODS.items():
        found[name] = (method.__doc__ or "", partial(_of_method, method))
    for measure in MEASURES.values():
        found[measure.name] = (measure.summary, partial(_of_measure, measure))
    for name, part in (*GROUPS.items(), *BASES.items(), *OPERATIONS.items()):
        found.setdefault(name, (part.__doc__ or "", partial(_of_part, part)))
    return found


def _of_method(method: type[Method]) -> Explanation:
    combination = _example(method)
    facts = {}
    if combination is not None:
        facts["picture"] = " → ".join(
            f"{what}: {_first(inspect.getdoc(type(part)) or part.use)}"
            for what, part in (
                ("which rows mix", combination.groups),
                ("seen as", combination.basis),
                ("what is done", combination.operation),
            )
        )
        facts |= _of_combination(combination)
    facts["source"] = method.source
    texts = [inspect.getdoc(method) or ""]
    if combination is not None:
        texts += [text for part in (combination.groups, combination.operation) for text in _texts(type(part))]
    name = _default(method, "method")
    return Explanation(name, "method", _first(texts[0]), _unique(texts), facts, _parameters(method, "method"))


def _of_combination(combination: Combination) -> dict[str, str]:
    """What becomes of the rows, what is promised, where it runs."""
    operation = combination.operation
    masked = ("A", "B", "…")  # stand for the names of columns
    sets = [(name,) for name in masked] if combination.groups.per_column else [masked]
    claims = [claim.statement for claim in operation.claims(combination.k, sets)]
    return {
        "rows": _ROWS[operation.rows],
        "promise": "; ".join(claims) or "none: the risk of its release is measured, and limits can refuse it",
        "use it": "where that promise is wanted"
        if claims
        else "where measured risk is enough, with limits in the recipe",
        "runs on": "the CPU only" if combination.groups.host_only else "CPU and GPU",
    }


def _example(method: type[Method]) -> Combination | None:
    """The combination of the method with the least that its parameters allow; None where that cannot be told."""
    given: dict[str, Any] = {}
    properties = method.model_json_schema()["properties"]
    for name, field in method.model_fields.items():
        if field.is_required():
            known = properties[name]
            options = known.get("anyOf", [known])
            least = next((option["minimum"] for option in options if "minimum" in option), None)
            if least is None:
                return None
            given[name] = max(least, 5) if options[0].get("type") == "integer" and name == "k" else least
    try:
        return method(**given).combination()
    except ValueError:
        return None


def _of_part(part: type[MaskPart]) -> Explanation:
    facts: dict[str, str] = {}
    if issubclass(part, Groups):
        kind = "groups"
        facts = {"sees rows as": part.sees, "runs on": "the CPU only" if part.host_only else "CPU and GPU"}
    elif issubclass(part, Basis):
        kind = "basis"
        facts = {"shows rows as": part.sees}
    else:
        kind = "operation"
        if issubclass(part, Operation):
            promise = "none" if part.claim is None else _first(part.claim.__doc__ or part.claim.__name__)
            facts = {"rows": _ROWS[part.rows], "promise": promise}
    facts["in a recipe"] = f'{kind} = {{ use = "{_default(part, "use")}" }}'
    texts = _texts(part)
    return Explanation(
        _default(part, "use"), kind, _first(texts[0]) if texts else "", tuple(texts), facts, _parameters(part, "use")
    )


def _of_measure(measure: Measure) -> Explanation:
    applies, low, high = measure.applies, *measure.range
    needs = ["the private link (--link)"] * applies.link + ["records that are not in the table"] * bool(applies.others)
    needs += [f"columns of role {role}" for role in applies.roles]
    facts = {
        "called": measure.label,
        "says": measure.sentence,
        "better": f"{measure.better} ({measure.family})",
        "range": f"{low:g} to {high:g}",
        "usual": measure.usual,
        "speaks of": measure.unit,
        "needs": ", ".join(needs),
        "rows": "" if "new" in applies.rows else "does not apply where every released row is new",
        "computed": _SCALING.get(measure.scaling, measure.scaling),
        "runs on": "CPU and GPU" if measure.host is None else f"the CPU only: {measure.host}",
        "as a limit": f"[limits] {measure.name} = the {'largest' if measure.better == 'lower' else 'smallest'} allowed",
        "source": measure.source,
        "sample weights": measure.weights.told,
        "nulls": measure.nulls,
    }
    texts = [inspect.getdoc(measure.function) or "", inspect.getdoc(sys.modules[measure.function.__module__]) or ""]
    parameters = {name: _described(schema) for name, schema in _options(measure).items()}
    told = {heading: text for heading, text in facts.items() if text}
    return Explanation(measure.name, measure.family, measure.summary, _unique(texts), told, parameters)


def _options(measure: Measure) -> dict[str, dict[str, Any]]:
    from gpuanon.assessing.measure import described

    return described(measure.options)


def _texts(model: type[BaseModel]) -> list[str]:
    """The docstring of a part, of the function beside it, and of its module."""
    module = sys.modules[model.__module__]
    stem = model.__module__.rsplit(".", 1)[-1]
    function = getattr(module, stem, None)
    texts = [inspect.getdoc(model) or ""]
    if inspect.isfunction(function) and function.__doc__:
        texts.append(inspect.getdoc(function) or "")
    texts.append(inspect.getdoc(module) or "")
    return list(_unique(texts))


def _parameters(model: type[BaseModel], tag: str) -> dict[str, str]:
    """Each parameter with its type, default and meaning."""
    schema = model.model_json_schema()
    properties, required = schema["properties"], schema.get("required", ())
    return {name: _described(details, required=name in required) for name, details in properties.items() if name != tag}


def _described(details: dict[str, Any], *, required: bool = False) -> str:
    """A parameter in words."""
    allowed = details.get("enum") or [one["const"] for one in details.get("anyOf", ()) if "const" in one]
    kinds = [one["type"] for one in (details, *details.get("anyOf", ())) if isinstance(one.get("type"), str)]
    said = [" | ".join(map(str, allowed)) if allowed else " or ".join(kind for kind in kinds if kind != "null")]
    bounds = [
        f"{sign} {one[key]:g}"
        for one in (details, *details.get("anyOf", ()))
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
        if key in one
    ]
    said += bounds
    if required:
        said.append("has to be given")
    elif details.get("default") is not None:
        said.append(f"default {details['default']}")
    meaning = details.get("description", "")
    return f"{', '.join(filter(None, said))}{': ' + meaning if meaning else ''}"


def _default(model: type[BaseModel], tag: str) -> str:
    return str(model.model_fields[tag].default)


def _first(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ")


def _unique(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
