#!/bin/sh
# verify.sh GROUP STATE: says which accounts of a group, each of one member's runs, lack their folder, or may look where others'
# runs are; "#" and their number at last.
group=$1 state=$2 count=0
for account in $(getent group "$group" | cut -d : -f 4 | tr , ' '); do
    count=$((count + 1))
    own=$state/homes/$account
    as() { runuser --user="$account" -- "$@" 2> /dev/null; }
    as test -w "$own" || echo "$account has no folder $own: run provision again"
    for one in "$state"/* "$state"/.[!.]* "$state"/homes/* /etc/regatta/ray_token /etc/regatta/spark; do
        case $one in "$own" | "$state/homes" | *'/*' | *'/.[!.]*') continue ;; esac
        ! as test -r "$one" || echo "$account may read $one: run provision again"
    done
done
echo "# $count"
