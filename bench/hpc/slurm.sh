#!/usr/bin/env bash
# The Slurm road: a controller and a node on loopback, workers as Slurm jobs, a job array, and a job that is requeued.
source "$(dirname "$0")/common.sh"
JOBS=$(cd "$(dirname "$0")/../../docker/slurm" && pwd)
need slurmctld slurmd sbatch munged
[ "$(id -u)" = 0 ] || { echo "skipped: starting munged and slurmd needs root" >&2; exit 77; }
prepare
"$BIN/python" -c 'import dask_jobqueue' 2>/dev/null || { echo "skipped: gpuanon[hpc] is not installed" >&2; exit 77; }

HOST=$(hostname -s)
STATE=$WORK/slurm
mkdir -p "$STATE/spool" "$STATE/state" /run/munge
chmod 755 "$WORK" "$STATE"
[ -f /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1 count=1024 status=none; chown munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key; }
chown munge /run/munge; chmod 755 /run/munge
cat > "$STATE/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$STATE/state
SlurmdSpoolDir=$STATE/spool
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmctldParameters=enable_configless
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes=$HOST Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$STATE/slurm.conf
finish() {
    scancel --user root 2>/dev/null || true
    for name in slurmd slurmctld; do [ -f "$STATE/$name.pid" ] && kill "$(cat "$STATE/$name.pid")" 2>/dev/null || true; done
    [ -z "${MUNGE:-}" ] || kill "$MUNGE" 2>/dev/null || true
}
trap finish EXIT
pgrep -x munged >/dev/null || { runuser -u munge -- munged --foreground & MUNGE=$!; sleep 1; }
slurmctld && slurmd || { echo "skipped: Slurm does not start on this machine" >&2; exit 77; }
for _ in $(seq 30); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 1; done
sinfo | grep idle || { echo "skipped: Slurm's node does not answer on this machine" >&2; exit 77; }

mkdir -p "$WORK/dask"
cat > "$WORK/dask/jobqueue.yaml" <<YAML
jobqueue:
  slurm:
    cores: 1
    processes: 1
    memory: 2GB
    interface: lo
    walltime: "00:20:00"
    job-extra-directives: ["--chdir=$WORK"]
    job-script-prologue: ["export GPUANON_THREADS=1"]
    log-directory: $STATE
    shebang: "#!/usr/bin/env bash"
YAML
export DASK_CONFIG=$WORK/dask
attacked "$BIN/gpuanon" protect registry recipe.toml -o by-slurm --cluster slurm --workers 2 --cell 8000 --key-file key
same_as_expected by-slurm

# A job array: one task a recipe.
mkdir -p recipes
for k in 5 10; do sed "s/k = 5/k = $k/" recipe.toml > "recipes/k$k.toml"; done
PATH=$BIN:$PATH sbatch --wait --mem=2G --cpus-per-task=1 --array=0-1 --output="$STATE/array-%a.log" "$JOBS/array.sbatch" registry recipes releases
ls releases/k5.parquet releases/k10.parquet

# A job that is requeued goes on where it was.
cat > requeued.sbatch <<JOB
#!/usr/bin/env bash
#SBATCH --requeue --mem=2G --output=$STATE/requeued.log --open-mode=append
resume=(); [ "\${SLURM_RESTART_COUNT:-0}" -gt 0 ] && resume=(--resume)
exec "$BIN/gpuanon" protect registry recipe.toml -o by-requeue --workers 0 --cell 8000 --key-file key "\${resume[@]}"
JOB
job=$(sbatch --parsable requeued.sbatch)
for _ in $(seq 100); do [ -f .by-requeue.gpuanon-work/place-0-00001.result ] && break; sleep 0.1; done
scontrol requeue "$job" || true
# Slurm delays a requeued job; it may be told to start only when the first run has ended.
for _ in $(seq 200); do
    [ -d by-requeue ] && break
    scontrol update jobid="$job" starttime=now 2>/dev/null || true
    sleep 2
done
same_as_expected by-requeue
