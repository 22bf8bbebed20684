"""Propensity scores: how well a model tells original and release apart."""
