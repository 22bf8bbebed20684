"""Random tables and recipes, and what must hold whatever they are: for the suite and for ``make fuzz``."""

from __future__ import annotations

import csv as text_csv
import datetime as dt
import gzip
import json
import sys
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.orc
import pyarrow.parquet as pq

from gpuanon.arrays.rng import Key
from gpuanon.engine.identity import read_link
from gpuanon.engine.outputs import manifest_path
from gpuanon.engine.protect import protect, protect_file, protect_in_parts
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.values import plain
from tests.support.every import MASKS

KEY = b"a key for random tables, of sixteen bytes"
HIDDEN = "LEVEL-THAT-NOBODY-HAS"
FORMATS = (
    "release.parquet", "release.csv", "release.csv.gz", "release.arrow", "release", "release.orc", "release.dta",
    "release.sav",
)  # fmt: skip
PARTS = (
    {"use": "whole"},
    {"use": "classes"},
    {"use": "mdav", "k": 3},
    {"use": "k-member", "k": 2},
    {"use": "median-cuts", "k": 2},
)
OPERATIONS = ("centroid", "permute", "resample", "swap", "noise", "interval", "dither")


def run_case(seed: int, folder: Path) -> str:
    """Mask one random table by one random recipe and check what was written; what became of it, for the count."""
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    recipe = random_recipe(rng, table)
    road = str(rng.choice(["memory", "parts", "csv", "csv in parts"], p=[0.5, 0.15, 0.2, 0.15]))
    shares = [0.1, 0.4, 0.2, 0.05, 0.1, 0.05, 0.05, 0.05] if road.startswith("csv") else [0.125] * 8
    output = folder / str(rng.choice(FORMATS, p=shares))
    try:
        manifest, link = _masked(road, table, recipe, output, folder)
    except GpuanonError as error:
        refused = type(error).__name__
    else:
        check_release(table, recipe, link, manifest, output)
        check_values(table, recipe, link, manifest, output, exact=not road.startswith("csv"))
        if road.startswith("csv") and output.suffix in (".csv", ".gz"):
            check_texts(folder / "input.csv", recipe, link, output)
        return "released"
    assert not output.exists()
    assert not [path for path in folder.iterdir() if not path.name.startswith("input")]
    return refused


def _masked(
    road: str, table: pa.Table, recipe: dict[str, Any], output: Path, folder: Path
) -> tuple[dict[str, Any], np.ndarray]:
    """Manifest and link of a release that was made in memory or in parts, from a dataframe or from a file."""
    if road == "memory":
        release = protect(table, recipe, rng=KEY, backend="numpy")
        return release.write(output), release.link
    if road == "parts":
        source = folder / "input.parquet"
        pq.write_table(table, source, row_group_size=20)
    else:
        source = folder / "input.csv"
        csv.write_csv(pa.table([plain(column) for column in table.columns], names=table.column_names), source)
    link = folder / "input-link.csv"
    if road == "csv":
        (folder / "input.json").write_text(json.dumps(recipe))
        (folder / "input-key").write_bytes(KEY)
        options = {"key_file": folder / "input-key", "link": link, "backend": "numpy"}
        protect_file(source, folder / "input.json", output, **options)
        manifest = json.loads(manifest_path(output).read_text())
    else:
        manifest = protect_in_parts(
            source, Recipe.load(recipe), output, key=Key(KEY), backend="numpy", cell_rows=30, link=link
        )
    return manifest, read_link(link)


def random_table(rng: np.random.Generator) -> pa.Table:
    """A few rows of columns of random types, with nulls, ties, constants, signed zeros and tiny beside huge values."""
    rows = int(rng.choice([0, 1, 2, 5, 12, 40, 90], p=[0.03, 0.05, 0.05, 0.12, 0.25, 0.3, 0.2]))
    columns = {"pid": pa.array([f"ID-{rng.integers(16**12):012x}" for _ in range(rows)], pa.string())}
    if rng.random() < 0.2:
        people = [f"WHO-{rng.integers(16**12):012x}" for _ in range(max(1, rows // 2))]
        columns["who"] = pa.array([people[i] for i in rng.integers(len(people), size=rows)], pa.string())
    for number in range(int(rng.integers(1, 6))):
        values = _values(rng, rows)
        gaps = rng.random(rows) < rng.choice([0.0, 0.0, 0.2, 1.0], p=[0.5, 0.2, 0.25, 0.05])
        columns[f"c{number}"] = pa.array([None if gap else v for v, gap in zip(values, gaps, strict=True)])
    for name in list(columns):
        if name.startswith("c") and rng.random() < 0.3 and pa.types.is_string(columns[name].type):
            encoded = columns[name].dictionary_encode()
            levels = pa.concat_arrays([encoded.dictionary, pa.array([HIDDEN])])
            columns[name] = pa.DictionaryArray.from_arrays(encoded.indices, levels)
    return pa.table({name: _cast(rng, column) for name, column in columns.items()})


def _cast(rng: np.random.Generator, column: pa.Array) -> pa.Array:
    """The same values in another type now and then, where it holds them."""
    narrow = {
        "int64": ["int8", "int16", "int32", "uint64", "float32"], "double": ["float32"], "string": ["large_string"],
        "date32[day]": ["date64"], "timestamp[us]": ["timestamp[s]", "timestamp[ns]"],
    }.get(str(column.type), [])  # fmt: skip
    if not narrow or rng.random() < 0.6:
        return column
    to = str(rng.choice(narrow))
    try:
        return column.cast(pa.timestamp(to[10:-1]) if to.startswith("timestamp") else to)
    except pa.ArrowInvalid:
        return column


def _values(rng: np.random.Generator, rows: int) -> list[Any]:
    """Values of one random kind."""
    kind = int(rng.integers(16))
    whole = rng.integers(0, rng.choice([1, 2, 4, 30, 10**6]) + 1, rows).tolist()
    if kind == 0:
        return whole
    if kind == 1:
        return rng.choice([0.0, -0.0, 1 / 3, 2000.0, 1e-16], rows).tolist()
    if kind == 2:
        return (rng.normal(size=rows) * 10.0 ** rng.integers(-3, 12)).tolist()
    if kind == 3:
        return np.round(rng.normal(50, 20, rows), 1).tolist()
    if kind == 4:
        return [["a", "b b", "ü", "", "NA", "x,y", 'q"q'][v % 7] for v in whole]
    if kind == 5:
        return [bool(v % 2) for v in whole]
    if kind == 6:
        return [dt.date(2000, 1, 1) + dt.timedelta(days=v % 900) for v in whole]
    if kind == 7:
        return [dt.datetime(2000, 1, 1) + dt.timedelta(minutes=v % 5000) for v in whole]
    if kind == 8:
        return [f"{v % 50:03d}" for v in whole]
    if kind == 9:
        return [Decimal(v).scaleb(-2) for v in whole]
    if kind == 10:
        return [dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=v % 5000) for v in whole]
    if kind == 11:
        return [v + 2**60 for v in whole]
    if kind == 12:
        return [f"{v % 50}.50" for v in whole]
    if kind == 13:
        return [dt.time(v % 24, v % 60) for v in whole]
    if kind == 14:
        return [dt.timedelta(seconds=v % 500) for v in whole]
    return [[b"a", b"\x01", b"zz"][v % 3] for v in whole]


def random_recipe(rng: np.random.Generator, table: pa.Table) -> dict[str, Any]:
    """A recipe for the table, now and then with a mistake in it."""
    names = [name for name in table.column_names if name.startswith("c")]
    roles = {name: str(rng.choice(["quasi", "quasi", "sensitive", "other"])) for name in names}
    if rng.random() < 0.9:
        roles[names[0]] = "quasi"
    columns: dict[str, Any] = {"pid": {"role": "identifier"}}
    if "who" in table.column_names:
        columns["who"] = {"role": "person"} | ({"release": "pseudonym"} if rng.random() < 0.3 else {})
    for name, role in roles.items():
        columns[name] = {"role": role}
        if rng.random() < 0.1:
            columns[name]["kind"] = str(rng.choice(["numeric", "ordinal", "categorical", "date"]))
        if rng.random() < 0.05:
            columns[name]["transform"] = str(rng.choice(["log", "log1p", "normal-scores"]))
    masks = [_random_mask(rng, names) for _ in range(int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])))]
    if all(isinstance(mask.get("columns"), list) for mask in masks):
        masked = {name for mask in masks for name in mask["columns"]}
        columns = {
            name: spec | {"keep": True} if spec["role"] == "quasi" and name not in masked else spec
            for name, spec in columns.items()
        }
    by_class = all(mask.get("method") in ("suppress", "synthetic-rows", "recode") for mask in masks)
    wildcard = 0.3 if by_class else 0.02
    shares = [0.6 - wildcard, 0.3, 0.1, wildcard]
    nulls = str(rng.choice(["indicator", "category", "refuse", "wildcard"], p=shares))
    others = str(rng.choice(["refuse", "keep", "drop"]))
    if rng.random() < 0.1 and len(names) > 1:
        columns.pop(names[-1])
    return {"columns": columns, "nulls": nulls, "others": others, "mask": masks}


def _random_mask(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    """A published method, or any groups × basis × operation."""
    if rng.random() < 0.7:
        mask = dict(MASKS[list(MASKS)[int(rng.integers(len(MASKS)))]])
        if "levels" in mask:
            mask["levels"] = 0
    else:
        mask = {
            "groups": PARTS[int(rng.integers(len(PARTS)))],
            "operation": {"use": OPERATIONS[int(rng.integers(len(OPERATIONS)))]},
        }
    mask.pop("columns", None)
    if mask.get("method") in ("microaggregation", "mondrian", "optimal-boxes") and rng.random() < 0.2:
        mask["diversity"] = 2
    if rng.random() < 0.3:
        mask["columns"] = [str(name) for name in rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]]
    return mask


def check_release(
    table: pa.Table, recipe: dict[str, Any], link: np.ndarray, manifest: dict[str, Any], path: Path
) -> None:
    """The headline is that of the file read back, and nothing is in its bytes that should not be."""
    quasi = manifest["quasi"]
    readings = manifest["readings"]
    columns = [
        place
        for name in quasi["columns"]
        for place in ([f"{name}_low", f"{name}_high"] if readings.get(name) == "interval" else [name])
    ]
    frame = _read(path)
    assert len(frame) == manifest["rows_out"] == len(link)
    assert (quasi["unit"] == "person") == ("who" in table.column_names)
    if columns:
        smallest = _smallest_class(table, frame, columns, link, quasi["unit"])
        assert quasi["smallest_class"] == smallest or (
            quasi["smallest_class"] < smallest and _empty_in_two_ways(table, path, quasi["columns"])
        ), recipe
    for found in manifest["guarantee"]:
        assert found["verified"] is (None if found["k"] is None else True)
        if "smallest_class" in found:
            assert found["smallest_class"] >= found["k"]
    kept = link[link >= 0]
    assert len(np.unique(kept)) == len(kept)
    assert len(kept) < 8 or not np.array_equal(kept, np.sort(kept))
    text = _bytes(path) + json.dumps(manifest).encode()
    assert HIDDEN.encode() not in text
    secrets = [name for column in ("pid", "who") if column in table.column_names for name in table[column].to_pylist()]
    assert not any(name.encode() in text for name in secrets)
    json.loads(json.dumps(manifest, allow_nan=False))


def _smallest_class(table: pa.Table, frame: pd.DataFrame, columns: list[str], link: np.ndarray, unit: str) -> int:
    """Records, or persons, of the smallest class of the rows that were read back; an added row is a person's own."""
    who = np.arange(len(frame)).astype(str)
    if unit == "person":
        who = np.where(link < 0, who, np.array(table["who"].to_pylist(), dtype=object)[np.maximum(link, 0)])
    return int(frame.assign(**{"-": who}).groupby(columns, dropna=False, observed=True)["-"].nunique().min())


def check_texts(source: Path, recipe: dict[str, Any], link: np.ndarray, output: Path) -> None:
    """From CSV to CSV, the columns that no mask changes are those of the records, text for text.

    Where rows were added, those that were read as text: other texts would tell which.
    """
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (source, output))
    masks = [mask.get("columns", "all" if mask.get("method") == "copula" else "quasi") for mask in recipe["mask"]]
    masked = {name for columns in masks if isinstance(columns, list) for name in columns}
    for name, spec in recipe["columns"].items():
        counted = spec["role"] == "quasi" and (not spec.get("keep") or "who" in before.columns)
        counted |= spec["role"] in ("quasi", "sensitive") and bool((link < 0).any())
        if "all" in masks or name in masked or counted or name not in after.columns or spec["role"] == "person":
            continue
        rows = link >= 0
        assert after.loc[rows, name].tolist() == before[name].iloc[link[rows]].tolist(), name


def check_values(
    table: pa.Table, recipe: dict[str, Any], link: np.ndarray, manifest: dict[str, Any], path: Path, *, exact: bool
) -> None:
    """Unmasked values are those of the records; values that were only moved occur; classes are as diverse as is said.

    exact : whether the table was given with its types, and not as a CSV
    """
    frame = _read(path)
    masked = {name for mask in manifest["mask"] for name in mask["columns"]}
    kept = link >= 0
    stored = exact and path.suffix not in (".csv", ".gz", ".orc", ".dta", ".sav")
    for name, about in manifest["columns"].items():
        if name not in masked and about["role"] in ("other", "sensitive", "quasi") and stored and name in frame:
            before = np.array([repr(value) for value in table[name].to_pylist()], dtype=object)
            if any(mask.get("method") == "synthetic-rows" for mask in manifest["mask"]):
                before[before == "-0.0"] = "0.0"  # a sign must not tell added rows
            assert frame[name].to_numpy()[kept].tolist() == before[link[kept]].tolist(), f"{name}: {recipe}"
    only = recipe["mask"][0] if len(recipe["mask"]) == 1 else {}
    moved = only.get("operation", {}).get("use") in ("permute", "resample") or only.get("method") == "column-swap"
    for name in masked if moved and stored else ():
        shown, held = set(frame[name]), {repr(value) for value in table[name].to_pylist()}
        signless = held | ({"0.0"} if "-0.0" in held else set()) | {"None"}
        assert shown <= signless, f"{name}: {recipe}"
    if only.get("diversity") == 2 and "epsilon" not in only:
        _check_diversity(table, link, manifest, frame)


def _check_diversity(table: pa.Table, link: np.ndarray, manifest: dict[str, Any], frame: pd.DataFrame) -> None:
    """Every class of the masked columns holds two values of each sensitive column that is not masked; null is none."""
    names = manifest["mask"][0]["columns"]
    places = [p for name in names for p in (name, f"{name}_low", f"{name}_high") if p in frame]
    for name, about in manifest["columns"].items():
        if about["role"] == "sensitive" and name not in names:
            values = table[name].to_pylist()
            shown = [None if at < 0 else values[at] for at in link]
            told = pd.Series([None if value is None else repr(value) for value in shown])
            least = told.groupby([frame[place] for place in places], dropna=False).nunique().min()
            assert least >= 2, f"{name}: a class has {least} values"


def _read(path: Path) -> pd.DataFrame:
    """The file as somebody else reads it: values as they are stored; where two libraries read it, they agree."""
    name = path.name
    if name.endswith((".csv", ".csv.gz")):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
        with gzip.open(path, "rt", newline="") if name.endswith(".gz") else path.open(newline="") as file:
            rows = list(text_csv.reader(file))
        if frame.shape[1] > 1:  # of one column, an empty line is a row to one and none to the other
            assert rows[0] == list(frame.columns)
            assert rows[1:] == frame.to_numpy().tolist()
        return frame
    if name.endswith((".dta", ".sav")):
        import pyreadstat

        reader = pyreadstat.read_dta if name.endswith(".dta") else pyreadstat.read_sav
        held = reader(str(path), output_format="dict")[0]
        return pd.DataFrame({column: [repr(value) for value in values] for column, values in held.items()})
    if name.endswith(".arrow"):
        arrow = pa.ipc.open_file(path).read_all()
    elif name.endswith(".orc"):
        arrow = pa.orc.read_table(path)
    else:
        arrow = pq.read_table(path)
    return _shown(arrow)


def _shown(arrow: pa.Table) -> pd.DataFrame:
    """Each value as text."""
    frame = pd.DataFrame(index=range(arrow.num_rows))
    for name in arrow.column_names:
        column = arrow[name]
        column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        frame[name] = [repr(value) for value in column.to_pylist()]  # repr: −0.0 is not 0.0
    return frame


def _empty_in_two_ways(table: pa.Table, path: Path, columns: list[str]) -> bool:
    """Whether a CSV tells nulls (nothing) from empty texts (two quotes) in a column, and pandas reads both alike."""
    texts = [table[name].to_pylist() for name in columns]
    return path.suffix in (".csv", ".gz") and any("" in values for values in texts)  # a mask may blank others


def _bytes(path: Path) -> bytes:
    """Everything that a file says, without its compression."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix in (".csv", ".arrow", ".dta", ".sav"):
        return path.read_bytes()
    if path.suffix == ".orc":
        return repr(pa.orc.read_table(path).to_pylist()).encode()
    found = b""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with pq.ParquetFile(file) as parquet:
            found += repr(parquet.metadata).encode() + repr(parquet.schema_arrow.metadata).encode()
            whole = parquet.read()
            for column in whole.columns:
                found += repr(column.combine_chunks().to_pylist()).encode()
                if pa.types.is_dictionary(column.type):
                    found += repr([chunk.dictionary.to_pylist() for chunk in column.chunks]).encode()
    return found


def main() -> None:
    """``python -m tests.support.fuzz CASES [FIRST]``: prints the seed and the failure of every case that fails."""
    cases, failures = int(sys.argv[1]), 0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 2000  # the suite has those before
    found: Counter[str] = Counter()
    warnings.simplefilter("error")  # as in the suite
    for seed in range(first, first + cases):
        with TemporaryDirectory() as folder:
            try:
                found[run_case(seed, Path(folder))] += 1
            except Exception as error:
                failures += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{cases} cases, {failures} failures: {dict(found)}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
