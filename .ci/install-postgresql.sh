#!/usr/bin/env bash
# Debian's package of the server that tests start for themselves.  Where it cannot be installed it says why; those
# tests are then skipped, and say so.
set -uo pipefail
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && exit 0
[ "$(id -u)" = 0 ] || { echo "PostgreSQL not installed: needs root" >&2; exit 77; }
command -v apt-get >/dev/null || { echo "PostgreSQL not installed: needs apt-get" >&2; exit 77; }
export DEBIAN_FRONTEND=noninteractive
timeout 300 apt-get update -qq
timeout 600 apt-get install -qq -y --no-install-recommends postgresql >/dev/null ||
    { echo "PostgreSQL not installed: apt-get failed" >&2; exit 77; }
