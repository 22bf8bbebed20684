"""CSV files: dialect, types, texts."""
