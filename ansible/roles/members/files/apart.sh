#!/bin/sh
# Of members, each as NAME:NUMBER, what has the name or number of their own accounts for runs here ("+" an account, "@" a
# group), and numbers that this host lacks or has given away ("!").
for member in "$@"; do
    name=regatta-${member%%:*}
    number=$((${member##*:} + 65000))
    for one in "$name" "$number"; do
        getent passwd "$one" | sed 's/^/+/'
        getent group "$one" | sed 's/^/@/'
    done
done
awk '$1 <= 66000 && $1 + $3 >= 100000 { all = 1 } END { if (!all) print "!this container has too few numbers" }' /proc/self/uid_map
for file in /etc/subuid /etc/subgid; do
    [ ! -e $file ] || awk -F: -v file=$file \
        '$2 < 100000 && $2 + $3 > 66000 { print "!" file " gives numbers to " $1 }' $file
done
exit 0
