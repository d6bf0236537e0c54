#!/bin/sh
# verify.sh GROUP STATE: says which accounts of a group, each of one member's runs, lack their folder, or may look where others'
# runs are; "#" and their number at last.
group=$1 state=$2 count=0
mounts=/etc/systemd/system/regatta-shared-folder@.service
for account in $(getent group "$group" | cut -d : -f 4 | tr , ' '); do
    count=$((count + 1))
    own=$state/homes/$account share=$state/members/$account
    as() { runuser --user="$account" -- "$@" 2> /dev/null; }
    as test -w "$own" || echo "$account has no folder $own: run provision again"
    if [ -e "$mounts" ] && ! timeout 40 runuser --user="$account" -- test -w "$share" 2> /dev/null; then
        echo "$account cannot write to $share, where its runs share files: systemctl status 'regatta-shared-folder@$account'"
    fi
    for one in "$state"/* "$state"/.[!.]* "$state"/homes/* "$state"/members/* /etc/regatta/ray_token /etc/regatta/spark; do
        case $one in "$own" | "$share" | "$state/homes" | *'/*' | *'/.[!.]*') continue ;; esac
        ! as test -r "$one" || echo "$account may read $one: run provision again"
    done
done
echo "# $count"
