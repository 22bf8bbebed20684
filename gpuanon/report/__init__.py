"""The HTML report: one page that a steward can read and an auditor can keep."""

from __future__ import annotations

from importlib.util import find_spec

from gpuanon.errors import ParameterError


def require() -> None:
    """Refuse a report where the packages that make it are not installed, before any work is done."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ParameterError(
            f"report: needs {' and '.join(missing)}, which are not installed", hint="pip install 'gpuanon[report]'"
        )
