#!/bin/sh
# Made by Regatta (ansible/roles/slurm). Before slurmctld starts ("before"): notes of when its state on the disk is. After:
# submits again what waited and is not in that state, or all that waited where there is none; ends the jobs whose holder is
# gone since then, when no run is in progress on their nodes.
copies=/var/lib/slurm/regatta known=/var/lib/slurm/regatta/.known state=/var/lib/slurm/slurmctld/job_state
if [ "$1" = before ]; then
    rm -f $known
    [ ! -e $state ] || touch -r $state $known
    exit 0
fi
until sinfo > /dev/null 2>&1; do
    sleep 1
done

# Submits a copy; what it waits for has another number now.
submit() {
    after=$(sed -n 's/^# After //p' "$1")
    job=$([ -z "$after" ] || squeue --noheader --states=all --format=%i --name="$after" | tail -n 1)
    if [ -n "$after" ] && [ -z "$job" ]; then
        grep -v '^#SBATCH --dependency' "$1" | sbatch --hold --parsable
    else
        sed "s/afterok:[0-9]*/afterok:$job/" "$1" | sbatch --parsable
    fi
}

# Runs that nodes know, which had begun; all nodes are free where the state is gone. Those that work hold their nodes.
begun() {
    for node in $(sinfo --noheader --Node --format=%N); do
        timeout 60 srun --immediate=50 --quiet --nodelist="$node" ls "$1" 2> /dev/null < /dev/null
        sbatch --job-name=begun-before --nodelist="$node" --exclusive --priority=2000000 --output=/dev/null \
            --wrap="while systemctl is-active 'regatta-run-*.service' | grep -q '^active'; do sleep 2; done" > /dev/null
    done
}

found=
find $copies -type f ! -name '.*' -printf '%T@ %f\n' 2> /dev/null | sort -n | cut -d ' ' -f 2 > /run/regatta-queue.waiting
while read -r copy; do
    if squeue --noheader --states=all --name="$copy" | grep -q .; then
        continue
    fi
    if [ -e $known ] && [ ! "$copies/$copy" -nt $known ]; then
        rm "$copies/$copy"
        continue
    fi
    if [ ! -e $known ] && [ -z "$found" ]; then
        found=" $(begun "$(sed -n 's/^# Runs are in //p' "$copies/$copy")" | tr '\n' ' ') "
    fi
    case "$found" in
        *" $copy "*) rm "$copies/$copy" ;;
        *) submit "$copies/$copy" ;;
    esac
done < /run/regatta-queue.waiting
while :; do
    left=
    for job in $(squeue --noheader --format='%i:%t:%j|%k' | sed -n 's/^\([^|]*\)|regatta: .*/\1/p'); do
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
