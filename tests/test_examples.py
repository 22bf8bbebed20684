"""Public names: what they show, and the example in each docstring, which is run."""

from __future__ import annotations

import doctest
import inspect

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpuanon

WITH_EXAMPLES = sorted(name for name in gpuanon.__all__ if callable(getattr(gpuanon, name)))


def test_the_package_shows_its_public_names_only():
    assert dir(gpuanon) == sorted(gpuanon.__all__)
    assert set(gpuanon.__all__) == {*gpuanon._PUBLIC, "__version__"}


def run_examples(thing, name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    tests = [test for test in doctest.DocTestFinder().find(thing, name) if test.examples]
    assert tests, f"{name} has no example"
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_every_public_docstring_has_an_example_that_holds(name, tmp_path, monkeypatch):
    run_examples(getattr(gpuanon, name), name, tmp_path, monkeypatch)


def test_what_public_functions_return_has_an_example_too(tmp_path, monkeypatch):
    from gpuanon.engine.assess import Assessment
    from gpuanon.engine.release import Release
    from gpuanon.proposing.proposal import Proposal

    for kind in (Assessment, Release, Proposal):
        assert inspect.isclass(kind)
        run_examples(kind, kind.__name__, tmp_path, monkeypatch)


TABLE = pa.table({"age": [31, 35, 52, 58, 64, 69], "cost": [1.0, 2.0, 2.5, 4.0, 3.0, 6.0]})
RECIPE = {
    "columns": {"age": {"role": "quasi"}, "cost": {"role": "sensitive"}},
    "mask": [{"method": "microaggregation", "k": 3}],
}


def test_paths_are_texts_or_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release = gpuanon.protect(TABLE, RECIPE)
    release.write("out.csv", link="link.csv")
    pa.csv.write_csv(TABLE, "in.csv")
    by_text = gpuanon.assess("in.csv", "out.csv", RECIPE, link="link.csv", measures=["k_anonymity", "means"])
    by_path = gpuanon.assess(
        tmp_path / "in.csv", tmp_path / "out.csv", RECIPE, link=tmp_path / "link.csv", measures=["k_anonymity", "means"]
    )
    in_memory = gpuanon.assess(TABLE, release.data, RECIPE, link=release.link, measures=["k_anonymity", "means"])
    assert by_text == by_path
    assert by_text["k_anonymity"].value == in_memory["k_anonymity"].value == 3


@pytest.mark.parametrize(
    ("given", "kind"), [(TABLE, pa.Table), (TABLE.to_pandas(), pd.DataFrame), (pl.from_arrow(TABLE), pl.DataFrame)]
)
def test_an_assessment_is_a_mapping_and_a_frame_of_the_kind_that_was_given(given, kind):
    names = ["k_anonymity", "means", "reference_standard"]
    found = gpuanon.assess(given, given, RECIPE, measures=names)
    assert list(found) == ["k_anonymity", "means"]
    assert len(found) == 2
    assert "reference_standard" not in found
    with pytest.raises(KeyError, match="not measured"):
        found["reference_standard"]
    frame = found.to_frame()
    assert isinstance(frame, kind)
    rows = pa.table(frame).to_pylist()
    assert [row["measure"] for row in rows] == ["k_anonymity", "reference_standard", "means"]
    assert [row["value"] for row in rows if row["measure"] in found] == [one.value for one in found.values()]
    assert (
        next(row["note"] for row in rows if row["measure"] == "reference_standard")
        == found.failed["reference_standard"]
    )


def test_what_is_private_looks_private():
    release = gpuanon.protect(TABLE, RECIPE)
    shown = {name for name in vars(release) if not name.startswith("_")}
    assert shown == {"table", "manifest", "link", "layouts"}
