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

import numpy as np
from frame import WAYS

HERE = Path(__file__).resolve().parent
RESULTS, PLOTS, README = HERE / "results", HERE / "plots", HERE / "README.md"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
FITTED_FROM = 100_000
"""Rows from which the exponent of time is fitted: below, fixed costs count."""


def benchmarks() -> list[dict[str, Any]]:
    """All benchmarks, one per group, rows, columns and way: those of the fullest run."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in sorted(RESULTS.glob("bench*.json"), key=lambda path: path.stem != "bench-full"):
        content = json.loads(path.read_text())
        for one in content["benchmarks"]:
            info = one["extra_info"]
            key = (one["group"], info["columns"], info["rows"], info["way"])
            found.setdefault(key, {"group": one["group"], "seconds": one["stats"]["min"], **info})
    return sorted(found.values(), key=lambda one: (one["group"], one["columns"], one["rows"]))


def exponent(rows: list[int], seconds: list[float]) -> float | None:
    """Slope of log time in log rows from `FITTED_FROM` rows on, over a range of at least eight."""
    pairs = [(n, t) for n, t in zip(rows, seconds, strict=True) if n >= FITTED_FROM]
    if len(pairs) < 2 or max(pairs)[0] < 8 * min(pairs)[0]:
        return None
    x, y = np.log(np.array(pairs, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


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
    """One picture per family: seconds against rows on log axes; the names of the files."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    PLOTS.mkdir(exist_ok=True)
    names = []
    for family, some in families(found).items():
        curves: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for one in some:
            curves[one["group"], one["way"]].append(one)
        lines = {name: points for name, points in curves.items() if len({one["rows"] for one in points}) > 1}
        if not lines:
            continue
        figure, (time, quality) = plt.subplots(1, 2, figsize=(11, 4.5))
        for (group, way), points in lines.items():
            rows, seconds = [one["rows"] for one in points], [one["processor_seconds"] for one in points]
            slope = exponent(rows, seconds)
            label = f"{group.removeprefix(family + ': ')}, {WAYS[way]}" + (f" (n^{slope:.2f})" if slope else "")
            time.loglog(rows, seconds, marker="o", label=label)
            first = next((name for one in points for name in one["quality"]), None)
            if first:
                values = [one["quality"].get(first, np.nan) for one in points]
                quality.loglog(rows, values, marker="o", label=f"{label.split(' (')[0]}: {first}")
        for axes, title in ((time, "processor seconds"), (quality, "quality")):
            axes.set(xlabel="rows", title=title)
            if axes.lines:
                axes.legend(fontsize=5)
            else:
                axes.axis("off")
        figure.tight_layout()
        name = f"{family.split(',')[0].replace(' ', '-')}.png"
        figure.savefig(PLOTS / name, dpi=80, metadata={"Software": None})
        plt.close(figure)
        names.append(name)
    return names


def families(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Benchmarks by the part of their group's name before the colon."""
    sorted_out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        head, colon, _ = one["group"].partition(": ")
        sorted_out[head if colon else "other"].append(one)
    return sorted_out


def baselines() -> list[str]:
    """Task × tool × seconds × quality."""
    path = RESULTS / "baselines.json"
    if not path.exists():
        return []
    lines = ["**Other tools**, each in an environment of its own (`make bench-baselines`)", ""]
    lines += ["| task | tool | seconds | quality |", "|---|---|---|---|"]
    for one in json.loads(path.read_text())["results"]:
        quality = "; ".join(f"{name} {digits(value)}" for name, value in one.get("quality", {}).items())
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
        " buffers of a fixed size are the peak at these sizes",
        "",
    ]
    lines += ["| method | rows × columns | bytes per row and column | remark |", "|---|---|---|---|"]
    for one in content["results"]:
        size = f"{one['rows']:,} × {one['columns']}"
        lines.append(f"| {one['method']} | {size} | {one['bytes']:.0f} | {one.get('remark', '')} |")
    return [*lines, ""]


def machine() -> str:
    """Where and under which load the figures were taken."""
    texts = []
    for path in sorted(RESULTS.glob("bench*.json")):
        content = json.loads(path.read_text())
        info, loads = content["machine_info"], [one["extra_info"]["load"] for one in content["benchmarks"]]
        packages = ", ".join(f"{name} {found}" for name, found in info["packages"].items())
        load = f"load {min(loads)} to {max(loads)}" + (", beside other work" if max(loads) > info["cores"] + 1 else "")
        texts.append(f"{path.stem}: {info['cores']} cores ({info['machine']}), {load}; {packages}.")
    return "  \n".join(texts)


def main() -> None:
    """Replace the generated section, and draw the plots."""
    found = benchmarks()
    lines = [
        "Seconds of wall time, processor seconds in brackets, the least of the repeats.  `make bench-figures` writes"
    ]
    lines += ["this section from `bench/results`.", "", machine(), ""]
    for family, some in families(found).items():
        lines += table_of_family(family, some)
    lines += exponents(found) + baselines() + memory()
    lines += [f"![{name.removesuffix('.png')}](plots/{name})" for name in plots(found)]
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}")


if __name__ == "__main__":
    main()
