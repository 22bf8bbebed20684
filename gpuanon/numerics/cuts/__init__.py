"""Median cuts: rows divided into blocks of near rows."""
