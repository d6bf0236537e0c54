#!/bin/sh
# Made by Regatta (ansible/roles/slurm). Before slurmctld starts ("before"): notes of when its state on the disk is. After:
# submits again what waited and is not in that state, or all of the queue where there is none (what works then is only
# followed to its end); ends the jobs whose holder is gone since then, when no run is in progress on their nodes. For
# ten minutes ("resume") gives back nodes on which a run would have been begun twice.
copies=/var/lib/slurm/regatta known=/var/lib/slurm/regatta/.known state=/var/lib/slurm/slurmctld/job_state
if [ "$1" = before ]; then
    rm -f $known
    [ ! -d $copies ] || touch $copies/.starting
    [ ! -e $state ] || touch -r $state $known
    exit 0
fi
until sinfo > /dev/null 2>&1; do
    sleep 1
done
if [ "$1" = resume ]; then
    # A run that has begun after its state on the disk is begun once more: Slurm ends it, and takes its node out.
    for _ in $(seq 120); do
        for node in $(sinfo --noheader --Node --states=drain --format='%N|%E' | sed -n 's/|Duplicate jobid$//p'); do
            scontrol update nodename="$node" state=resume
        done
        sleep 5
    done
    exit 0
fi

# Submits a copy; what it waits for has another number now.
submit() {
    after=$(sed -n 's/^# After //p' "$1")
    job=$([ -z "$after" ] || squeue --noheader --user=root --states=all --format=%i --name="$after" | tail -n 1)
    if [ -n "$after" ] && [ -z "$job" ]; then
        grep -v '^#SBATCH --dependency' "$1" | sbatch --hold --parsable
    else
        sed "s/afterok:[0-9]*/afterok:$job/" "$1" | sbatch --parsable
    fi
}

# Runs that nodes know, each after its node; all nodes are free where the state is gone.
begun() {
    for node in $(sinfo --noheader --Node --format=%N); do
        timeout 60 srun --immediate=50 --quiet --nodelist="$node" ls "$1" 2> /dev/null < /dev/null | sed "s/^/$node /"
    done
}

# Submits the copy of a run that has begun, to follow it on its nodes, if it has begun on all of them.
follow() {
    nodes=$(awk -v run="$1" '$2 == run { print $1 }' /run/regatta-queue.begun | paste -s -d ,)
    if grep -q "^#SBATCH --nodes=\"$(echo "$nodes" | tr , '\n' | wc -l)\"" "$copies/$1"; then
        sed -e '/^#SBATCH --dependency/d' -e 's/^what=run$/what=follow/' "$copies/$1" |
            sbatch --priority=2000001 --nodelist="$nodes"
    else
        rm "$copies/$1"
    fi
}

# Runs with a controller, and others that work, hold their nodes.
hold() {
    for node in $(sinfo --noheader --Node --format=%N); do
        sbatch --job-name=begun-before --nodelist="$node" --exclusive --priority=2000000 --output=/dev/null \
            --wrap="while systemctl is-active 'regatta-run-*.service' | grep -q '^active'; do sleep 2; done"
    done
}

find $copies -type f ! -name '.*' -printf '%T@ %f\n' 2> /dev/null | sort -n | cut -d ' ' -f 2 > /run/regatta-queue.waiting
: > /run/regatta-queue.begun
if [ ! -e $known ] && [ -s /run/regatta-queue.waiting ]; then
    begun "$(sed -n 's/^# Runs are in //p' "$copies/$(head -n 1 /run/regatta-queue.waiting)")" > /run/regatta-queue.begun
    while read -r copy; do
        ! awk '{ print $2 }' /run/regatta-queue.begun | grep -qxF "$copy" || follow "$copy"
    done < /run/regatta-queue.waiting
    hold
fi
while read -r copy; do
    if [ ! -e "$copies/$copy" ] || squeue --noheader --user=root --states=all --name="$copy" | grep -q .; then
        continue
    fi
    if [ -e $known ] && [ ! "$copies/$copy" -nt $known ]; then
        rm "$copies/$copy"
    else
        submit "$copies/$copy"
    fi
done < /run/regatta-queue.waiting
rm -f $copies/.starting
for further in "$copies"/.further-*; do # of elastic runs; one that is followed still has such a unit
    [ ! -e "$further" ] || systemd-run --quiet --collect --unit="regatta-further-${further##*/.further-}" \
        /usr/bin/python3 -IS "$further" 2> /dev/null || true
done
while :; do
    left=
    for job in $(squeue --noheader --user=root --format='%i:%t:%j|%k' | sed -n 's/^\([^|]*\)|regatta: .*/\1/p'); do
        number=${job%%:*} run=${job##*:}
        if systemctl is-active --quiet "regatta-hold-$run.service"; then
            continue
        fi
        case $job in
            *:R:*)
                if timeout 20 srun --jobid="$number" --overlap --quiet --ntasks-per-node=1 \
                    systemctl is-active 'regatta-run-*.service' 2> /dev/null < /dev/null | grep -q '^active'; then
                    left=yes
                    continue
                fi
                ;;
        esac
        scancel "$number"
    done
    [ -n "$left" ] || exit 0
    sleep 5
done
