"""What a run may replace: nothing that it reads, and with --force only what gpuanon wrote itself."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpuanon.arrays.rng import Key
from gpuanon.cli import app as cli
from gpuanon.engine.assess import assess
from gpuanon.engine.identity import read_link
from gpuanon.engine.protect import InParts, protect_file, protect_in_parts
from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.recipe import Recipe
from gpuanon.tables.registry import make_registry
from tests.support.every import HIERARCHIES

KEY = Key(b"a key for tests, of sixteen bytes or more")
RECIPE = """
nulls = "indicator"
[columns]
person_id = { role = "identifier" }
age       = { role = "quasi", hierarchy = "age.csv" }
sex       = { role = "quasi" }
cost      = { role = "sensitive" }
[[mask]]
method = "microaggregation"
k = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry as a file and as a folder of parts, a recipe, a key and a hierarchy."""
    monkeypatch.chdir(tmp_path)
    table = make_registry(120, seed=7).select(["person_id", "age", "sex", "cost"])
    for name in ("data", "parts", "settings"):
        (tmp_path / name).mkdir()
    pq.write_table(table, "data/registry.parquet")
    for number in range(2):
        pq.write_table(table.slice(60 * number, 60), f"parts/{number}.parquet")
    Path("settings/age.csv").write_bytes((HIERARCHIES / "age.csv").read_bytes())
    Path("settings/recipe.toml").write_text(RECIPE)
    Path("settings/key").write_text("a key for tests, of sixteen bytes or more")
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(source: str, output: str, **options):
    options = {"force": True, "key_file": Path("settings/key"), "backend": "numpy", **options}
    return protect_file(Path(source), Path("settings/recipe.toml"), Path(output), **options)


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("data/registry.parquet", "data"),
        ("data/registry.parquet", "data/registry.parquet"),
        ("data/registry.parquet", "linked.parquet"),
        ("data/registry.parquet", "hard.parquet"),
        ("data/registry.parquet", "holds-hard"),
        ("data/registry.parquet", "holds-symbolic"),
        ("data/registry.parquet", "linked-folder"),
        ("parts", "parts"),
        ("parts", "parts/0.parquet"),
        ("parts", "parts/new.parquet"),
        ("parts", "parts/new"),
        ("parts", "linked-parts/new.parquet"),
        ("data/registry.parquet", "settings"),
    ],
)
def test_an_input_is_never_replaced_and_never_holds_the_release(folder, source, output, how):
    os.symlink(folder / "data" / "registry.parquet", "linked.parquet")
    os.link("data/registry.parquet", "hard.parquet")
    for name in ("holds-hard", "holds-symbolic"):
        Path(name).mkdir()
    os.link("data/registry.parquet", "holds-hard/0.parquet")
    os.symlink(folder / "data" / "registry.parquet", "holds-symbolic/0.parquet")
    os.symlink(folder / "data", "linked-folder")
    os.symlink(folder / "parts", "linked-parts")
    for name in ("data", "parts", "linked.parquet", "hard.parquet", "holds-hard", "holds-symbolic"):
        Path(f"{name}.manifest.json").write_text(json.dumps({"gpuanon": "1", "rows_out": 1, "mask": []}))
    before = everything(folder)
    with pytest.raises(OutputError):
        run(source, output, in_parts=how)
    assert everything(folder) == before


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_force_replaces_only_what_has_a_manifest(folder, name, how):
    if name == "release":
        Path(name).mkdir()
        pq.write_table(make_registry(100), "release/0.parquet")
    else:
        pq.write_table(make_registry(100), name)
    before = everything(folder)
    with pytest.raises(OutputError, match="not written by gpuanon"):
        run("data/registry.parquet", name, in_parts=how)
    assert everything(folder) == before


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_force_replaces_a_release_of_its_own(folder, name, how):
    for k in (5, 6):
        Path("settings/recipe.toml").write_text(RECIPE.replace("k = 5", f"k = {k}"))
        run("data/registry.parquet", name, in_parts=how, link=Path("link.csv"))
        assert json.loads(Path(f"{name}.manifest.json").read_text())["mask"][0]["k"] == k
    assert sorted(path.name for path in folder.iterdir() if path.name[0] == ".") == []


def test_a_file_that_appears_during_the_run_is_not_replaced(folder):
    def late(task, items):
        if not Path("release.parquet").exists():
            Path("release.parquet").write_text("years of work")
        return [task(item) for item in items]

    recipe = Recipe.load(Path("settings/recipe.toml"))
    with pytest.raises(OutputError, match="not written by gpuanon"):
        protect_in_parts(Path("parts"), recipe, Path("release.parquet"), key=KEY, workers=late, force=True)
    assert Path("release.parquet").read_text() == "years of work"


@pytest.mark.parametrize(
    "link",
    [
        "release.parquet", "release.parquet.manifest.json", "settings/recipe.toml", "settings/key", "settings/age.csv",
        "data/registry.parquet", "reference.parquet", "other.csv", "linked-release.parquet",
    ],
)  # fmt: skip
def test_the_link_shares_its_name_with_nothing(folder, link):
    pq.write_table(make_registry(100), "reference.parquet")
    Path("other.csv").write_text("name,age\n")
    os.symlink(folder / "release.parquet", "linked-release.parquet")
    before = everything(folder)
    with pytest.raises(OutputError):
        run("data/registry.parquet", "release.parquet", link=Path(link), reference=Path("reference.parquet"))
    assert everything(folder) == before


def test_the_link_does_not_lie_in_the_release(folder):
    with pytest.raises(OutputError, match="another output"):
        run("data/registry.parquet", "release", link=Path("release/link.csv"))


def test_dasks_report_replaces_nothing(folder):
    before = everything(folder)
    for report in ("settings/recipe.toml", "release.parquet", "data/registry.parquet"):
        with pytest.raises(OutputError):
            run("parts", "release.parquet", in_parts=InParts(workers=0, report=Path(report)))
    assert everything(folder) == before


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
def test_a_release_is_not_read_as_part_of_the_input(folder, how):
    run("data/registry.parquet", "data/release.parquet")
    with pytest.raises(InputError, match=r"release\.parquet, the release of an earlier run"):
        run("data", "elsewhere.parquet", in_parts=how)
    assert not Path("elsewhere.parquet").exists()


def test_without_force_nothing_is_replaced(folder):
    run("data/registry.parquet", "release.parquet")
    before = everything(folder)
    with pytest.raises(OutputError, match="exists already"):
        run("data/registry.parquet", "release.parquet", force=False)
    assert everything(folder) == before


def demo(monkeypatch, *arguments) -> int:
    monkeypatch.setattr(sys, "argv", ["gpuanon", "demo", "--rows", "300", "--out", "data", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


def test_the_demonstration_replaces_only_its_own_files(folder, monkeypatch, capsys):
    before = everything(folder)
    for more in ((), ("--force",)):
        assert demo(monkeypatch, *more) == 2
        assert "registry.parquet" in capsys.readouterr().err
        assert everything(folder) == before
    Path("data/registry.parquet").unlink()
    assert demo(monkeypatch) == 0
    made = everything(folder)
    assert demo(monkeypatch) == 2
    assert everything(folder) == made
    assert demo(monkeypatch, "--force") == 0
    Path("data/recipe.toml").write_text("my own recipe")
    assert demo(monkeypatch, "--force") == 2
    assert Path("data/recipe.toml").read_text() == "my own recipe"


def test_the_release_method_has_the_same_guard(folder):
    import gpuanon

    release = gpuanon.protect(make_registry(120).select(["age"]), {"columns": {"age": {"role": "quasi"}}, "mask": [
        {"method": "microaggregation", "k": 5}]}, backend="numpy")  # fmt: skip
    with pytest.raises(GpuanonError, match="not written by gpuanon"):
        release.write(Path("data/registry.parquet"), force=True)


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
@pytest.mark.parametrize("name", ["release.parquet", "release.csv", "release"])
def test_the_manifest_knows_the_release_and_says_nothing_of_the_link(folder, name, how):
    run("data/registry.parquet", name, in_parts=how, link=Path("link.csv"))
    text = Path(f"{name}.manifest.json").read_text()
    parts = sorted(Path(name).iterdir()) if name == "release" else [Path(name)]
    digests = [hashlib.blake2b(part.read_bytes(), digest_size=32) for part in parts]
    expected = digests[0]
    if name == "release":
        expected = hashlib.blake2b(b"".join(digest.digest() for digest in digests), digest_size=32)
    assert json.loads(text)["release"] == {"digest": expected.hexdigest(), "algorithm": "blake2b-256"}
    for digest in (hashlib.blake2b, hashlib.sha256):
        assert digest(Path("link.csv").read_bytes()).hexdigest()[:32] not in text


def notes(release: str, **options) -> str:
    found = assess(
        Path("data/registry.parquet"), Path(release), Path("settings/recipe.toml"), measures=("k_anonymity",), **options
    )
    return " ".join(found.notes)


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_assess_notices_a_release_that_was_changed(folder, name):
    run("data/registry.parquet", name, link=Path("link.csv"))
    assert "changed since" not in notes(name, link=Path("link.csv"))
    file = next(Path(name).iterdir()) if name == "release" else Path(name)
    pq.write_table(pq.read_table(file).slice(1).slice(0), file)
    assert "changed since it was written" in notes(name)
    with pytest.raises(InputError, match=r"link\.csv: the link has 120 rows, the release 119"):
        notes(name, link=Path("link.csv"))
    shuffled = pq.read_table(file)
    pq.write_table(shuffled.take(list(range(119, -1, -1))[1:]), file)
    assert "changed since it was written" in notes(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("row\nsmith\n", "whole numbers"),
        ("row\n1.5\n", "whole numbers"),
        ("row\n1\n\n", "whole numbers"),
        ("row,name\n1,smith\n", "one column"),
        ("", "link"),
    ],
)
def test_what_is_no_link_is_refused_without_its_content(folder, text, said):
    Path("link.csv").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read_link(Path("link.csv"))
    assert "smith" not in str(caught.value)


@pytest.mark.parametrize(("text", "said"), [("row\n1\n", "the link has 1 rows"), ("row\n" + "500\n" * 120, "120 rows")])
def test_a_link_of_another_release_is_refused(folder, text, said):
    run("data/registry.parquet", "release.parquet")
    Path("link.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        notes("release.parquet", link=Path("link.csv"))


@pytest.mark.parametrize("how", [None, InParts(workers=0)])
def test_a_link_of_another_release_of_as_many_rows_is_refused(folder, how):
    for name in ("one", "two"):
        Path("settings/key").write_text(f"a key for tests, of sixteen bytes or more: {name}")
        run("data/registry.parquet", f"{name}.parquet", link=Path(f"{name}.csv"), in_parts=how)
    assert "changed since" not in notes("one.parquet", link=Path("one.csv"))
    with pytest.raises(InputError, match=r"two\.csv: belongs to another release"):
        notes("one.parquet", link=Path("two.csv"))
    mark = Path("two.csv.release.json")
    assert mark.stat().st_mode & 0o077 == 0
    mark.unlink()  # nothing says whose link it is
    assert "changed since" not in notes("one.parquet", link=Path("two.csv"))


def test_the_mark_of_a_link_replaces_nothing_else(folder):
    Path("link.csv.release.json").write_text("mine")
    with pytest.raises(OutputError, match="not written by gpuanon"):
        run("data/registry.parquet", "release.parquet", link=Path("link.csv"))
    assert Path("link.csv.release.json").read_text() == "mine"


@pytest.mark.parametrize("name", ["release.parquet", "release.csv", "release"])
def test_what_somebody_put_in_the_place_of_a_release_is_not_replaced(folder, name):
    run("data/registry.parquet", name)
    mine = Path(name) / "mine.parquet" if name == "release" else Path(name)
    mine.write_bytes(Path("data/registry.parquet").read_bytes())
    with pytest.raises(OutputError, match="not written by gpuanon, or was changed since"):
        run("data/registry.parquet", name)
    assert mine.read_bytes() == Path("data/registry.parquet").read_bytes()


@pytest.mark.parametrize("option", [{"output": "."}, {"output": ".."}, {"link": Path(".")}, {"report": Path("..")}])
@pytest.mark.parametrize("how", [None, InParts(workers=0)])
def test_a_target_without_a_name_is_refused(folder, option, how):
    with pytest.raises(OutputError, match="is not the name of a file"):
        run("data/registry.parquet", **({"output": "release.parquet", "in_parts": how} | option))


@pytest.mark.parametrize("name", ["release.parquet", "release.csv", "release"])
def test_force_goes_by_content_and_not_by_time(folder, name):
    outputs = {"link": Path("link.csv"), "report": Path("report.html")}
    run("data/registry.parquet", name, **outputs)
    for at, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, (at * 1000, at * 1000))
    run("data/registry.parquet", name, **outputs)
    assert json.loads(Path(f"{name}.manifest.json").read_text())["rows_out"] == 120


@pytest.mark.parametrize("name", ["release.parquet", "release.csv", "release"])
@pytest.mark.parametrize("digest", [None, {}, {"digest": None}, {"digest": ""}, "none"])
def test_a_manifest_that_does_not_know_its_release_is_not_trusted(folder, name, digest):
    run("data/registry.parquet", name)
    path = Path(f"{name}.manifest.json")
    manifest = json.loads(path.read_text()) | {"release": digest}
    path.write_text(json.dumps({name: value for name, value in manifest.items() if value is not None}))
    before = everything(folder)
    with pytest.raises(OutputError, match="not written by gpuanon, or was changed since"):
        run("data/registry.parquet", name)
    assert everything(folder) == before


def test_a_column_of_somebody_is_not_taken_for_a_link(folder):
    Path("link.csv").write_text("row\n3\n4\n")
    with pytest.raises(OutputError, match="not written by gpuanon"):
        run("data/registry.parquet", "release.parquet", link=Path("link.csv"))
    assert Path("link.csv").read_text() == "row\n3\n4\n"
