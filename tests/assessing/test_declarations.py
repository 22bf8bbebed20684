"""Every measure declares itself: what is forgotten fails here, and what is declared is held against what it does."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from math import isnan

import numpy as np
import pytest
from pydantic import TypeAdapter

import gpuanon
from gpuanon import assessing
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import _PLACES, MEASURES, catalogue
from gpuanon.cli.printing import print_assessment
from gpuanon.errors import GuaranteeError
from tests.support.every import COLUMNS, recipe, registry

NAMES = list(MEASURES)
ROWS = 120
ROLES = {"w": {"role": "weight"}, "family": {"role": "household"}}
OPTIONS = {"population_uniqueness": {"fraction": 0.5}}
MODELS = {"analysis", "workload"}  # of which the recipe has none here


def declarations():
    """Every declaration in the package, by place."""
    modules = [
        assessing.__name__,
        *(found.name for found in pkgutil.walk_packages(assessing.__path__, "gpuanon.assessing.")),
    ]
    for name in modules:
        module = importlib.import_module(name)
        for attribute, value in vars(module).items():
            if isinstance(value, Measure):
                yield f"{name}.{attribute}", value


def test_every_declaration_is_in_the_registry_and_nowhere_else():
    places = {place for place, _ in declarations()}
    assert places == {f"gpuanon.assessing.{place}" for place in _PLACES.values()}
    assert len(set(_PLACES.values())) == len(_PLACES)


@pytest.mark.parametrize("name", NAMES)
def test_a_declaration_is_complete(name):
    measure = MEASURES[name]
    assert measure.name == name
    for text in (measure.label, measure.sentence, measure.summary, measure.source, measure.nulls, measure.weights.why):
        assert text.strip() == text
        assert text
    assert measure.sentence[0].isupper()
    assert measure.sentence.endswith(".")
    assert len(measure.label) <= 70
    assert not measure.label.endswith(".")
    assert measure.family in ("risk", "utility")
    assert measure.better in ("lower", "higher")
    low, high = measure.range
    assert low < high
    assert not isnan(low)
    assert measure.unit
    assert measure.applies.rows
    assert measure.scaling in ("merged", "sample", "pairs", "queries", "whole")
    for kind in measure.options.values():
        TypeAdapter(kind)


@pytest.mark.parametrize("name", NAMES)
def test_the_functions_stand_in_the_file_of_the_declaration(name):
    measure, module = MEASURES[name], f"gpuanon.assessing.{_PLACES[name].rpartition('.')[0]}"
    assert measure.function.__module__ == measure.compute.__module__ == module
    assert inspect.isfunction(measure.compute)
    assert measure.compute.__name__ != "<lambda>"
    assert inspect.getdoc(measure.function)
    first, *options = inspect.signature(measure.compute).parameters.values()
    assert first.name in ("c", "source")
    if not any(one.kind is one.VAR_KEYWORD for one in options):
        assert {one.name for one in options} == set(measure.options)


@pytest.mark.parametrize("field", ["name", "label", "sentence", "summary"])
def test_no_two_measures_say_the_same(field):
    told = [getattr(measure, field) for measure in MEASURES.values()]
    assert len(set(told)) == len(told)


def test_the_catalogue_is_strict_json_of_the_declarations():
    entries = json.loads(json.dumps(catalogue(), allow_nan=False))
    assert [entry["name"] for entry in entries] == NAMES
    for entry in entries:
        assert {"summary", "source", "family", "better", "scaling", "host_only", "range", "parameters"} <= entry.keys()


def assessed(known, *, without=None, kind="kept", **more):
    """All measures of a permuted table; without one thing that measures may need."""
    table = registry(2 * ROWS)
    table = table.append_column("w", [np.linspace(1.0, 9.0, 2 * ROWS)])
    table = table.append_column("family", [np.arange(2 * ROWS) // 3])
    roles = {name: dict(column) for name, column in (COLUMNS | ROLES).items()}
    for column in roles.values():
        if column["role"] == without:
            column["role"] = "other"
    known = {name: value for name, value in known.items() if name != without}
    if kind == "new":
        known["link"] = np.full(ROWS, -1)
    original = table.slice(0, ROWS)
    rules = recipe("permute", columns=roles, measures=OPTIONS)
    if without == "quasi":
        rules = {**rules, "mask": [{"method": "column-swap", "columns": ["age"]}]}
    release = original.take(np.random.default_rng(5).permutation(ROWS))
    release = release.set_column(release.column_names.index("age"), "age", original["age"])
    return gpuanon.assess(original, release, rules, **known, **more)


def everything():
    others = registry(2 * ROWS).append_column("w", [np.linspace(1.0, 9.0, 2 * ROWS)])
    others = others.append_column("family", [np.arange(2 * ROWS) // 3]).slice(ROWS)
    return {"link": np.random.default_rng(5).permutation(ROWS), "reference": others}


@pytest.mark.parametrize(
    "without", [None, "link", "reference", "quasi", "sensitive", "weight", "household", "new rows"]
)
def test_a_measure_applies_where_it_says_and_nowhere_else(without):
    found = assessed(everything(), without=without, kind="new" if without == "new rows" else "kept")
    lacking = {
        None: lambda applies: False,
        "link": lambda applies: applies.link,
        "reference": lambda applies: applies.others is not None,
        "new rows": lambda applies: "new" not in applies.rows,
    }.get(without, lambda applies: without in applies.roles)
    expected = {name for name in NAMES if lacking(MEASURES[name].applies)} | MODELS
    assert found.inapplicable == expected
    assert expected <= set(found.failed)
    for family in ("risk", "utility"):
        for name, entry in found.to_json()[family].items():
            assert ("not_applicable" in entry) == (name in expected)
            if name in expected:
                assert entry == {"value": None, "not_applicable": found.failed[name]}


def test_a_measure_that_does_not_apply_is_a_dash_with_its_reason(capsys, tmp_path):
    found = assessed(everything(), kind="new", measures=["reidentification", "ks"])
    print_assessment(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert "reidentification │ – │" in printed
    assert "every released row is new" in found.failed["reidentification"]
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "does not apply: every released row is new" in page


def test_a_limit_on_a_measure_that_does_not_apply_refuses_the_release():
    rules = recipe("univariate-synthesis", limits={"reidentification": 1.0})
    with pytest.raises(
        GuaranteeError, match=r"limits\.reidentification: could not be measured: every released row is new"
    ):
        gpuanon.protect(registry(80), rules, rng=7)
