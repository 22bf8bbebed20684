"""A real browser opens the report and the comparison.

Set GPUANON_SCREENSHOTS to a folder to keep what it saw (`make screenshots` renews those of the README).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import gpuanon
from gpuanon.report.contents import compared
from gpuanon.tables.registry import make_registry
from tests.support import browser as support

REASON = support.install()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=REASON or "")]

COLUMNS = {
    "age": {"role": "quasi"},
    "sex": {"role": "quasi"},
    "region": {"role": "quasi"},
    "income": {"role": "quasi", "transform": "log1p"},
    "admission": {"role": "quasi"},
    "cost": {"role": "sensitive", "transform": "log1p"},
}
RECIPE = {
    "others": "drop",
    "columns": COLUMNS,
    "mask": [{"method": "microaggregation", "k": 6, "columns": ["age", "sex", "region", "income", "admission"]}],
    "limits": {"reidentification": 0.3},
    "analysis": [{"formula": "cost ~ age + C(sex)", "family": "two-part"}],
}
KEY = b"a key of sixteen bytes or more"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    table = make_registry(3000)
    release = gpuanon.protect(table, RECIPE, rng=KEY, reference=make_registry(6000).slice(3000))
    release.report(folder / "report.html")
    gpuanon.assess(table, release.data, RECIPE, link=release.link).report(folder / "assessment.html")
    grid = {
        **RECIPE,
        "mask": [{"method": "microaggregation", "k": [3, 5, 10, 20]}],
        "limits": {"reidentification": 0.25},
    }
    plain = {**RECIPE, "mask": [{"method": "svd-swap"}], "limits": {}}
    trials = gpuanon.compare(make_registry(1500), [grid, plain], rng=KEY)
    trials.report(folder / "comparison.html")
    assert compared(trials).trials is trials
    return folder


@pytest.fixture(scope="module")
def browser():
    found = support.Browser()
    yield found
    found.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("page", ["report", "comparison"])
def test_the_page_is_right_at_every_width_and_in_both_schemes(pages, browser, page, width, scheme):
    browser.open(pages / f"{page}.html", width, scheme)
    assert browser.complaints == []
    assert browser.faults == []
    if os.environ.get("GPUANON_SCREENSHOTS"):
        browser.screenshot(Path(os.environ["GPUANON_SCREENSHOTS"]) / f"{page}-{width}-{scheme}.png", 2600)


@pytest.mark.parametrize("page", ["report", "assessment", "comparison"])
def test_nothing_is_wider_than_the_paper(pages, browser, page):
    browser.open(pages / f"{page}.html", 720, printed=True)  # A4 within margins
    assert browser.faults == []


def test_the_page_prints(pages, browser, tmp_path):
    browser.open(pages / "report.html", 1000, printed=True)
    assert browser.faults == []
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000


def test_a_click_sorts_a_table_and_a_second_turns_it_round(pages, browser):
    browser.open(pages / "comparison.html", 1400)
    column = "[...document.querySelector('table.sortable').tBodies[0].rows].map((row) => row.cells[2].dataset.v)"
    click = "document.querySelector('table.sortable').tHead.rows[0].cells[2].querySelector('button').click()"
    browser.run(click)
    up = [float(value) for value in browser.run(column) if value]
    browser.run(click)
    down = [float(value) for value in browser.run(column) if value]
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert len(up) > 2
    assert browser.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"


def test_the_figures_can_be_saved(pages, browser):
    browser.open(pages / "report.html", 1400)
    browser.run(
        "window.kept = null; const make = URL.createObjectURL; "
        "URL.createObjectURL = (blob) => { window.kept = blob; return make(blob); }; "
        "document.getElementById('save').click()"
    )
    saved = json.loads(browser.run("window.kept.text()"))
    assert saved == json.loads((pages / "report.figures.json").read_text())
    assert browser.complaints == []


def test_pointing_at_a_release_shows_its_recipe(pages, browser):
    browser.open(pages / "comparison.html", 1400)
    titles = browser.run("[...document.querySelectorAll('.map [tabindex] > title')].map((title) => title.textContent)")
    assert len(titles) >= 4
    assert any("k = 10" in title and "singled_out" in title for title in titles)


def test_without_scripts_everything_but_sorting_is_there(pages, browser):
    browser.page("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "report.html", 1400)
    finally:
        browser.page("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelectorAll('svg').length") > 8
    assert browser.run("document.getElementById('save').hidden") is True
