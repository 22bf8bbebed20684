"""Utility: what a release still says about the data it came from."""
