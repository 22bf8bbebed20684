"""Names that recipes and reports use: the published methods, and the measures."""
