"""Plots of the distribution-preserving study, in the form of the paper's figures 3 to 10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

COLOURS = {
    "unmasked": "#555555",
    "centroid": "#b2182b",
    "resample": "#2166ac",
    "permute": "#67a9cf",
    "gaussian": "#1b7837",
    "gaussian, whole table": "#1b7837",
    "gaussian, blocks": "#7fbf7b",
    "none": "#555555",
    "logistic": "#e08214",
    "nonparametric": "#542788",
}
NAMES = {"centroid": "k-anonymisation (centroid)", "resample": "resampling", "gaussian": "Gaussian dither"}
SHIFT_NAMES = {"none": "no shift method", "logistic": "logistic shift", "nonparametric": "nonparametric shift"}


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _axis(axis: Any, title: str, y: str, x: str = "k", log: bool = True) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_ylabel(y)
    axis.set_xlabel(x)
    if log:
        axis.set_xscale("log")
        ticks = [k for k in (5, 10, 20, 50, 100, 200, 500, 1000) if axis.get_xlim()[0] <= k <= axis.get_xlim()[1]]
        axis.set_xticks(ticks, [str(k) for k in ticks])
        axis.minorticks_off()
    axis.grid(alpha=0.25)


def class_histograms(path: Path, rates: dict[str, np.ndarray], k: int) -> None:
    """Figures 3 and 4: hit rates of the equivalence classes under three releases, and resampling less centroid."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    panels = [*(("ABC"[i], NAMES[name], rates[name]) for i, name in enumerate(NAMES))]
    top = max(float(rate.max()) for rate in rates.values())
    for axis, (letter, title, rate) in zip(axes.flat, panels, strict=False):
        axis.hist(rate, bins=np.linspace(0, max(top, 1.05 / k), 41), color="#4d4d4d")
        axis.axvline(1 / k, color="#b2182b", linestyle="--", linewidth=1, label=f"1/k = {1 / k:g}")
        axis.legend(frameon=False)
        _axis(axis, f"{letter}  {title}", "equivalence classes", "expected reidentification rate", log=False)
    difference = rates["resample"] - rates["centroid"]
    axes[1, 1].hist(difference, bins=41, color="#4d4d4d")
    axes[1, 1].axvline(0, color="black", linewidth=0.8)
    below = (difference < 0).mean()
    _axis(
        axes[1, 1], f"D  resampling − centroid (below 0: {below:.0%})", "equivalence classes", "difference", log=False
    )
    figure.suptitle(f"Reidentification by equivalence class, k = {k}")
    _save(figure, path)


def mean_rates(path: Path, rows: list[dict[str, Any]]) -> None:
    """Figure 5: mean hit rate against k, for each set of columns."""
    kinds = list(dict.fromkeys(row["columns"] for row in rows))
    figure, axes = plt.subplots(1, len(kinds), figsize=(5 * len(kinds), 4.4), layout="constrained", squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        mine = [row for row in rows if row["columns"] == kind]
        ks = [row["k"] for row in mine]
        axis.plot(ks, [1 / k for k in ks], "k--", linewidth=1, label="1/k")
        for name in ("centroid", "resample", "permute", "gaussian, whole table", "gaussian, blocks"):
            if name in mine[0]:
                axis.plot(ks, [row[name] for row in mine], "o-", markersize=3, color=COLOURS[name], label=name)
        axis.axhline(mine[0]["unmasked"], color=COLOURS["unmasked"], linestyle=":", label="unmasked")
        axis.set_yscale("log")
        _axis(axis, kind, "mean reidentification rate")
    axes[0][0].legend(frameon=False, fontsize=8)
    _save(figure, path)


def _lines(axis: Any, rows: list[dict[str, Any]], value: str, colour: str, label: str) -> None:
    """One line against k, with a band of two standard errors for the bias."""
    rows = sorted(rows, key=lambda row: row["k"])
    ks, values = [row["k"] for row in rows], np.array([row[value] for row in rows])
    axis.plot(ks, values, "o-", markersize=3, color=COLOURS[colour], label=label)
    if value == "bias":
        errors = 2 * np.array([row["bias_error"] for row in rows])
        axis.fill_between(ks, values - errors, values + errors, color=COLOURS[colour], alpha=0.15, linewidth=0)


def no_shift(path: Path, summary: list[dict[str, Any]]) -> None:
    """Figure 6: bias, R² and similarity without a market shift."""
    rows = [row for row in summary if row["area"] == "none"]
    figure, axes = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    panels = [("A", "dummy", "bias"), ("B", "dummy", "r2"), ("C", "numeric", "bias"), ("D", "numeric", "r2")]
    spots = (axes[0, 0], axes[0, 1], axes[1, 0], axes[1, 1])
    for axis, (letter, coding, value) in zip(spots, panels, strict=True):
        _against_k(axis, [row for row in rows if row["coding"] == coding], value)
        _axis(axis, f"{letter}  {coding}", "relative bias, %" if value == "bias" else "R²")
    _against_k(axes[0, 2], [row for row in rows if row["coding"] == "dummy"], "similarity")
    _axis(axes[0, 2], "E  similarity of training and test", "histogram intersection")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[1, 2].axis("off")
    axes[1, 2].legend(handles, labels, frameon=False, loc="center left")
    _save(figure, path)


def _against_k(axis: Any, rows: list[dict[str, Any]], value: str) -> None:
    for name in ("centroid", "resample", "permute", "gaussian"):
        _lines(axis, [row for row in rows if row["release"] == name], value, name, NAMES.get(name, "permutation"))
    base = [row for row in rows if row["k"] == 0]
    axis.axhline(base[0][value], color=COLOURS["unmasked"], linestyle=":", label="unmasked")


def with_shift(path: Path, summary: list[dict[str, Any]], release: str, area: int) -> None:
    """Figures 7 to 9: bias and R² of one release in a new market, by shift method."""
    rows = [row for row in summary if row["area"] == area and row["release"] in (release, "unmasked")]
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    panels = [("A", "dummy", "bias"), ("B", "dummy", "r2"), ("C", "numeric", "bias"), ("D", "numeric", "r2")]
    for axis, (letter, coding, value) in zip(axes.flat, panels, strict=True):
        for shift, name in SHIFT_NAMES.items():
            mine = [row for row in rows if row["coding"] == coding and row["shift"] == shift]
            _lines(axis, [row for row in mine if row["k"]], value, shift, name)
            for row in mine:
                if row["k"] == 0:
                    axis.axhline(row[value], color=COLOURS[shift], linestyle=":", linewidth=1)
        _axis(axis, f"{letter}  {coding}", "relative bias, %" if value == "bias" else "R²")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{NAMES[release]}, new market: area {area} (dotted: unmasked)")
    _save(figure, path)


def similarity(path: Path, summary: list[dict[str, Any]], area: int) -> None:
    """Figure 10: similarity of the estimated and the true new members, by shift method."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained", sharey=True)
    for axis, letter, (release, title) in zip(axes, "ABC", NAMES.items(), strict=True):
        for shift, name in SHIFT_NAMES.items():
            mine = [r for r in summary if r["area"] == area and r["release"] == release and r["shift"] == shift]
            _lines(axis, [row for row in mine if row["coding"] == "dummy"], "similarity", shift, name)
        _axis(axis, f"{letter}  {title}", "histogram intersection")
    axes[0].legend(frameon=False, fontsize=8)
    _save(figure, path)
