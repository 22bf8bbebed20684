"""Comparison of recipes: methods × parameters, their risk and utility."""
