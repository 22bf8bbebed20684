"""Direct identifiers by name and by content: columns of each HIPAA kind, and columns that only look like one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.proposing.content import content
from gpuanon.proposing.profiling import profiles
from gpuanon.proposing.words import SUBJECTS, subjects, tokens
from gpuanon.tables.table import Table
from tests.support.identifiers import HEADERS, LANGUAGES, MORE_HEADERS, QUASI, ROWS, SHOWN, columns, values

AGES = np.random.default_rng(3).integers(18, 90, ROWS)


def proposed(header, column):
    return gpuanon.propose(pa.table({header: column, "age": AGES})).findings.choices[0]


def found(kind, choice):
    if kind in QUASI:  # may be released masked
        return choice.role in ("quasi", "identifier", "dropped") and choice.hipaa == int(kind.split()[0])
    return choice.role in ("identifier", "person")


@pytest.mark.parametrize(
    ("headers", "repeated"),
    [
        pytest.param(HEADERS, False, id="unique"),
        pytest.param(HEADERS, True, id="repeated"),
        pytest.param(MORE_HEADERS, True, id="more headers", marks=pytest.mark.slow),
    ],
)
def test_at_least_95_per_cent_of_the_columns_of_each_kind_and_language_are_found(headers, repeated):
    """With values of their own, and with each value in four records, so that uniqueness gives nothing away."""
    hits, missed, tried = Counter(), [], 0
    for kind, language, header, column in columns(headers):
        choice = proposed(header, pa.concat_arrays([column.slice(0, ROWS // 4)] * 4) if repeated else column)
        tried += 1
        hits[kind, language] += found(kind, choice)
        missed += [] if found(kind, choice) else [(kind, header, choice.role)]
    assert len(hits) == 18 * len(LANGUAGES)
    assert sum(hits.values()) >= 0.95 * tried, missed


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", SHOWN)
def test_values_show_what_they_are_under_a_header_that_says_nothing(kind, language):
    choice = proposed("v27", values(kind, language, "v27", 1))
    assert (choice.role, choice.hipaa) == ("identifier", int(kind.split()[0]))
    assert choice.doubtful


@pytest.mark.parametrize(
    ("header", "column"),
    {
        "smartphone": np.arange(ROWS) % 2,
        "drug_name": ["aspirin", "ibuprofen", "codeine", "insulin"] * (ROWS // 4),
        "nombre_enfants": np.arange(ROWS) % 5,
        "account_balance": np.round(np.random.default_rng(0).normal(1000, 300, ROWS), 2),
        "site_id": np.arange(ROWS) % 7,
        "code_module": ["AAA", "BBB", "CCC", "DDD"] * (ROWS // 4),
        "cholesterol": np.round(np.random.default_rng(1).normal(200, 40, ROWS), 1),
        "steps": np.random.default_rng(2).integers(0, 30_000, ROWS),
        "image_quality": np.arange(ROWS) % 9,
    }.items(),
)
def test_columns_that_sound_like_an_identifier_and_are_none(header, column):
    assert proposed(header, pa.array(column)).role not in ("identifier", "person", "household")


def test_nothing_of_random_digits_passes_a_check_digit():
    rng = np.random.default_rng(5)
    table = pa.table({f"n{d}": rng.integers(10 ** (d - 1), 10**d, ROWS) for d in (8, 9, 10, 11, 13, 15, 16)})
    assert [content(profile) for profile in profiles(Table.of(table))] == [None] * 7


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dateNaissance_2", ("date", "naissance", "2")),
        ("Straße", ("strasse",)),
        ("SSNumber", ("ss", "number")),
        ("código postal", ("codigo", "postal")),
    ],
)
def test_names_are_split_into_plain_words(name, words):
    assert tokens(name) == words


def test_all_eighteen_kinds_have_words():
    assert {subject.hipaa for subject in SUBJECTS} >= set(range(1, 19))
    assert [subject.label for subject in subjects("Geschlecht")] == ["sex"]


def test_dates_that_are_text_are_no_telephone_numbers():
    choice = proposed("visit", values("3 dates", "en", "visit", 1))
    assert (choice.role, choice.hipaa) == ("dropped", 3)
    assert "convert the column" in choice.reason
