"""What a column can be: roles, kinds, and how they are read."""

from __future__ import annotations

from typing import Literal, TypeAlias

Role: TypeAlias = Literal["identifier", "person", "household", "quasi", "sensitive", "other", "weight", "dropped"]
Unit: TypeAlias = Literal["record", "person"]
"""What k counts."""
UNRELEASED: tuple[Role, ...] = ("identifier", "person", "household", "dropped")
"""Roles of columns that never reach a release as they are."""
CHECKED: tuple[Role, ...] = ("quasi", "sensitive", "weight", "person", "household")
Others: TypeAlias = Literal["refuse", "drop", "keep"]
"""What becomes of columns that a recipe does not name."""
Kind: TypeAlias = Literal["numeric", "ordinal", "categorical", "date"]
Transform: TypeAlias = Literal["none", "log", "log1p", "normal-scores"]
Nulls: TypeAlias = Literal["refuse", "category", "indicator", "wildcard"]
Level: TypeAlias = str | bool | int | float
Reading: TypeAlias = Literal["same", "interval", "interval-column", "level", "set"]
"""How a released column is to be read:

same     : as before
interval : two columns, ``NAME_low`` and ``NAME_high``, of the same type: the value lies between them
interval-column : one column of intervals, see `gpuanon.tables.interval_columns`
level    : text, a node of the column's hierarchy
set      : text, the values of which the record has one
"""
