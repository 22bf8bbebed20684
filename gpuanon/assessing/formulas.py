"""Models that analysts will fit: a formula and a family, as a recipe has them under ``[[analysis]]``.

A recipe is data.  The library that reads formulas would evaluate any expression of Python in them, so that only names
of columns, numbers, operators and a few functions pass.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, field_validator

Family: TypeAlias = Literal["linear", "logistic", "gamma", "two-part"]

FUNCTIONS = ("C", "log", "log10", "exp", "sqrt", "center", "scale", "poly")
_TOKEN = re.compile(r"\s*(`[^`]+`|[^\W\d]\w*|\d+(?:\.\d+)?|\*\*|[-+*:^(),/|])", re.UNICODE)


class Analysis(BaseModel):
    """One model.

    formula : ``response ~ terms``; names with other characters than letters, digits and underscores stand in backticks
    family  : linear; logistic (a response of two values); gamma (positive, logarithmic link); two-part (a logistic
              model of being positive, and a gamma model of the positive values)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    formula: str
    family: Family = "linear"

    @field_validator("formula")
    @classmethod
    def _plain(cls, formula: str) -> str:
        sides = formula.split("~")
        if len(sides) != 2 or not sides[1].strip():
            raise ValueError('a formula is "response ~ terms"')
        if not re.fullmatch(r"\s*(`[^`]+`|[^\W\d]\w*)\s*", sides[0]):
            raise ValueError("the response of a formula is one column")
        columns_of(sides[1])
        return formula

    @property
    def response(self) -> str:
        """The column that is explained."""
        return self.formula.split("~")[0].strip().strip("`")

    @property
    def terms(self) -> str:
        """What explains it."""
        return self.formula.split("~")[1].strip()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the formula names."""
        return tuple(dict.fromkeys((self.response, *columns_of(self.terms))))


def columns_of(terms: str) -> tuple[str, ...]:
    """The columns that the right side of a formula names.

    Raises
    ------
    ValueError
        For anything but columns, numbers, ``+ - * : ^ ** / ( ) ,`` and `FUNCTIONS`.
    """
    found, at, text = [], 0, terms.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"formula: columns, numbers, + - * : ^ / ( ) and {', '.join(FUNCTIONS)} are allowed")
        name, at = token.group(1), token.end()
        called = text[at:].lstrip().startswith("(")
        if name[0] == "`" or name[0].isalpha() or name[0] == "_":
            if called and name not in FUNCTIONS:
                raise ValueError(f"formula: there is no function {name}; there are {', '.join(FUNCTIONS)}")
            if not called:
                found.append(name.strip("`"))
    return tuple(dict.fromkeys(found))
