"""Measures of risk and utility, and what they are computed from."""
