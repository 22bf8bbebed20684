"""Risk: what an intruder learns from a release."""
