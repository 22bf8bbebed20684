"""Numerical building blocks: each function runs on the device of its arrays (NumPy or CuPy)."""
