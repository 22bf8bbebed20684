"""A release: the masked rows, what was done to them, and the private link."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.tables.files import io
from gpuanon.tables.table import Table


@dataclass(frozen=True, repr=False)
class Release:
    """What `protect` returns.

    table    : the released rows, in random order
    manifest : what was done (methods, parameters, versions, counts, verified figures), and nothing that undoes it
    link     : private; for each released row the row number of its original, −1 for an added row
    """

    table: Table
    manifest: dict[str, Any]
    link: np.ndarray[Any, Any] = field(compare=False)

    @property
    def data(self) -> Any:
        """The released rows as the kind of dataframe that went in."""
        return self.table.to_native()

    def write(self, output: Path, *, link: Path | None = None, force: bool = False) -> None:
        """Write the release, its manifest beside it, and on request the private link: all of them or none."""
        with io.Writing(force=force) as out:
            out.table(output, self.table)
            out.text(manifest_path(output), json.dumps(self.manifest, indent=2, ensure_ascii=False) + "\n")
            if link is not None:
                out.text(link, "\n".join(["row", *map(str, self.link), ""]), private=True)

    def __repr__(self) -> str:
        return f"Release({self.table.n_rows} rows, {len(self.table.names)} columns)"


def manifest_path(output: Path) -> Path:
    """The manifest lies beside the release."""
    return output.with_name(output.name + ".manifest.json")
