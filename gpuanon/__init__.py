"""gpuanon: high-throughput anonymization of microdata, on NumPy or CUDA, on one machine or many."""

__version__ = "0.1.0"
