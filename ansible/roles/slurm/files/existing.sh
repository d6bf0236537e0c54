#!/bin/sh
# Says what another's Slurm lacks for runs: programs of it here; on the head, the nodes that are given, and leave to submit.
programs="scontrol srun"
[ $# -eq 0 ] || programs="$programs salloc sbatch scancel sinfo squeue"
for program in $programs; do
    command -v "$program" > /dev/null || lacks="$lacks $program"
done
if [ -n "$lacks" ]; then
    echo "the PATH of root has no$lacks"
    exit 0
fi
[ $# -gt 0 ] || exit 0
if ! nodes=$(sinfo --noheader --Node --format='%N %P' ${PARTITION:+--partition="$PARTITION"} 2>&1); then
    echo "it does not answer ($nodes)"
    exit 0
fi
# The default partition has a star behind its name.
[ -n "$PARTITION" ] || nodes=$(echo "$nodes" | grep '[*]$')
for node in "$@"; do
    echo "$nodes" | cut -d ' ' -f 1 | grep -qxF "$node" || others="$others $node"
done
if [ -n "$others" ]; then
    echo "its partition ${PARTITION:-by default} has no node named$others (a host of the inventory has the name that Slurm gives it)"
    exit 0
fi
all=$(echo "$@" | tr ' ' ,)
said=$(sbatch --test-only --exclusive --nodes=$# --nodelist="$all" ${PARTITION:+--partition="$PARTITION"} --wrap=true 2>&1) ||
    echo "root may not submit: $said"
