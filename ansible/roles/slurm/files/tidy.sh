#!/bin/sh
# Made by Regatta (ansible/roles/slurm), after each start of slurmctld: submits again what it had not yet on the disk when
# the head was switched off, and ends the jobs whose holder is gone since then, when no run is in progress on their nodes.
until sinfo > /dev/null 2>&1; do
    sleep 1
done
for copy in /var/lib/slurm/regatta/*; do
    run=${copy##*/}
    if [ -e "$copy" ] && ! squeue --noheader --name="$run" --states=all | grep -q .; then
        sbatch --parsable < "$copy"
    fi
done
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
