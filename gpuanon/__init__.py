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

from gpuanon.version import __version__

if TYPE_CHECKING:
    from gpuanon.arrays.rng import Key
    from gpuanon.assessing import workloads
    from gpuanon.assessing.measures import catalogue as measures
    from gpuanon.comparing.compare import compare
    from gpuanon.engine.anonymizer import Anonymizer
    from gpuanon.engine.assess import assess
    from gpuanon.engine.interval_files import intervals
    from gpuanon.engine.protect import protect
    from gpuanon.errors import GpuanonError
    from gpuanon.masking.methods import catalogue as methods
    from gpuanon.proposing.proposal import propose
    from gpuanon.recipe import Recipe
    from gpuanon.report.page import report_html
    from gpuanon.tables.formats.io import read

_PUBLIC = {
    "Anonymizer": ("gpuanon.engine.anonymizer", "Anonymizer"),
    "read": ("gpuanon.tables.formats.io", "read"),
    "propose": ("gpuanon.proposing.proposal", "propose"),
    "protect": ("gpuanon.engine.protect", "protect"),
    "assess": ("gpuanon.engine.assess", "assess"),
    "compare": ("gpuanon.comparing.compare", "compare"),
    "intervals": ("gpuanon.engine.interval_files", "intervals"),
    "methods": ("gpuanon.masking.methods", "catalogue"),
    "measures": ("gpuanon.assessing.measures", "catalogue"),
    "report_html": ("gpuanon.report.page", "report_html"),
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
    "__version__",
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
    return sorted(__all__)
