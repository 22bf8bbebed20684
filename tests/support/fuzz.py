"""Random tables and recipes, and what must hold whatever they are: for the suite and for ``make fuzz``."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.errors import GpuanonError
from gpuanon.running.protect import protect
from gpuanon.tables.files import io
from tests.support.every import MASKS

KEY = b"a key for random tables, of sixteen bytes"
HIDDEN = "LEVEL-THAT-NOBODY-HAS"
FORMATS = ("release.parquet", "release.csv", "release.csv.gz", "release.arrow", "release")
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
    table, recipe = random_table(rng), None
    recipe = random_recipe(rng, table)
    output = folder / FORMATS[int(rng.integers(len(FORMATS)))]
    try:
        release = protect(table, recipe, rng=KEY, backend="numpy")
        manifest = release.write(output, force=True)
    except GpuanonError as error:
        refused = type(error).__name__
    else:
        check_release(table, recipe, release, manifest, output)
        return "released"
    assert not output.exists()
    return refused


def random_table(rng: np.random.Generator) -> pa.Table:
    """A few rows of columns of random types, with nulls, ties, constants, signed zeros and tiny beside huge values."""
    rows = int(rng.choice([0, 1, 2, 5, 12, 40, 90], p=[0.03, 0.05, 0.05, 0.12, 0.25, 0.3, 0.2]))
    columns = {"pid": pa.array([f"ID-{rng.integers(16**12):012x}" for _ in range(rows)])}
    for number in range(int(rng.integers(1, 6))):
        values = _values(rng, rows)
        gaps = rng.random(rows) < rng.choice([0.0, 0.0, 0.2, 1.0], p=[0.5, 0.2, 0.25, 0.05])
        columns[f"c{number}"] = pa.array([None if gap else v for v, gap in zip(values, gaps, strict=True)])
    for name in list(columns)[1:]:
        if rng.random() < 0.3 and pa.types.is_string(columns[name].type):
            encoded = columns[name].dictionary_encode()
            levels = pa.concat_arrays([encoded.dictionary, pa.array([HIDDEN])])
            columns[name] = pa.DictionaryArray.from_arrays(encoded.indices, levels)
    return pa.table(columns)


def _values(rng: np.random.Generator, rows: int) -> list[Any]:
    """Values of one random kind."""
    kind = int(rng.integers(9))
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
    return [f"{v % 50:03d}" for v in whole]


def random_recipe(rng: np.random.Generator, table: pa.Table) -> dict[str, Any]:
    """A recipe for the table, now and then with a mistake in it."""
    names = table.column_names[1:]
    roles = {name: str(rng.choice(["quasi", "quasi", "sensitive", "other"])) for name in names}
    columns: dict[str, Any] = {"pid": {"role": "identifier"}}
    for name, role in roles.items():
        columns[name] = {"role": role}
        if rng.random() < 0.1:
            columns[name]["kind"] = str(rng.choice(["numeric", "ordinal", "categorical", "date"]))
        if rng.random() < 0.05:
            columns[name]["transform"] = str(rng.choice(["log", "log1p", "normal-scores"]))
    mask = _random_mask(rng, names)
    if isinstance(mask.get("columns"), list):
        columns = {
            name: spec | {"keep": True} if spec["role"] == "quasi" and name not in mask["columns"] else spec
            for name, spec in columns.items()
        }
    nulls = str(rng.choice(["indicator", "indicator", "category", "refuse", "wildcard"]))
    others = str(rng.choice(["refuse", "keep", "drop"]))
    if rng.random() < 0.1 and len(names) > 1:
        columns.pop(names[-1])
    return {"columns": columns, "nulls": nulls, "others": others, "mask": [mask]}


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
    if rng.random() < 0.3:
        mask["columns"] = [str(name) for name in rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]]
    return mask


def check_release(table: pa.Table, recipe: dict[str, Any], release: Any, manifest: dict[str, Any], path: Path) -> None:
    """The headline is that of the file read back, and nothing is in its bytes that should not be."""
    quasi = manifest["quasi"]
    readings = manifest["readings"]
    columns = [
        place
        for name in quasi["columns"]
        for place in ([f"{name}_low", f"{name}_high"] if readings.get(name) == "interval" else [name])
    ]
    frame = _read(path)
    assert len(frame) == manifest["rows_out"] == len(release.link)
    if columns:
        counts = frame.groupby(columns, dropna=False, observed=True).size()
        assert quasi["smallest_class"] == counts.min(), recipe
        if manifest["guarantee"][0]["verified"] and "smallest_class" in manifest["guarantee"][0]:
            assert manifest["guarantee"][0]["smallest_class"] >= manifest["guarantee"][0]["k"]
    kept = release.link[release.link >= 0]
    assert len(np.unique(kept)) == len(kept)
    assert len(kept) < 8 or not np.array_equal(kept, np.sort(kept))
    text = _bytes(path) + json.dumps(manifest).encode()
    assert HIDDEN.encode() not in text
    assert not any(name.encode() in text for name in table["pid"].to_pylist())
    json.loads(json.dumps(manifest, allow_nan=False))


def _read(path: Path) -> pd.DataFrame:
    """The file as somebody else reads it: values as they are stored."""
    if path.suffix in (".csv", ".gz"):
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    arrow = io.read(path).to_arrow()
    frame = pd.DataFrame()
    for name in arrow.column_names:
        column = arrow[name]
        column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        frame[name] = [repr(value) for value in column.to_pylist()]  # repr: −0.0 is not 0.0
    return frame


def _bytes(path: Path) -> bytes:
    """Everything that a file says, without its compression."""
    if path.suffix == ".gz":
        import gzip

        return gzip.decompress(path.read_bytes())
    if path.suffix in (".csv", ".arrow"):
        return path.read_bytes()
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
    """``python -m tests.support.fuzz CASES``: prints the seed and the failure of every case that fails."""
    cases, failures = int(sys.argv[1]), 0
    for seed in range(2000, 2000 + cases):  # the suite has those before
        with TemporaryDirectory() as folder:
            try:
                run_case(seed, Path(folder))
            except Exception as error:
                failures += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{cases} cases, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
