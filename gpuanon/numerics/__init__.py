"""Numerical building blocks: each function runs where its arrays live (NumPy or CuPy)."""
