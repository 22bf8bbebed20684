"""Tables: schema, encoding to a matrix and back, dataframes of any kind, files."""
