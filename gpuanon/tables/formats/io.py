"""Read and write tables as Parquet, CSV and Arrow files."""

from gpuanon.tables.formats.reading import Source, open, read
from gpuanon.tables.formats.writing import Writing, check_output, write

__all__ = ["Source", "Writing", "check_output", "open", "read", "write"]
