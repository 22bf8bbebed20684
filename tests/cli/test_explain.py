"""``gpuanon explain``: every method, part and measure by what it declares, whatever is in the catalogues."""

from __future__ import annotations

import inspect
import json

import pytest

from gpuanon.assessing.measures import MEASURES
from gpuanon.cli.explaining import explain, names
from gpuanon.errors import ParameterError
from gpuanon.masking.methods import METHODS, catalogue

NAMES = list(names())


@pytest.mark.parametrize("name", NAMES)
def test_everything_in_the_catalogues_is_explained(name):
    found = explain(name)
    assert found.summary
    assert found.facts
    json.dumps(found.to_json(), allow_nan=False)


def test_every_method_measure_and_part_has_a_name():
    assert {entry["name"] for entry in catalogue()} | set(MEASURES) <= set(NAMES)
    assert {"mdav", "ica", "centroid", "classes"} <= set(NAMES)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry["name"])
def test_a_method_is_explained_with_its_source_its_parameters_and_a_picture(entry):
    found = explain(entry["name"])
    assert found.facts["source"] == entry["source"]
    assert set(found.parameters) == set(entry["parameters"])
    assert len(METHODS) == len(catalogue())


def test_a_promise_is_told_in_the_words_of_its_claim():
    assert (
        "every combination of A, B, … is shared by at least 5 released records"
        in explain("microaggregation").facts["promise"]
    )
    assert explain("svd-swap").facts["promise"].startswith("none")
    assert "which rows mix" in explain("pica").facts["picture"]


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_explained_by_its_declaration_and_the_docstring_of_its_function(name):
    found, measure = explain(name), MEASURES[name]
    assert inspect.getdoc(measure.function) in found.text
    assert {measure.label, measure.sentence, measure.source, measure.nulls} <= set(found.facts.values())
    assert found.facts["sample weights"] == measure.weights.told
    assert set(found.parameters) == set(measure.options)


def test_an_explanation_has_the_formula():
    assert "Π" in " ".join(explain("suda2").text)
    assert MEASURES["il1s"].function.__name__ == "il1s"


def test_an_unknown_name_has_a_hint():
    with pytest.raises(ParameterError, match="microaggregation"):
        explain("microagregation")
