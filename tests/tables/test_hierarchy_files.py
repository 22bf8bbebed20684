"""Hierarchy files: what they say, every fault at once, and never a value in a message."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.errors import InputError
from gpuanon.tables.hierarchy import Hierarchy, value_texts

LINES = [["b1", "b", "*"], ["a1", "a", "*"], ["a2", "a", "*"], ["b2", "b", "*"]]


@pytest.fixture
def written(tmp_path):
    """A function that writes lines and reads them as the hierarchy of the column 'zip'."""

    def write(content, encoding="utf-8"):
        path = tmp_path / "zip.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return Hierarchy.read(path, "zip")

    return write


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_marks_and_line_ends_do_not_matter(written, separator, encoding, end):
    found = written(end.join(separator.join(row) for row in LINES) + end + end, encoding)
    assert found.paths == {row[0]: tuple(row[1:]) for row in LINES}
    assert found.depth == 2


def test_the_other_separator_may_stand_inside_cells(written):
    assert written("x, y, z;all\nw;all\n").paths == {"x, y, z": ("all",), "w": ("all",)}
    assert written('"x;y",all\nw,all\n').paths == {"x;y": ("all",), "w": ("all",)}


def test_codes_follow_the_first_value_below_a_node(written):
    hierarchy = written("\n".join(f"{age};{age // 5 * 5}-{age // 5 * 5 + 4};*" for age in range(100)))
    codes, labels = hierarchy.ancestors(pa.array([3, 4, 8, 9, 12, 99]))
    np.testing.assert_array_equal(codes, [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0], [4, 2, 0], [5, 3, 0]])
    assert [label.to_pylist() for label in labels] == [
        ["3", "4", "8", "9", "12", "99"],
        ["0-4", "5-9", "10-14", "95-99"],
        ["*"],
    ]


@given(st.lists(st.sampled_from(["a1", "a2", "b1", "b2", None]), max_size=8))
@example([])
@example([None])
def test_labels_of_the_codes_are_the_cells_of_the_file(values):
    hierarchy = Hierarchy("zip", "zip.csv", {row[0]: tuple(row[1:]) for row in LINES}, 2)
    levels = sorted(set(values) - {None}) + [None] * (None in values)
    codes, labels = hierarchy.ancestors(pa.array(levels, pa.string()))
    by_leaf = pd.DataFrame(LINES).set_index(0, drop=False)
    assert codes.shape == (len(levels), 3)
    for row, value in enumerate(levels):
        if value is None:
            assert (codes[row] == -1).all()
        else:
            assert [labels[d][codes[row, d]].as_py() for d in range(3)] == by_leaf.loc[value].tolist()
    assert all(len(label) == codes[:, d].max(initial=-1) + 1 for d, label in enumerate(labels)), "only what occurs"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([39, None], pa.int8()), ["39", None]),
        (pa.array([39.0, 0.1, -0.0, float("nan"), 1e20]), ["39.0", "0.1", "0.0", None, "1e+20"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([dt.date(2020, 1, 2)]), ["2020-01-02"]),
        (pa.array([dt.datetime(2020, 1, 2)], pa.timestamp("ns")), ["2020-01-02"]),
        (pa.array([dt.datetime(2020, 1, 2, 3, 4, 5)], pa.timestamp("s")), ["2020-01-02T03:04:05"]),
        (pa.array([dt.timedelta(seconds=5)], pa.duration("s")), ["5"]),
        (pa.array(["x", None]).dictionary_encode(), ["x", None]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_values_compare_as_text(values, texts):
    assert value_texts(values) == texts


def test_whole_floats_are_found_without_their_fraction(written):
    codes, labels = written("39;*\n40.5;*\n").ancestors(pa.array([39.0, 40.5]))
    assert labels[0].to_pylist() == ["39", "40.5"]
    np.testing.assert_array_equal(codes, [[0, 0], [1, 0]])


def test_values_that_are_no_leaves_are_counted_and_not_named(written):
    hierarchy = written("a1,*\na2,*\n")
    with pytest.raises(InputError, match="column 'zip': 2 of its 3 distinct values are not leaves of zip") as error:
        hierarchy.ancestors(pa.array(["SECRET", "a1", "SECRET2", None]))
    assert "SECRET" not in str(error.value)


def test_every_fault_is_named_at_once_and_no_value(written):
    content = "SECRET1,NODE,TOP\nSECRET2,NODE,OTHER\nSECRET1,NODE,TOP\n\nSECRET3,NODE\nSECRET4,,TOP\n"
    with pytest.raises(InputError) as error:
        written(content)
    text = str(error.value)
    assert "not 3 cells as in the first line: line 5" in text
    assert "an empty cell beside the leaf: line 6" in text
    assert "a leaf for the second time: line 3" in text
    assert "a second parent for a node of level 1: line 2" in text
    assert not any(value in text for value in ("SECRET", "NODE", "TOP", "OTHER"))


def test_many_lines_are_counted(written):
    with pytest.raises(InputError, match="a leaf for the second time: lines 2, 3, 4, 5, 6 and 4 more"):
        written("a,*\n" * 10)


@pytest.mark.parametrize(
    ("content", "fault"),
    [("", "empty"), ("\n\n", "empty"), ("a\nb\n", "no level"), (b"\xff\xfe,\n", "UTF-8")],
)
def test_what_is_no_hierarchy_is_refused(written, content, fault):
    with pytest.raises(InputError, match=f"column 'zip': hierarchy zip.csv: .*{fault}"):
        written(content)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"column 'zip': hierarchy gone\.csv: cannot be read"):
        Hierarchy.read(tmp_path / "gone.csv", "zip")


@pytest.mark.data
def test_published_hierarchies_can_be_read(data_folder):
    depths = {
        path.stem: Hierarchy.read(path, path.stem).depth for path in (data_folder / "adult/hierarchies").glob("*.csv")
    }
    assert depths["adult_hierarchy_age"] == 4
    assert depths["adult_hierarchy_education"] == 3
    assert len(depths) == 9
