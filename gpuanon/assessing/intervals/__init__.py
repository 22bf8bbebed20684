"""Guaranteed ranges of statistics from released intervals."""
