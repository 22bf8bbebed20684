"""The tables of the study of synthetic rows: OULAD's students, and generated students of online courses.

The generated table has the proportions that Fried and Vamvourellis report: six quasi-identifiers, four of them with
nulls, most students without a forum post, 89 % of the grades zero and the others in two peaks.  What is not a
quasi-identifier is drawn from a distribution that depends on the quasi-identifiers as they are released, so that an
oracle can draw from it again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

Frame = pd.DataFrame
QUASI = ("course", "education", "birth", "gender", "country", "posts")
OTHERS = ("grade", "days", "certified", "mode")

COURSES = 220
MODES = ("audit", "honor", "verified")
_COURSE = np.random.default_rng(20140915)
_LEVEL = _COURSE.normal(0, 0.9, COURSES)  # how many students of a course earn a grade at all
_POSTS = _COURSE.normal(0, 0.25, COURSES)  # how much a forum post says about that
_HARD = _COURSE.normal(0, 0.8, COURSES)  # how many of those complete it
_EDUCATION = np.array([-0.5, -0.1, 0.2, 0.5, -0.3])  # the last for null
_GENDER = np.array([0.1, 0.0, -0.4])

COLUMNS: dict[str, dict[str, Any]] = {
    "course": {"role": "quasi", "kind": "categorical"},
    "education": {"role": "quasi", "kind": "categorical"},
    "birth": {"role": "quasi"},
    "gender": {"role": "quasi", "kind": "categorical"},
    "country": {"role": "quasi", "kind": "categorical"},
    "posts": {"role": "quasi"},
    "grade": {"role": "sensitive"},
    "days": {"role": "sensitive"},
    "certified": {"role": "sensitive"},
    "mode": {"role": "sensitive"},
}


def courses(rows: int, seed: int = 1) -> pa.Table:
    """Students of `rows` courses, made from `seed`."""
    rng = np.random.default_rng(seed)
    known = _known(rng, rows)
    return _typed(known | _outcomes(rng, known))


def oracle(table: pa.Table, seed: int) -> pa.Table:
    """The table with everything but the quasi-identifiers drawn anew from the distribution that it came from."""
    rng = np.random.default_rng(seed)
    known = {
        "course": np.char.lstrip(_text(table, "course").astype(str), "C").astype(int),
        "education": _codes(table, "education", 4),
        "birth": _numbers(table, "birth"),
        "gender": _codes(table, "gender", 2),
        "country": _codes(table, "country", 2),
        "posts": _numbers(table, "posts"),
    }
    return _typed(known | _outcomes(rng, known))


def _known(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """The quasi-identifiers; codes at the end of their range stand for null."""
    sizes = 1 / np.arange(1, COURSES + 1) ** 0.8
    course = rng.choice(COURSES, n, p=sizes / sizes.sum())
    education = rng.choice(5, n, p=[0.24, 0.34, 0.28, 0.08, 0.06])
    birth = np.clip(np.round(2014 - 16 - rng.gamma(2.2, 6.5, n)), 1930, 2000)
    birth = np.where(rng.random(n) < 0.07, np.nan, birth)
    gender = rng.choice(3, n, p=[0.56, 0.37, 0.07])
    country = rng.choice(3, n, p=[0.32, 0.66, 0.02])
    active = rng.random(n) < _logistic(-2.9 + 0.25 * _LEVEL[course] + 0.3 * (education == 2))
    posts = np.where(active, np.ceil(rng.lognormal(0.6, 0.9, n)), 0.0)
    return {
        "course": course, "education": education, "birth": birth, "gender": gender, "country": country,
        "posts": np.minimum(posts, 60),
    }  # fmt: skip


def _outcomes(rng: np.random.Generator, known: dict[str, Any]) -> dict[str, Any]:
    """Grade, days of activity, certificate and mode of enrolment."""
    course, posts = known["course"], np.log1p(known["posts"])
    n = len(course)
    age = np.where(np.isnan(known["birth"]), 28.0, 2014 - known["birth"])
    older = np.clip((age - 30) / 10, -1.4, 3.0)
    mode = np.where(rng.random(n) < _logistic(-3.2 + 0.9 * posts + 0.3 * (known["country"] == 0)), 2, 0)
    mode = np.where((mode == 0) & (rng.random(n) < _logistic(_HARD[course])), 1, mode)
    score = -2.7 + _LEVEL[course] + (1.35 + _POSTS[course]) * posts + _EDUCATION[known["education"]]
    score += 0.12 * older - 0.08 * older**2 + 0.25 * (known["country"] == 0) + 1.2 * (mode == 2)
    earned = rng.random(n) < _logistic(score + _GENDER[known["gender"]])
    completes = rng.random(n) < _logistic(-0.9 + 0.5 * _HARD[course] + 0.6 * posts + 0.5 * (mode == 2))
    high, low = rng.beta(9, 2, n), rng.beta(1.1, 7, n)
    grade = np.where(earned, np.clip(np.round(np.where(completes, high, low), 2), 0.01, 1.0), 0.0)
    days = rng.poisson(np.exp(0.6 + 0.5 * posts + 2.2 * grade + 0.3 * earned) * rng.gamma(2, 0.5, n))
    days = np.where(rng.random(n) < 0.03, np.nan, days)
    certified = (grade >= 0.6) & (rng.random(n) < np.where(mode == 2, 0.97, 0.75))
    return {"grade": grade, "days": days, "certified": certified, "mode": mode}


def _typed(columns: dict[str, Any]) -> pa.Table:
    """The columns in the types of a table."""
    text = lambda codes, names: pa.array(np.append(names, "").astype(object)[codes], mask=codes == len(names))  # noqa: E731
    birth, days = columns["birth"], columns["days"]
    return pa.table(
        {
            "course": pa.array(np.array([f"C{number:03d}" for number in range(COURSES)], object)[columns["course"]]),
            "education": text(columns["education"], ["school", "bachelor", "master", "doctorate"]),
            "birth": pa.array(np.nan_to_num(birth).astype(np.int16), mask=np.isnan(birth)),
            "gender": text(columns["gender"], ["m", "f"]),
            "country": text(columns["country"], ["US", "other"]),
            "posts": pa.array(columns["posts"].astype(np.int32)),
            "grade": pa.array(columns["grade"]),
            "days": pa.array(np.nan_to_num(days).astype(np.int32), mask=np.isnan(days)),
            "certified": pa.array(columns["certified"]),
            "mode": pa.array(np.array(MODES, object)[columns["mode"]]),
        }
    )


_NAMES = {"education": ["school", "bachelor", "master", "doctorate"], "gender": ["m", "f"], "country": ["US", "other"]}


def _codes(table: pa.Table, name: str, null: int) -> Any:
    """Codes of a column, `null` for a null."""
    return (
        pd.Series(_text(table, name))
        .map({level: at for at, level in enumerate(_NAMES[name])})
        .fillna(null)
        .astype(int)
        .to_numpy()
    )


def _text(table: pa.Table, name: str) -> Any:
    return table[name].to_pandas().to_numpy()


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].to_pandas().to_numpy().astype(float)


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


OULAD_QUASI = ("code_module", "gender", "region", "highest_education", "imd_band", "age_band")
OULAD_COLUMNS: dict[str, dict[str, Any]] = {
    "id_student": {"role": "identifier"},
    **{name: {"role": "quasi", "kind": "categorical"} for name in OULAD_QUASI},
    "code_presentation": {"role": "sensitive", "kind": "categorical"},
    "num_of_prev_attempts": {"role": "sensitive"},
    "studied_credits": {"role": "sensitive"},
    "disability": {"role": "sensitive", "kind": "categorical"},
    "final_result": {"role": "sensitive", "kind": "categorical"},
    "passed": {"role": "sensitive"},
}


def oulad() -> pa.Table:
    """Students of the Open University, with a column `passed` (1: passed or distinction); needs GPUANON_DATA."""
    frame = pd.read_csv(Path(os.environ["GPUANON_DATA"]) / "oulad" / "oulad_student_info.csv")
    frame = frame.assign(passed=frame.final_result.isin(["Pass", "Distinction"]).astype(np.int8))
    return pa.Table.from_pandas(frame, preserve_index=False)
