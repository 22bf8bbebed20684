"""gpuanon: high-throughput anonymization of microdata, on NumPy or CUDA, on one machine or many.

    import gpuanon

    release = gpuanon.protect(frame, "recipe.toml")
    release.data                                        # the same kind of dataframe, masked and verified
    gpuanon.assess(frame, release.data, "recipe.toml", link=release.link)

The names below load what they need when they are first used: importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gpuanon.arrays.rng import Key
    from gpuanon.assessing import workloads
    from gpuanon.assessing.measures import catalogue as measures
    from gpuanon.errors import GpuanonError
    from gpuanon.faces.anonymizer import Anonymizer
    from gpuanon.faces.report.page import report_html
    from gpuanon.masking.methods.catalogue import catalogue as methods
    from gpuanon.recipe import Recipe
    from gpuanon.running.assess import assess
    from gpuanon.running.compare import compare
    from gpuanon.running.intervals import intervals
    from gpuanon.running.propose import propose
    from gpuanon.running.protect import protect
    from gpuanon.tables.files.io import read

_PUBLIC = {
    "Anonymizer": ("gpuanon.faces.anonymizer", "Anonymizer"),
    "read": ("gpuanon.tables.files.io", "read"),
    "propose": ("gpuanon.running.propose", "propose"),
    "protect": ("gpuanon.running.protect", "protect"),
    "assess": ("gpuanon.running.assess", "assess"),
    "compare": ("gpuanon.running.compare", "compare"),
    "intervals": ("gpuanon.running.intervals", "intervals"),
    "methods": ("gpuanon.masking.methods.catalogue", "catalogue"),
    "measures": ("gpuanon.assessing.measures", "catalogue"),
    "report_html": ("gpuanon.faces.report.page", "report_html"),
    "Key": ("gpuanon.arrays.rng", "Key"),
    "Recipe": ("gpuanon.recipe", "Recipe"),
    "GpuanonError": ("gpuanon.errors", "GpuanonError"),
    "workloads": ("gpuanon.assessing.workloads", ""),
}

__all__ = [
    "Anonymizer",
    "GpuanonError",
    "Key",
    "Recipe",
    "assess",
    "compare",
    "intervals",
    "measures",
    "methods",
    "propose",
    "protect",
    "read",
    "report_html",
    "workloads",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gpuanon' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
