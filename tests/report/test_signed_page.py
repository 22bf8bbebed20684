"""The page that a person signs: the verdict of the run, what became of every column, and by what it is recognised."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.assessing.column_pictures import Bars, Histogram, Pictures
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import Measurements
from gpuanon.engine.protect import protect_file
from gpuanon.report.columns import column_rows, left_unmasked, moved_in, worst_of
from gpuanon.report.contents import Contents
from gpuanon.report.page import report_html
from gpuanon.report.verdict import verdict_of
from tests.support.every import registry
from tests.support.report_pages import COLUMNS, RECIPE, Page

KEY = b"a key of sixteen bytes or more"
SAFE = {name: {"role": "quasi"} for name in ("age", "sex")}
ACCEPT = {"singled_out": "a test", "copies": "a test"}
RECIPES = {
    "good": {**RECIPE, "columns": SAFE, "mask": [{"method": "microaggregation", "k": 6}], "limits": {}},
    "open": {**RECIPE, "columns": SAFE, "mask": [{"method": "rank-swap"}], "limits": {}, "accept": ACCEPT},
    "bad": RECIPE,
}


@pytest.fixture(scope="module")
def releases():
    return {state: gpuanon.protect(registry(400), recipe, rng=KEY) for state, recipe in RECIPES.items()}


@pytest.mark.parametrize("state", ["good", "open", "bad"])
def test_the_verdict_is_that_of_the_manifest_and_stands_first(releases, state):
    manifest = releases[state].manifest
    assert manifest["verdict"]["state"] == state
    found = verdict_of(Contents("Release", manifest))
    assert found.state == state
    assert [check.how for check in found.reasons] == manifest["verdict"]["reasons"]
    page = report_html(Contents("Release", manifest))
    assert page.index(f'class="verdict {state}"') < page.index('class="cards"') < page.index('id="about"')
    text = Page(page).text.lower()
    assert all(" ".join(reason.lower().split()) in text for reason in manifest["verdict"]["reasons"])


def test_figures_of_the_report_do_not_turn_the_verdict_but_are_named(releases):
    manifest = releases["good"].manifest
    one_value = Measured(1, parts=(By("column", {"diagnosis": 1}, "smallest"),))
    found = verdict_of(Contents("Release", manifest, Measurements({"l_diversity": one_value}, {})))
    assert found.state == "good"
    assert "everybody in some class has the same value of diagnosis" in found.reason


def test_an_accepted_point_is_marked_and_its_reason_printed():
    accepted = RECIPE | {"accept": {"singled_out": "recipients sign <a contract>", "warnings": "cost is public"}}
    release = gpuanon.protect(registry(400), accepted, rng=KEY)
    assert release.manifest["verdict"]["state"] == "good"
    found = verdict_of(Contents("Release", release.manifest))
    assert {check.accepted for check in found.reasons} == {None, "recipients sign <a contract>", "cost is public"}
    page = report_html(Contents("Release", release.manifest))
    assert "Accepted by the recipe: recipients sign &lt;a contract&gt;" in page
    assert found.headline == "May go out by its recipe, which accepts 2 points"


def test_the_headline_of_utility_is_the_worst_masked_column(releases):
    """A median over columns that were not touched says nothing of the one that was destroyed."""
    manifest = releases["bad"].manifest
    shifts = {"age": 0.4, "sex": 0.01, "income": 0.2, "admission": None, "cost": 0.9}
    figure = Measured(0.0026, parts=(By("column", shifts),))
    joint = Measured(0.5, parts=(By("column", {"age": 0.9, "sex": 0.95}, "smallest"),))
    figures = Measurements({"means": figure, "histogram_intersection": joint}, {})
    page = report_html(Contents("Release", manifest, figures))
    row = re.search(r"<tr><th[^>]*>Shift of a typical average.*?</tr>", page, re.S).group(0)
    assert re.search(r'data-v="0.4">0\.4.*age', row, re.S)  # cost is worse, and no mask changed it
    assert "Over all columns 0.0026" in row
    row = re.search(r"<tr><th[^>]*>What the two distributions.*?</tr>", page, re.S).group(0)
    assert 'data-v="0.5"' in row  # all columns together are worse than each of them


def test_how_far_a_column_moved_is_the_total_variation():
    levels = Bars("state", ("married", "single", "other levels"), (0.539, 0.3, 0.161), (0.444, 0.35, 0.206))
    found = moved_in(levels)
    assert found.share == pytest.approx(0.095)
    assert (found.where, found.before, found.after) == ("married", 0.539, 0.444)
    days = Histogram("day", (365.0, 730.0), (0.2, 0.5, 0.3), (0.2, 0.2, 0.6), None, dates=True)
    assert moved_in(days).where in ("1971-01-01 to 1972-01-01", "from 1972-01-01")
    assert moved_in(days).share == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("after", "said"), [((0.5, 0.5), "no masked column has another"), ((0.4, 0.6), "of age, the mask")]
)
def test_the_tile_of_utility_names_the_column_or_says_that_none_moved(releases, after, said):
    drawn = Pictures({"age": (Bars("age", ("a", "b"), (0.5, 0.5), after),)}, (), {}, 5, "record")
    text = Page(report_html(Contents("Release", releases["bad"].manifest, pictures=drawn))).text
    assert said in text.replace(" ,", ",")


def test_every_column_has_a_row_the_worst_first(releases):
    manifest = releases["bad"].manifest
    drawn = {
        "age": (Bars("age", ("a", "b"), (0.5, 0.5), (0.4, 0.6)),),
        "sex": (Bars("sex", ("f", "m"), (0.5, 0.5), (0.2, 0.8)),),
        "cost": (Bars("cost", ("x",), (1.0,), (1.0,)),),
    }
    rows = column_rows(manifest, Pictures(drawn, (), {}, 5, "record"), None, None)
    assert {row.name for row in rows} == set(manifest["columns"])
    assert [row.name for row in rows[:2]] == ["sex", "age"]
    assert worst_of(rows).name == "sex"
    fates = {row.name: row.fate for row in rows}
    assert fates["cost"] == "kept"
    assert set(fates.values()) == {"masked", "kept", "dropped"}
    assert [row.fate for row in rows] == sorted(fates.values(), key=["masked", "kept", "dropped"].index)


def test_whom_the_unmasked_columns_single_out_is_a_count_by_pandas():
    rng = np.random.default_rng(3)
    n = 300
    frame = {name: rng.integers(0, levels, n) for name, levels in (("a", 40), ("b", 12), ("c", 3), ("age", 60))}
    columns = {**{name: {"role": "other"} for name in "abc"}, "age": {"role": "quasi"}}
    release = gpuanon.protect(
        pa.table(frame), {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}, rng=KEY
    )
    contents = release._contents(release.manifest)
    found = left_unmasked(release.manifest, contents.figures.seen)
    data = release.data.to_pandas()
    alone = np.zeros(n, dtype=bool)
    for names in (["a"], ["b"], ["c"], ["a", "b"], ["a", "c"], ["b", "c"], ["a", "b", "c"]):
        alone |= data.groupby(names)["age"].transform("size").to_numpy() == 1
    assert (found.names, found.released) == (("a", "b", "c"), 4)
    assert found.alone == pytest.approx(alone.mean())
    assert found.by_name["a"] == pytest.approx((data.groupby("a")["age"].transform("size") == 1).mean())
    assert found.state == "bad"
    text = Page(report_html(contents)).text
    assert "3 of 4 columns left unmasked" in text
    assert f"{alone.mean():.1%} of the people are alone on three of them or fewer" in text


def test_nobody_counted_is_not_called_safe(releases):
    left = left_unmasked(releases["bad"].manifest, None)
    assert (left.names, left.alone, left.state) == (("cost",), None, "open")
    assert left_unmasked(releases["good"].manifest, None).state == "good"


def test_many_warnings_are_told_once_and_the_rest_counted(releases):
    manifest = copy.deepcopy(releases["bad"].manifest)
    points = manifest["verdict"]["points"]
    points += [{"name": "warnings", "state": "open", "text": f"warning number {number}"} for number in range(40)]
    page = report_html(Contents("Release", manifest))
    before = page[: page.index("more warnings</summary>")]
    assert "Warning number 0" in before
    assert "Warning number 9" not in before
    assert all(f"Warning number {number}" in page for number in range(40))


def test_tables_have_headings_and_drawings_a_text(releases):
    page = report_html(releases["bad"]._contents(releases["bad"].manifest))
    for table in re.findall(r"<table.*?</table>", page, re.S):
        assert "<th scope=" in table
    assert all("aria-label" in tag for tag in re.findall(r"<svg[^>]*>", page))
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_each_figure_stands_with_its_label_and_what_is_usual(releases):
    found = releases["bad"]._contents(releases["bad"].manifest)
    page = report_html(found)
    assert '<th scope="col">usual</th>' in page
    rows = re.findall(
        r'<tr><th scope="row">([^<]*) <code>([^<]*(?:<wbr>[^<]*)*)</code></th>\s*<td class="n".*?</td>\s*<td>(.*?)<',
        page,
        re.S,
    )
    names = {name.replace("<wbr>", "") for _, name, _ in rows}
    assert names == set(found.figures.measured)
    assert all(label and usual.strip() for label, _, usual in rows)


def test_every_measure_says_what_is_usual():
    assert [measure.name for measure in MEASURES.values() if not 1 <= len(measure.usual) <= 100] == []


def test_the_columns_of_the_recipe_are_the_columns_of_the_page(releases):
    text = Page(report_html(Contents("Release", releases["bad"].manifest))).text
    assert "Every column" in text
    assert all(name in text for name in COLUMNS)


@pytest.fixture
def written(tmp_path):
    """A run from files: the folder, with a report."""
    pq.write_table(registry(200), tmp_path / "registry.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps({**RECIPES["good"], "purpose": "a study of <sleep>"}))
    protect_file(
        tmp_path / "registry.parquet", tmp_path / "recipe.json", tmp_path / "release.parquet",
        report=tmp_path / "page.html",
    )  # fmt: skip
    return tmp_path


def test_the_page_has_the_digests_and_what_travels_with_the_release_has_not_that_of_the_input(written):
    """By a digest of the input somebody who knows nearly all of it could check a guess."""
    digests = {
        name: hashlib.blake2b((written / name).read_bytes(), digest_size=32).hexdigest()
        for name in ("registry.parquet", "recipe.json", "release.parquet")
    }
    page = (written / "page.html").read_text()
    header = page[page.index('id="about"') : page.index('id="columns"')]
    for name, digest in digests.items():
        assert name in header
        assert digest in header
    manifest = (written / "release.parquet.manifest.json").read_text()
    figures = (written / "page.figures.json").read_text()
    embedded = page[page.index('id="figures"') :]
    for text in (manifest, figures, embedded):
        assert digests["registry.parquet"] not in text
        assert "registry.parquet" not in text
    assert digests["release.parquet"] in manifest
    assert page.count(digests["registry.parquet"]) == 1
    assert "This digest stands on this page only" in page


def test_the_header_has_purpose_unit_k_version_date_and_lines_to_sign(written):
    text = Page((written / "page.html").read_text()).text
    manifest = json.loads((written / "release.parquet.manifest.json").read_text())
    assert manifest["purpose"] == "a study of <sleep>"
    assert "a study of <sleep>" in text
    assert "records are counted; k = 6 is promised, the smallest class has" in text
    assert f"{manifest['created'][:10]} {manifest['created'][11:16]} UTC by gpuanon {gpuanon.__version__}" in text
    assert "☐ may go out ☐ may not go out Name Date Signature" in text


def test_an_assessment_of_files_names_them(written):
    found = gpuanon.assess(
        written / "registry.parquet", written / "release.parquet", written / "recipe.json", measures=["ks", "means"]
    )
    found.report(written / "assessment.html")
    text = Page((written / "assessment.html").read_text()).text
    assert hashlib.blake2b((written / "registry.parquet").read_bytes(), digest_size=32).hexdigest() in text
    assert "Signature" in text
    assert found.manifest["verdict"]["state"] == "good"
    assert "✓ May go out by its recipe" in text


def test_the_terminal_says_the_same_in_eighty_columns(written):
    from rich.console import Console

    from gpuanon.cli import printing

    result = protect_file(written / "registry.parquet", written / "recipe.json", written / "again.parquet")
    console = Console(width=80, record=True, file=io.StringIO())
    printing.print_release(result, console)
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    said = " ".join(shown.split())
    assert "verdict ✓ May go out by its recipe" in said
    assert "left unmasked 0 of 2 columns" in said
    for check in verdict_of(Contents("Release", result | {"limits": {}})).reasons:
        if check.name != "promise":
            assert f"✓ {check.what}: {check.how}." in said


def test_pairs_of_columns_that_tell_people_apart_are_named_three_times_and_counted():
    rng = np.random.default_rng(0)
    table = pa.table({f"c{number}": rng.integers(0, 30, 200) for number in range(12)})
    columns = {name: {"role": "other"} for name in table.column_names} | {"c0": {"role": "quasi"}}
    found = gpuanon.protect(table, {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}, rng=KEY)
    warnings = found.manifest["warnings"]
    assert len([one for one in warnings if "pair of values of their own" in one]) == 3
    assert warnings[-1] == "52 further pairs of unmasked columns tell most of the rows apart"  # of 55


def test_a_warning_about_the_recipe_alone_leaves_no_verdict_open(tmp_path):
    (tmp_path / "sex.csv").write_text("leaf,all\nfemale,*\nmale,*\n")
    recipe = copy.deepcopy(RECIPES["good"])
    recipe["columns"]["sex"] = {"role": "quasi", "hierarchy": str(tmp_path / "sex.csv")}
    manifest = gpuanon.protect(registry(400), recipe, rng=KEY).manifest
    assert any("no mask uses its hierarchy" in warning for warning in manifest["warnings"])
    assert manifest["verdict"]["state"] == "good"
    assert "note" in {check.what for check in verdict_of(Contents("Release", manifest)).reasons}
