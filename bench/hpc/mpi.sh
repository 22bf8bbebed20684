#!/usr/bin/env bash
# The MPI road: `gpuanon protect --cluster mpi` under mpirun, four ranks on this machine.
source "$(dirname "$0")/common.sh"
need mpirun
prepare
"$BIN/python" -c 'import dask_mpi, mpi4py' 2>/dev/null || { echo "skipped: gpuanon[mpi] is not installed" >&2; exit 77; }
as_root=(); [ "$(id -u)" = 0 ] && as_root=(--allow-run-as-root)
export GPUANON_INTERFACE=lo
attacked mpirun "${as_root[@]}" --oversubscribe -n 4 \
    "$BIN/gpuanon" protect registry recipe.toml -o by-mpi --cluster mpi --cell 8000 --key-file key
same_as_expected by-mpi
