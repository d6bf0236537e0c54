#!/bin/sh
# members.sh POINTS KEYS HOW ACCOUNT...: the keys by which this host mounts the folder of each account ("key NAME TYPE KEY"), and
# folders in POINTS of accounts that are no more ("left NAME"). HOW: "keep" makes keys that are missing, "new" all of them
# ("made NAME"); "none" makes none, and "look" changes nothing.
set -eu
points=$1 keys=$2 how=$3
shift 3
[ "$how" = look ] || mkdir -p "$keys"
for name; do
    if [ "$how" = new ] || { [ "$how" = keep ] && [ ! -e "$keys/$name.pub" ]; }; then
        rm -f "$keys/$name" "$keys/$name.pub"
        ssh-keygen -q -t ed25519 -N "" -C "$name" -f "$keys/$name"
        echo "made $name"
    fi
    [ ! -e "$keys/$name" ] || [ "$how" = look ] || { chgrp "$name" "$keys/$name" && chmod 0640 "$keys/$name"; }
    [ ! -e "$keys/$name" ] || echo "key $name $(cut -d ' ' -f 1,2 "$keys/$name.pub")"
done
known=" $* "
for one in "$keys"/* "$points"/*; do
    name=${one##*/}
    case $known$one in *" ${name%.pub} "* | *'/*') continue ;; esac
    case $one in
        "$keys"/*) [ "$how" = look ] || rm -f "$one" ;;
        *) echo "left $name" ;;
    esac
done
