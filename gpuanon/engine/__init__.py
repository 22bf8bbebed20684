"""Runs from reading a table to the written release."""
