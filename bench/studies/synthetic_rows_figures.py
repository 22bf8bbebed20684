"""Figures 1–3 of Fried and Vamvourellis in form, each as a PNG with the numbers beside it as CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Floats = np.ndarray[Any, Any]


def bias_map(found: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Mean bias against correlation bias, one point for each fill."""
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for name, figures in found.items():
        x, y = figures["mean_bias"], figures["correlation_bias"]
        axis.plot(x, y, "k*" if name == "oracle" else "o", ms=9 if name == "oracle" else 5)
        axis.annotate(name, (x, y), fontsize=7, xytext=(4, 3), textcoords="offset points")
    axis.axhline(0, color="grey", lw=0.5)
    axis.axvline(0, color="grey", lw=0.5)
    axis.set_xlabel("mean bias of the grade")
    axis.set_ylabel("correlation bias, grade and forum posts")
    figure.savefig(path.with_suffix(".png"), dpi=130)
    rows = [[name, figures["mean_bias"], figures["correlation_bias"]] for name, figures in found.items()]
    _write(path.with_suffix(".csv"), ["fill", "mean_bias", "correlation_bias"], rows)


def grades(samples: Mapping[str, Floats], title: str, path: Path) -> None:
    """Histograms of nonzero grades."""
    figure = Figure(figsize=(6.5, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    edges, rows = np.linspace(0.005, 1.005, 51), []
    for name, values in samples.items():
        counts = np.histogram(values[values > 0], edges)[0]
        shares = counts / max(counts.sum(), 1)
        axis.stairs(shares, edges, label=name, lw=2 if name == "original" else 1.2)
        rows += [[name, f"{low:.3f}", share] for low, share in zip(edges[:-1], shares, strict=True)]
    axis.set_xlabel("grade")
    axis.set_ylabel("share of nonzero grades")
    axis.set_title(title, fontsize=10)
    axis.legend(fontsize=8)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    _write(path.with_suffix(".csv"), ["sample", "from", "share"], rows)


def _write(path: Path, names: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
