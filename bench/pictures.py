"""The plots of bench/plots: time and quality against rows on log axes, with fitted exponents.

Two kinds.  *Ways* sets the ways to compute one thing side by side, a panel for each thing.  *Methods* compares things
that do the same job, by gpuanon's fastest way on the host: time on the left, quality on the right, each line with its
name and the exponent of its time.  Colours belong to ways and are the same in all pictures of the first kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from frame import WAYS

FITTED_FROM = 100_000
"""Rows from which the exponent of time is fitted: below, fixed costs count."""

PANELS = 6
"""Of a picture of ways, at most."""

LINES = 7
"""Of a picture of methods, at most."""

COLOURS = {
    "naive": "#999999",
    "scikit-learn": "#e69f00",
    "scipy": "#cc79a7",
    "pyarrow": "#e69f00",
    "pandas": "#cc79a7",
    "gemm": "#000000",
    "numpy": "#56b4e9",
    "compiled": "#0072b2",
    "cupy": "#009e73",
}
"""Okabe and Ito's, which most readers with a colour deficiency tell apart."""

Point = dict[str, Any]
Points = list[Point]


def exponent(rows: list[int], seconds: list[float]) -> float | None:
    """Slope of log time in log rows from `FITTED_FROM` rows on, over a range of at least eight."""
    pairs = [(n, t) for n, t in zip(rows, seconds, strict=True) if n >= FITTED_FROM]
    if len(pairs) < 2 or max(pairs)[0] < 8 * min(pairs)[0]:
        return None
    x, y = np.log(np.array(pairs, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def curves(found: Points) -> dict[tuple[str, int], dict[str, Points]]:
    """Benchmarks by what is computed and the number of columns, then by way; of what has two sizes or more.

    A thing that is measured with more columns at more rows (and never with two numbers at one size) is one curve.
    """
    widths: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in found:
        widths[one["group"]][one["rows"]].add(one["columns"])
    by_thing: dict[tuple[str, int], dict[str, Points]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        own = widths[one["group"]]
        width = min(min(some) for some in own.values()) if all(len(some) == 1 for some in own.values()) else 0
        by_thing[one["group"], width or one["columns"]][one["way"]].append(one)
    kept = {}
    for thing, by_way in by_thing.items():
        if any(_sizes(points) > 1 for points in by_way.values()):
            kept[thing] = dict(by_way)
    return kept


def _sizes(points: Points) -> int:
    return len({one["rows"] for one in points})


def draw(family: str, found: Points, folder: Path) -> list[str]:
    """The pictures of one family; the names of the files."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True})
    mpl.rcParams.update({"grid.alpha": 0.25, "lines.linewidth": 2, "lines.markersize": 6, "savefig.dpi": 110})
    by_thing = curves(found)
    names = []
    compared = [(thing, by_way) for thing, by_way in by_thing.items() if len(by_way) > 1]
    for at in range(0, len(compared), PANELS):
        names.append(_ways(family, compared[at : at + PANELS], folder, at // PANELS + (len(compared) > PANELS)))
    widths: dict[int, list[tuple[str, Points]]] = defaultdict(list)
    for (group, columns), by_way in by_thing.items():
        own = by_way.get("compiled") or by_way.get("numpy")
        if own and family != "kernel" and _sizes(own) > 1 and any(one["quality"] for one in own):
            widths[columns].append((_short(family, group).removesuffix(", by default"), own))
    for columns, lines in ((columns, lines) for columns, lines in widths.items() if len(lines) > 1):
        ordered = sorted(lines, key=lambda line: -line[1][-1]["processor_seconds"])
        pages = -(-len(ordered) // LINES)
        for page in range(pages):
            names.append(_methods(family, columns, ordered[page::pages], folder, page + (pages > 1)))
    return names


def _short(family: str, group: str) -> str:
    return group.removeprefix(f"{family}: ")


def _file(folder: Path, *words: Any) -> Path:
    """A name without blanks and commas."""
    text = " ".join(str(word) for word in words if word)
    return folder / ("-".join(text.replace(",", "").split()) + ".png")


def _line(axes: Any, points: Points, values: list[float], **style: Any) -> None:
    rows = [one["rows"] for one in points]
    axes.plot(rows, values, marker="o", **style)


def _log_axes(axes: Any, **labels: Any) -> None:
    """Log scales whose ticks are plain numbers: decades, and 2 and 5 of each where there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log", **labels)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        steps = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=steps, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
        axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    """10 000 as 10k, 0.05 as it is."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _slope(points: Points) -> str:
    """The exponent of time as text, if it can be fitted."""
    found = exponent([one["rows"] for one in points], [one["processor_seconds"] for one in points])
    return "" if found is None else f"$n^{{{found:.2f}}}$"


def _ways(family: str, things: list[Any], folder: Path, page: int) -> str:
    """A panel for each thing, a line for each way; one legend below all panels."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    across = min(3, len(things))
    down = -(-len(things) // across)
    figure, panels = plt.subplots(down, across, figsize=(max(5.6, 4.1 * across), 3.2 * down + 0.7), squeeze=False)
    used = [way for way in WAYS if any(way in by_way for _, by_way in things)]
    for axes, ((group, columns), by_way) in zip(panels.flat, things, strict=False):
        axes.set_title(f"{_short(family, group)}\n{columns} column{'s' * (columns > 1)}", fontsize=12)
        for way, points in by_way.items():
            seconds = [one["processor_seconds"] for one in points]
            _line(axes, points, seconds, color=COLOURS[way])
            last = (points[-1]["rows"], seconds[-1])
            axes.annotate(_slope(points), last, (4, 4), textcoords="offset points", color=COLOURS[way], fontsize=11)
        axes.set(xscale="log", yscale="log")
        axes.margins(x=0.18, y=0.12)
        axes.autoscale_view()
        _log_axes(axes, xlabel="rows")
    for axes in list(panels.flat)[len(things) :]:
        axes.axis("off")
    for axes in panels[:, 0]:
        axes.set_ylabel("processor seconds")
    handles = [Line2D([], [], color=COLOURS[way], marker="o", label=WAYS[way]) for way in used]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(used), 4 if across > 1 else 2), frameon=False)
    rows = -(-len(used) // (4 if across > 1 else 2))
    figure.tight_layout(rect=(0, 0.3 * rows / figure.get_figheight(), 1, 1))
    return _saved(figure, _file(folder, family, page))


def _methods(family: str, columns: int, lines: list[tuple[str, Points]], folder: Path, page: int) -> str:
    """Time on the left, quality on the right, a line for each method, named at its end."""
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(13.5, 5))
    time, quality = (figure.add_axes((left, 0.13, 0.27, 0.7)) for left in (0.055, 0.58))
    figure.suptitle(f"{family[0].upper()}{family[1:]}, {columns} columns")
    colours = [plt.get_cmap("tab10")(at) for at in range(10)]
    shown = Counter(name for _, points in lines for one in points for name in one["quality"]).most_common(1)[0][0]
    ends: dict[Any, list[tuple[int, float, str, Any]]] = {time: [], quality: []}
    for (name, points), colour in zip(lines, colours, strict=False):
        seconds = [one["processor_seconds"] for one in points]
        _line(time, points, seconds, color=colour)
        last = points[-1]["rows"]
        ends[time].append((last, seconds[-1], f"{name} {_slope(points)}", colour))
        values = [one["quality"].get(shown) for one in points]
        if all(value is not None and value > 0 for value in values):
            _line(quality, points, values, color=colour)
            ends[quality].append((last, values[-1], name, colour))
    for axes, title in ((time, "processor seconds"), (quality, shown)):
        axes.set(xscale="log", yscale="log")
        axes.margins(x=0.05, y=0.08)
        axes.autoscale_view()
        _log_axes(axes, xlabel="rows", title=title)
        _name_lines(axes, ends[axes])
    return _saved(figure, _file(folder, family, columns, "columns", page))


def _name_lines(axes: Any, labels: list[tuple[int, float, str, Any]]) -> None:
    """Names to the right of the axes, at the height of the lines' ends and at least a line's height apart."""
    gap = 0.07
    low, high = np.log(axes.get_ylim())
    heights = [float((np.log(value) - low) / (high - low)) for _, value, _, _ in labels]
    order = np.argsort(heights)
    placed: list[float] = []
    for height in np.array(heights)[order]:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    placed = list(np.array(placed) - max(0.0, placed[-1] - 1.0)) if placed else []
    for at, height in zip(order, placed, strict=True):
        last, value, name, colour = labels[at]
        axes.annotate(
            name.strip(),
            (last, value),
            (1.1, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.5, "shrinkA": 0, "shrinkB": 0},
        )


def _saved(figure: Any, path: Path) -> str:
    from matplotlib import pyplot as plt

    figure.savefig(path, metadata={"Software": None}, bbox_inches="tight")
    plt.close(figure)
    return path.name
