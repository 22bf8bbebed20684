"""Where the tasks of a run are executed: this process, or the workers of a Dask client."""
