#!/usr/bin/env bash
# Debian's packages for the two roads.  Where they cannot be installed it says why; the roads then pass over themselves.
set -uo pipefail
[ "$(id -u)" = 0 ] || { echo "not installed: needs root" >&2; exit 77; }
command -v apt-get >/dev/null || { echo "not installed: needs apt-get" >&2; exit 77; }
export DEBIAN_FRONTEND=noninteractive
timeout 300 apt-get update -qq
timeout 900 apt-get install -qq -y --no-install-recommends \
    openmpi-bin libopenmpi-dev slurmctld slurmd slurm-client munge procps >/dev/null ||
    { echo "not installed: apt-get failed" >&2; exit 77; }
