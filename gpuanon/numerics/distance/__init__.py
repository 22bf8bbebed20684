"""Distances between rows, and nearest rows."""
