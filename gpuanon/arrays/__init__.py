"""Arrays on CPU or GPU: backend, kernels, random numbers, partitions, batches, threads."""
