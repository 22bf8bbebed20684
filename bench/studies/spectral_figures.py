"""The thesis's figures 4-3, 4-4, 5-2 and 5-3 in form, each as a PNG with the numbers beside it as CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pair_plot import pair_plot

from gpuanon.arrays.backend import to_host
from gpuanon.assessing.risk.match_auc import Matches, auc_of
from gpuanon.assessing.risk.prediction import Prediction
from gpuanon.assessing.utility.kernel_pca import Projected

Floats = np.ndarray[Any, Any]

MEASURES = ("distance", "ambiguity", "uncertainty")
COLOURS = ("#1f5fbf", "#c8282d", "#2e8b57", "#b8860b", "#7b4fa3", "#5f5f5f")
_PERCENT = np.linspace(0, 1, 101)


def distributions(predictions: Mapping[str, Prediction], title: str, path: Path) -> None:
    """Distribution functions of the three measures under several releases; the reference in black."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3)
    rows: list[list[Any]] = []
    for axis, measure in zip(axes, MEASURES, strict=True):
        for at, (name, prediction) in enumerate(predictions.items()):
            values = np.quantile(to_host(getattr(prediction, measure)), _PERCENT)
            reference = name == "reference"
            colour, width = ("black", 2.0) if reference else (COLOURS[at % len(COLOURS)], 1.2)
            axis.plot(values, _PERCENT, color=colour, lw=width, ls="--" if reference else "-", label=name)
            rows += [[measure, name, f"{share:.2f}", value] for share, value in zip(_PERCENT, values, strict=True)]
        axis.set_xlabel(f"prediction {measure}")
        axis.set_ylim(0, 1)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("share of original records up to")
    axes[0].legend(fontsize=7, loc="upper left")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    write(path.with_suffix(".csv"), ["measure", "release", "share", "value"], rows)


def right_and_wrong(attacks: Mapping[str, list[Matches]], title: str, path: Path) -> None:
    """Distributions of the three measures among right and among wrong matches, with the AUC."""
    figure = Figure(figsize=(10.5, 3.2 * len(attacks)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(attacks), 3, squeeze=False)
    rows: list[list[Any]] = []
    for line, (name, found) in zip(axes, attacks.items(), strict=True):
        right = np.concatenate([to_host(attack.right) for attack in found])
        details = auc_of(found).details
        for axis, measure in zip(line, MEASURES, strict=True):
            values = np.concatenate([to_host(getattr(attack.prediction, measure)) for attack in found])
            low, high = np.quantile(values, [0.001, 0.999])
            edges = np.linspace(low, high if high > low else low + 1, 41)
            for label, weight, colour in (("right", right, COLOURS[1]), ("wrong", 1 - right, COLOURS[0])):
                if weight.sum() == 0:
                    continue
                counts = np.histogram(values, edges, weights=weight)[0] / weight.sum()
                axis.stairs(counts, edges, color=colour, label=f"{label} ({weight.sum() / len(weight):.1%})")
                rows += [[name, measure, label, edge, count] for edge, count in zip(edges, counts, strict=False)]
            area = details[measure]["auc"]  # type: ignore[index, call-overload]
            axis.set_title("AUC not defined" if area is None else f"AUC {area:.2f}", fontsize=8)
            axis.set_xlabel(f"{name}: {measure}", fontsize=8)
            axis.tick_params(labelsize=7)
        line[0].legend(fontsize=7)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    write(path.with_suffix(".csv"), ["release", "measure", "match", "from", "share"], rows)


def pairs(found: Projected, title: str, path: Path, count: int = 5, groups: Floats | None = None) -> None:
    """The pair plot of the leading kernel components."""
    scores, release = to_host(found.components.scores)[:, :count], to_host(found.release)[:, :count]
    figure = pair_plot(scores, release, found.labels()[:count], title, groups)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    rows = [["original", *row] for row in scores.tolist()] + [["release", *row] for row in release.tolist()]
    write(path.with_suffix(".csv"), ["table", *(f"component {at + 1}" for at in range(count))], rows)


def write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    """A CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows])
