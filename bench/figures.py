"""The tables of bench/README.md and the plots in bench/plots, from the JSON files in bench/results.

    make bench-figures          (python bench/figures.py)

Everything between the marks ``<!-- benchmarks: begin -->`` and ``<!-- benchmarks: end -->`` is replaced.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from frame import WAYS
from pictures import FITTED_FROM, draw, exponent

HERE = Path(__file__).resolve().parent
RESULTS, PLOTS, README = HERE / "results", HERE / "plots", HERE / "README.md"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def benchmarks() -> list[dict[str, Any]]:
    """All benchmarks, one per group, rows, columns and way: those of the newest run."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for content in sorted(_runs().values(), key=lambda content: content["datetime"], reverse=True):
        for one in content["benchmarks"]:
            info = one["extra_info"]
            key = (one["group"], info["columns"], info["rows"], info["way"])
            found.setdefault(key, {"group": one["group"], "seconds": one["stats"]["min"], **info})
    return sorted(found.values(), key=lambda one: (one["group"], one["columns"], one["rows"]))


def _runs() -> dict[str, dict[str, Any]]:
    """What pytest-benchmark wrote, by the name of the file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("bench*.json"))}


def digits(value: float) -> str:
    """Three significant digits."""
    if abs(value) < 1e-4:
        return f"{value:.1e}" if value else "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def table_of_family(family: str, found: list[dict[str, Any]]) -> list[str]:
    """A table of one family: a line per group, columns and rows; seconds of each way, processor seconds in brackets."""
    used = [way for way in WAYS if any(one["way"] == way for one in found)]
    lines = [f"**{family[0].upper()}{family[1:]}**", ""]
    lines += [f"| what | rows × columns | {' | '.join(WAYS[way] for way in used)} | quality |"]
    lines += ["|---|---" + "|---" * len(used) + "|---|"]
    cases: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for one in found:
        cases[one["group"], one["columns"], one["rows"]][one["way"]] = one
    before = None
    for (group, columns, rows), by_way in cases.items():
        cells = []
        for way in used:
            one = by_way.get(way)
            cells.append(f"{digits(one['seconds'])} ({digits(one['processor_seconds'])})" if one else "")
        figures = {f"{name} {digits(value)}": None for one in by_way.values() for name, value in one["quality"].items()}
        name = group.removeprefix(f"{family}: ")
        lines.append(
            f"| {name if name != before else '…'} | {rows:,} × {columns} | {' | '.join(cells)} | {'; '.join(figures)} |"
        )
        before = name
    return [*lines, ""]


def exponents(found: list[dict[str, Any]]) -> list[str]:
    """Fitted exponents of processor time in the rows."""
    curves: dict[tuple[Any, ...], list[tuple[int, float]]] = defaultdict(list)
    for one in found:
        curves[one["group"], one["way"]].append((one["rows"], one["processor_seconds"]))
    lines = []
    for (group, way), points in curves.items():
        slope = exponent([n for n, _ in points], [t for _, t in points])
        if slope is not None and "n × n" not in group:
            span = [n for n, _ in points if n >= FITTED_FROM]
            lines.append(f"| {group} | {WAYS[way]} | {min(span):,} to {max(span):,} | {slope:.2f} |")
    if not lines:
        return []
    head = ["**Fitted exponents of processor time in the rows** (1: linear)", ""]
    return [*head, "| what | way | rows | exponent |", "|---|---|---|---|", *lines, ""]


def plots(found: list[dict[str, Any]]) -> list[str]:
    """The pictures of all families, in place of those that were there; the names of the files."""
    PLOTS.mkdir(exist_ok=True)
    for old in PLOTS.glob("*.png"):
        old.unlink()
    return [name for family, some in families(found).items() for name in draw(family, some, PLOTS)]


def families(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Benchmarks by the part of their group's name before the colon."""
    sorted_out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        head, colon, _ = one["group"].partition(": ")
        sorted_out[head if colon else "other"].append(one)
    return sorted_out


def baselines() -> list[str]:
    """Task × tool × seconds × quality, with the source of what was not run."""
    path = RESULTS / "baselines.json"
    if not path.exists():
        return []
    content = json.loads(path.read_text())
    lines = [f"**Other tools**, each in an environment of its own (`make bench-baselines`); {_load(content)}", ""]
    lines += ["| task | tool | seconds | quality |", "|---|---|---|---|"]
    for one in content["results"]:
        figures = [f"{name} {digits(value)}" for name, value in one.get("quality", {}).items()]
        quality = "; ".join([*figures, *([one["source"]] if "source" in one else [])])
        seconds = digits(one["seconds"]) if "seconds" in one else one["missing"]
        lines.append(f"| {one['task']} | {one['tool']} | {seconds} | {quality} |")
    return [*lines, ""]


def memory() -> list[str]:
    """Peak memory per method."""
    path = RESULTS / "memory.json"
    if not path.exists():
        return []
    content = json.loads(path.read_text())
    lines = [
        "**Memory** beyond input and output, bytes per row and column (`make bench-memory`); near 0 where"
        f" buffers of a fixed size are the peak at these sizes; {_load(content)}",
        "",
    ]
    lines += ["| method | rows × columns | bytes per row and column | remark |", "|---|---|---|---|"]
    for one in content["results"]:
        size = f"{one['rows']:,} × {one['columns']}"
        lines.append(f"| {one['method']} | {size} | {one['bytes']:.0f} | {one.get('remark', '')} |")
    return [*lines, ""]


def _load(content: dict[str, Any]) -> str:
    """Of the machine at the end of a run."""
    info = content["machine_info"]
    return f"{info['cores']} cores, load {info['load'][0]:.1f} at the end"


def machine() -> str:
    """Where and under which load the figures were taken."""
    texts = []
    for name, content in _runs().items():
        info, loads = content["machine_info"], [one["extra_info"]["load"] for one in content["benchmarks"]]
        packages = ", ".join(f"{name} {found}" for name, found in info["packages"].items())
        load = f"load {min(loads)} to {max(loads)}" + (", beside other work" if max(loads) > info["cores"] + 1 else "")
        texts.append(f"{name}: {info['cores']} cores ({info['machine']}), {load}; {packages}.")
    return "  \n".join(texts)


def section(found: list[dict[str, Any]], pictures: list[str]) -> str:
    """The generated text."""
    lines = [
        "Seconds of wall time, processor seconds in brackets, the least of the repeats.  `make bench-figures` writes",
        "this section from `bench/results`.",
        "",
        machine(),
        "",
    ]
    for family, some in families(found).items():
        lines += table_of_family(family, some)
    lines += exponents(found) + baselines() + memory()
    lines += [
        "**Plots**: processor seconds and quality against rows, log axes; an exponent is fitted from "
        f"{FITTED_FROM:,} rows on, where the sizes span a factor of eight.",
        "",
    ]
    lines += [f"![{name.removesuffix('.png')}](plots/{name})" for name in pictures]
    return f"{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}"


def main() -> None:
    """Replace the generated section, and draw the plots."""
    found = benchmarks()
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{section(found, plots(found))}{after}")


if __name__ == "__main__":
    main()
