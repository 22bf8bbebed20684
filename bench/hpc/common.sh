# What the scripts here share: a registry in parts, a recipe, a key, and the comparison of two releases.
set -euo pipefail
BIN=${BIN:-$(dirname "$(command -v gpuanon || echo /missing/gpuanon)")}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=${WORK:-$(mktemp -d)}
umask 077

need() {
    for command in "$@"; do
        command -v "$command" >/dev/null || { echo "skipped: $command is not installed" >&2; exit 77; }
    done
}

prepare() {
    [ -x "$BIN/gpuanon" ] || { echo "skipped: no gpuanon in $BIN" >&2; exit 77; }
    "$BIN/python" - "$WORK" "${ROWS:-160000}" <<'PYTHON'
import sys
from pathlib import Path
import pyarrow.parquet as pq
from gpuanon.tables.registry import make_registry, registry_recipe

folder, rows = Path(sys.argv[1]), int(sys.argv[2])
(folder / "registry").mkdir()
table = make_registry(rows)
for part in range(4):
    pq.write_table(table.slice(part * rows // 4, rows // 4), folder / "registry" / f"{part}.parquet")
(folder / "recipe.toml").write_text(registry_recipe())
(folder / "key").write_text("a key that is no secret, for a registry that nobody is in")
PYTHON
    cd "$WORK"
    "$BIN/gpuanon" protect registry recipe.toml -o expected --workers 0 --cell 8000 --key-file key --quiet
}

# Run a command, and where we can become another account attack its cluster from there.
attacked() {
    if [ "$(id -u)" = 0 ]; then "$BIN/python" "$HERE/intruder.py" "$WORK" "$@"; else "$@"; fi
}

same_as_expected() {
    "$BIN/python" - "$1" <<'PYTHON'
import sys
import pyarrow.parquet as pq

same = pq.read_table("expected").equals(pq.read_table(sys.argv[1]))
print("same release" if same else "DIFFERENT release")
sys.exit(not same)
PYTHON
}
