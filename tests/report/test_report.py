"""The report: one page that stands alone, and from which nobody can be read."""

from __future__ import annotations

import copy
import json
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.cli import app as cli
from gpuanon.errors import GpuanonError, OutputError
from gpuanon.report import REPORT_MARK
from tests.support.every import registry
from tests.support.report_pages import RECIPE, Page


def figures_in(page):
    """The figures that a page carries."""
    return json.loads(re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S).group(1))


@pytest.fixture(scope="module")
def release():
    return gpuanon.protect(registry(400), RECIPE, rng=b"a key of sixteen bytes or more")


@pytest.fixture(scope="module")
def page(release, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    release.report(path)
    return path.read_text()


def test_the_page_stands_alone(page):
    found = Page(page)
    assert found.tags.count("script") == 2  # the figures, and the page's own script
    assert "link" not in found.tags
    assert all(address.startswith("#") for address in found.addresses)
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert len(found.identifiers) == len(set(found.identifiers))
    references = set(re.findall(r"url\(#([^)]+)\)", page)) | {address[1:] for address in found.addresses}
    assert references <= set(found.identifiers)


def test_the_page_says_what_was_promised_measured_and_done(page, release):
    text, manifest = Page(page).text, release.manifest
    assert manifest["guarantee"][0]["statement"] in text
    assert "records in the smallest class over all quasi-identifiers" in text
    assert "microaggregation" in text
    assert "at most 90" in text
    assert "reidentification" in text
    assert "95 % interval" in text
    assert "by column, the worst first" in text
    assert page.index('id="verdict"') < page.index('id="risk"') < page.index('id="utility"') < page.index('id="done"')
    assert "numpy" in text
    for warning in manifest["warnings"]:
        assert warning in text
    assert page.index("<strong>Warning") < page.index("What is promised")


def test_a_written_release_has_its_digest_in_the_report(release, tmp_path):
    manifest = release.write(tmp_path / "release.parquet", report=tmp_path / "report.html")
    assert manifest["release"]["digest"] in (tmp_path / "report.html").read_text()


def test_no_value_that_one_record_has_is_on_the_page(page):
    table = registry(400)
    numbers = set(re.findall(r"\d+(?:\.\d+)?", page.replace(",", "")))
    for name in ("income", "cost"):
        values, counts = np.unique(table[name].drop_null().to_numpy(), return_counts=True)
        unique = [value for value in values[counts == 1] if value > 1000]
        assert unique
        for value in unique:
            assert not {str(value), repr(float(value)), f"{value:.2f}", f"{value:.1f}"} & numbers, name


SMALL = 6


def _spellings(value):
    """How a page might show a value."""
    if isinstance(value, float):
        return {repr(value), f"{value:.2f}", f"{value:.1f}", f"{value:.0f}", f"{value:,.2f}", f"{value:,.0f}"}
    return {str(value)}


def test_no_value_that_is_unique_in_its_column_is_in_page_or_figures(tmp_path):
    """All kinds of columns, all measures: numbers, dates, rare labels, and a person's few records."""
    rng = np.random.default_rng(11)
    n = 500
    table = pa.table(
        {
            "income": np.round(rng.uniform(100_000, 999_999, n), 2),
            "cost": np.round(rng.lognormal(11, 1, n), 2) + 100_000,
            "age": rng.integers(18, 90, n),
            "day": pa.array(rng.permutation(9000)[:n].astype(np.int32)).cast(pa.date32()),
            "ward": pa.array([*(f"secret ward {i}" for i in range(30)), *rng.choice(["east", "west"], n - 30)]),
            "someone": pa.array(np.arange(n) // 2),
        }
    )
    columns = {name: {"role": "quasi"} for name in ("income", "age", "day", "ward")}
    columns |= {"cost": {"role": "sensitive"}, "someone": {"role": "person"}}
    models = [{"formula": "cost ~ age + C(ward)"}]
    rules = {"columns": columns, "mask": [{"method": "microaggregation", "k": SMALL}], "analysis": models}
    found = gpuanon.protect(table, rules, rng=b"a key of sixteen bytes or more")
    gpuanon.assess(table, found.data, rules, link=found.link).report(tmp_path / "all.html")
    found.report(tmp_path / "release.html")
    texts = [path.read_text() for path in sorted(tmp_path.iterdir())]
    assert len(texts) == 4
    written = set().union(*(re.findall(r"\d[\d,.-]*\d", text) for text in texts))
    for name in ("income", "cost", "day"):
        values, counts = np.unique(np.array(table[name].to_pylist()), return_counts=True)
        unique = [value.item() if hasattr(value, "item") else value for value in values[counts == 1]]
        assert len(unique) > 100
        shown = {text for value in unique for text in _spellings(value)} & written
        assert not shown, name
    assert not any("secret ward" in text for text in texts)
    released = set(found.data["income"].to_pylist())
    assert released  # a centroid of six people is no value of one


def test_a_notebook_shows_a_frame_of_its_own(release):
    found = gpuanon.assess(registry(400), release.data, RECIPE, measures=("ks", "k_anonymity"))
    for shown in (found._repr_html_(), release._repr_html_()):
        assert shown.startswith("<iframe srcdoc=")
        assert "&lt;script&gt;" in shown
        assert "<script" not in shown
    assert "What is promised" in release._repr_html_()


def test_the_verdict_names_what_is_not_met(release, tmp_path):
    from dataclasses import replace as changed

    manifest = copy.deepcopy(release.manifest)
    manifest["measured"]["information_loss"] = 95.0
    found = gpuanon.assess(registry(400), release.data, RECIPE, measures=("means",))
    changed(found, manifest=manifest).report(tmp_path / "a.html")
    text = Page((tmp_path / "a.html").read_text()).text
    assert "Not met: limit on loss of detail, in per cent" in text
    assert "95; the recipe allows at most 90" in text
    changed(found, manifest=None).report(tmp_path / "b.html")
    assert "Measured, not verified" in Page((tmp_path / "b.html").read_text()).text


def test_one_sensitive_value_in_a_class_and_a_record_alone_reach_the_verdict(release):
    """Of each class all have the same diagnosis; then one record is alone as well."""
    from gpuanon.report.contents import Contents
    from gpuanon.report.verdict import verdict_of

    zones = np.repeat(["a", "b", "c"], 20)
    table = pa.table({"zone": zones, "diagnosis": np.repeat(["flu", "burn", "flu"], 20)})
    recipe = {
        "columns": {"zone": {"role": "quasi"}, "diagnosis": {"role": "sensitive"}},
        "mask": [{"method": "suppress", "k": 3, "columns": ["zone"]}],
    }
    names = ("k_anonymity", "l_diversity", "means")

    def verdict(released, manifest):
        found = gpuanon.assess(table, released, recipe, measures=names)
        return verdict_of(Contents("a report", manifest, found)).reason

    same = "everybody in some class has the same value of diagnosis"
    unverified = copy.deepcopy(release.manifest)
    unverified["guarantee"] = [{**one, "verified": None} for one in unverified["guarantee"]]
    promised = copy.deepcopy(release.manifest)
    for one in (promised, unverified):
        del one["verdict"]  # of another table
    for manifest in (None, promised, unverified):
        assert same in verdict(table, manifest)
        assert "alone in its class" not in verdict(table, manifest)
    one_left = pa.table({"zone": np.append(zones[1:], "d"), "diagnosis": table["diagnosis"]})
    assert "1 record is alone in its class" in verdict(one_left, None)
    diverse = pa.table({"zone": zones, "diagnosis": np.tile(["flu", "burn"], 30)})
    assert same not in verdict(diverse, None)


def test_a_headline_of_one_record_is_named_where_nothing_is_promised(release, tmp_path):
    from dataclasses import replace as changed

    manifest = copy.deepcopy(release.manifest)
    manifest["guarantee"] = [{**one, "verified": None} for one in manifest["guarantee"]]
    manifest["quasi"]["smallest_class"] = 1
    del manifest["verdict"]
    found = gpuanon.assess(registry(400), release.data, RECIPE, measures=("means",))
    changed(found, manifest=manifest).report(tmp_path / "page.html")
    text = Page((tmp_path / "page.html").read_text()).text
    assert "Not judged" in text
    assert "1 record is alone on the quasi-identifiers together" in text


def test_small_bins_are_merged_and_ends_left_out():
    from gpuanon.assessing.figures import Counts

    counts = Counts("x", (-np.inf, 1.0, 2.0, 3.0, np.inf), {"original": (3, 9, 0, 2), "release": (7, 0, 8, 4)})
    coarse = counts.coarse(5)
    assert all(count == 0 or count >= 5 for side in coarse.sides.values() for count in side)
    assert sum(coarse.sides["original"]) == 14
    assert sum(coarse.sides["release"]) == 19
    assert len(coarse.edges) == len(coarse.sides["release"]) + 1
    assert Counts("x", (-np.inf, 1.0, np.inf), {"original": (1, 2)}).coarse(5).sides == {}


def test_a_contour_goes_round_many_people_only():
    from scipy.ndimage import label

    from gpuanon.assessing.densities import contours

    rng = np.random.default_rng(0)
    crowd, few = rng.normal(0, 1, size=(400, 2)), rng.normal(6, 0.01, size=(12, 2))
    found = contours(("a", "b"), np.concatenate([crowd, few]), crowd, None, 15, (0.99,), ends=0.0)
    free = contours(("a", "b"), np.concatenate([crowd, few]), crowd, None, 5, (0.99,), ends=0.0)
    corner = tuple(slice(np.searchsorted(edge, 4.5), None) for edge in found.edges)
    assert (free.before.grid[corner] >= free.before.levels[0]).any()
    assert not (found.before.grid[corner] >= found.before.levels[0]).any()
    assert label(found.before.grid >= found.before.levels[0])[1] == 1


def test_a_copy_of_a_release_reports_without_its_original(release, tmp_path):
    again = copy.deepcopy(release)
    assert again._masked is None
    again.report(tmp_path / "report.html")
    assert "What is promised" in (tmp_path / "report.html").read_text()
    assert "Columns before and after" not in (tmp_path / "report.html").read_text()


LABELS = ("<script>alert(1)</script>", "$\\frac{", "</svg><b>", "名前", 'a"onload="x')


def test_the_figures_hold_the_contours_that_the_page_draws(release):
    """Lines of as many points as are needed, on the scale of the columns; no density between them."""
    contents = release._contents(release.manifest)
    drawn = [one for one in contents.pictures.pairs if type(one).__name__ == "Contours"]
    found = [one for one in contents.to_json()["together"] if one["figure"] == "contours"]
    assert [one["columns"] for one in found] == [list(one.columns) for one in drawn]
    assert drawn
    for one, picture in zip(found, drawn, strict=True):
        assert set(one) == {"figure", "columns", "dates", "original", "release"}
        points = np.concatenate([np.array(line) for line in one["original"]])
        for at, edges in enumerate(picture.edges):
            assert edges[0] <= points[:, at].min() < points[:, at].max() <= edges[-1]


def test_no_figure_is_a_power_of_ten(page):
    """0.00005, not 4.961e-05: in what is read, tables and drawings included."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    text = Page(re.sub(r"<[^>]*>", " ", shown)).text
    assert not re.findall(r"\d(?:\.\d+)?e[+-]?\d+", text)


def test_labels_are_data(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({f"{label} x": rng.normal(size=200) for label in LABELS})
    table = table.append_column("group", pa.array([*LABELS, "b", "c", "d", "e", "f"] * 20))
    columns = {name: {"role": "quasi"} for name in table.column_names}
    recipe = {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}
    path = tmp_path / "report.html"
    gpuanon.protect(table, recipe).report(path)
    found = Page(path.read_text())
    assert found.tags.count("script") == 2
    assert "b" not in found.tags
    assert all(label in found.text for label in LABELS)
    assert json.loads((tmp_path / "report.figures.json").read_text()) == figures_in(path.read_text())


def test_an_assessment_and_a_comparison_have_reports(tmp_path, release):
    table = registry(400)
    found = gpuanon.assess(table, release.data, RECIPE, link=release.link, measures=("ks", "reference_standard"))
    found.report(tmp_path / "assess.html")
    text = Page((tmp_path / "assess.html").read_text()).text
    assert "does not apply: needs a reference sample" in text
    assert "Columns before and after" in text
    grid = RECIPE | {"mask": [RECIPE["mask"][0] | {"k": [4, 8, 500]}], "accept": {"singled_out": "drawn rows"}}
    trials = gpuanon.compare(table, [grid], rng=b"x" * 16)
    trials.report(tmp_path / "compare.html")
    text = Page((tmp_path / "compare.html").read_text()).text
    assert "The best release ★ recipe: k = 4" in text
    assert "the one with the highest marginals" in text
    assert "Refused recipe: k = 500" in text
    assert "k = 4" in text[text.index("The recipe of the best release") :]
    page = (tmp_path / "compare.html").read_text()
    assert page.count("<svg") == 1
    assert "<title>1. recipe: k = 4: singled_out" in page
    assert figures_in(page)["best"] == "recipe: k = 4"


def test_a_pickled_assessment_does_not_hold_the_tables(release):
    found = gpuanon.assess(registry(400), release.data, RECIPE, measures=("ks",))
    assert found.seen is not None
    assert copy.deepcopy(found).seen is None


def test_only_an_earlier_report_is_replaced(release, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("<html>somebody's page</html>")
    with pytest.raises(OutputError, match="exists"):
        release.report(path)
    with pytest.raises(OutputError, match="not written by gpuanon"):
        release.report(path, force=True)
    path.unlink()
    release.report(path)
    assert REPORT_MARK in path.read_text()[:200]
    release.report(path, force=True)


def test_a_report_without_its_packages_is_refused_with_a_hint(monkeypatch):
    from gpuanon import report

    monkeypatch.setattr(report, "find_spec", lambda name: None)
    with pytest.raises(GpuanonError, match=r"pip install 'gpuanon\[report\]'"):
        report.require()


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command line in a folder with a table and a recipe; gives the exit code and stderr."""
    pq.write_table(registry(200), tmp_path / "registry.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    monkeypatch.chdir(tmp_path)

    def go(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpuanon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, capsys.readouterr().err

    return go


def test_the_command_line_writes_reports(run, tmp_path):
    assert run("protect", "registry.parquet", "recipe.json", "-o", "release.parquet", "--report", "p.html")[0] == 0
    assert (
        run("protect", "registry.parquet", "recipe.json", "-o", "parts", "--workers", 0, "--report", "w.html")[0] == 0
    )
    told = ("assess", "registry.parquet", "release.parquet", "--recipe", "recipe.json", "--measures", "ks,means")
    assert run(*told, "--report", "a.html")[0] == 0
    assert run("compare", "registry.parquet", "recipe.json", "--report", "c.html")[0] == 0
    digest = json.loads((tmp_path / "release.parquet.manifest.json").read_text())["release"]["digest"]
    assert digest in (tmp_path / "p.html").read_text()
    assert digest in (tmp_path / "a.html").read_text()
    assert "Columns before and after" in (tmp_path / "w.html").read_text()
    assert REPORT_MARK in (tmp_path / "c.html").read_text()


def test_a_report_never_replaces_an_input(run, tmp_path):
    before = (tmp_path / "recipe.json").read_bytes()
    protect = ("protect", "registry.parquet", "recipe.json", "-o", "release.parquet", "--force")
    for command in (protect, ("compare", "registry.parquet", "recipe.json", "--force")):
        code, err = run(*command, "--report", "recipe.json")
        assert code == 2
        assert "is an input" in err
    assert (tmp_path / "recipe.json").read_bytes() == before
    assert not (tmp_path / "release.parquet").exists()


def test_a_long_label_keeps_what_tells_it_apart():
    from gpuanon.report.drawing import shortened

    formula = "hours_per_week ~ age + C(sex) + education_num"
    assert shortened(f"{formula} | age", 48) == "hours_per_week ~ age + C(sex) + education… | age"
    assert shortened(formula, 20) == "hours_per_week ~ ag…"
    assert len(shortened(f"{formula} | education_num", 48)) == 48
    assert shortened(f"{formula} | {formula}", 30) == formula[:29] + "…"
