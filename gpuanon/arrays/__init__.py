"""Arrays on either device: backend, kernels, random numbers, partitions, threads."""
