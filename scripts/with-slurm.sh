#!/bin/sh
# A Slurm cluster on this machine for as long as a command runs: one controller and two nodes.
#
#     scripts/with-slurm.sh sweetspot bench --launcher "srun -N1 -n1 --exclusive" plan.toml
#
# Root is needed, and: apt-get install slurm-wlm munge. Everything lies in one temporary folder, on
# ports of its own, so that a cluster which is there already is not touched.
set -eu

test $# -gt 0 || { echo "usage: $0 COMMAND..." >&2; exit 2; }
for program in munged slurmctld slurmd srun; do
    command -v "$program" >/dev/null || {
        echo "$0: no $program: apt-get install slurm-wlm munge" >&2
        exit 125
    }
done

folder=$(mktemp -d)
chmod 711 "$folder"
pids=
stop() {
    trap - EXIT INT TERM
    # A step that ends needs the controller and munge: so nodes first, when nothing runs on them.
    for _ in $(seq 100); do
        test -z "$(squeue -h 2>/dev/null)" && break
        sleep 0.1
    done
    for pid in $pids; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM

mkdir "$folder/state"
dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 2>/dev/null
chmod 600 "$folder/munge.key"
cat >"$folder/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmctldPort=26817
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
NodeName=node1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=27001 CPUs=1
NodeName=node2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=27002 CPUs=1
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$folder/slurm.conf"

begin() {
    "$@" >"$folder/$1.out" 2>&1 &
    pids="$! $pids"
}
begin munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
for _ in $(seq 100); do test -S "$folder/munge.socket" && break; sleep 0.1; done
begin slurmctld -D -f "$SLURM_CONF"
begin slurmd -D -N node1 -f "$SLURM_CONF"
begin slurmd -D -N node2 -f "$SLURM_CONF"
for _ in $(seq 300); do
    test "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 && break
    sleep 0.1
done
test "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 || {
    echo "$0: the nodes do not come up; what they say:" >&2
    tail -n 5 "$folder"/*.log "$folder"/*.out >&2
    exit 125
}
"$@"
