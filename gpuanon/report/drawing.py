"""Figures as SVG that stands inside a page: transparent, in the page's font and text colour, without metadata."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, AFTER, GREY = "#2a7fc1", "#dd6b20", "#8a8f98"
"""Original, release, and what is neither: distinguishable without colour vision, on light and on dark paper."""

_INK = "#010203"  # stands for the colour of the page's text
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a name with dollar signs is a name
    "font.family": "sans-serif",
    "font.size": 9,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def drawn(
    draw: Callable[..., None], name: str, text: str, size: tuple[float, float], panels: int = 1, rows: int = 1
) -> str:
    """The SVG of a figure.

    Parameters
    ----------
    draw : fills one pair of axes, or as many as there are `panels`
    name : begins the identifiers within the SVG: two figures of a page have two names
    text : what the figure shows, for those who cannot see it
    size : width and height in inches
    """
    with _style(name):
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(rows, panels // rows, squeeze=False).ravel()
        draw(*axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _inline(buffer.getvalue(), name, text)


@contextmanager
def _style(name: str) -> Iterator[None]:
    """Matplotlib as the page wants it; a character that its own font has not is the browser's task."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        warnings.simplefilter("ignore", UserWarning)
        yield


def _inline(svg: str, name: str, text: str) -> str:
    """The SVG element alone, with identifiers and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'xlink:href="#', f'href="#{name}-', svg)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace(_INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(text, quote=True)}"', 1).strip()


def plain_axis(axis: Axes) -> None:
    """Short ticks."""
    axis.tick_params(length=2.5, width=0.6)


def shortened(label: str, length: int = 28) -> str:
    """A label of at most `length` characters, all of them printable.

    What stands behind the last " | ", such as the coefficient of a model, is kept: it tells labels of one kind apart.
    """
    clean = "".join(character if character.isprintable() else "�" for character in label)
    if len(clean) <= length:
        return clean
    head, mark, tail = clean.rpartition(" | ")
    room = length - len(mark) - len(tail) - 1
    return head[:room] + "…" + mark + tail if mark and room >= 8 else clean[: length - 1] + "…"
