"""The arguments that a function of the real CuPy takes: read from the installed CuPy."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

Parameter = inspect.Parameter


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, from the function or from the first line of a compiled function's description."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return _from_text((function.__doc__ or "").strip().split("\n")[0])


def check_call(function: Callable[..., Any], name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raise `TypeError` when the real function would not take these arguments."""
    signature = signature_of(function)
    if signature is None:
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"cupy.{name}: {error} (it takes {signature})") from None


def _from_text(line: str) -> inspect.Signature | None:
    """Read ``name(self, int axis=-1, *, kind=None) -> type``."""
    found = re.match(r"[\w.]+\((.*)\)\s*(?:->.*)?$", line)
    if found is None:
        return None
    parameters: list[Parameter] = []
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for text in re.split(r",\s*(?![^()]*\))", found[1]):
        declared, _, default = text.strip().partition("=")
        name = declared.split()[-1] if declared else ""
        if name in ("*", "/", ""):
            kind = Parameter.KEYWORD_ONLY if name == "*" else kind
        elif name.startswith("**"):
            parameters.append(Parameter(name[2:], Parameter.VAR_KEYWORD))
        elif name.startswith("*"):
            parameters.append(Parameter(name[1:], Parameter.VAR_POSITIONAL))
            kind = Parameter.KEYWORD_ONLY
        else:
            parameters.append(Parameter(name, kind, default=default or Parameter.empty))
    try:
        return inspect.Signature(parameters)
    except ValueError:
        return None
