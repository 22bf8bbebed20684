"""Greedy groupings: what k-member and MDAV share."""
