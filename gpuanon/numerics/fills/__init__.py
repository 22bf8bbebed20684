"""Values for rows that stand for no record: drawn from a model of a column, given the columns that are known."""
