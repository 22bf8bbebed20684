"""Masks: groups × basis × operation, their contract, their claims, and the catalogue of published methods."""
