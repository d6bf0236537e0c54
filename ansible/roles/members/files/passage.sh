#!/bin/sh
# passage.sh GROUP STATE ROOT: let a group pass the folders on the way to what its accounts own, without a look at the names
# there, after it is kept out of all else beside. Prints what it changes. "none" as ROOT takes all of it back.
group=$1 state=$2 root=$3

has() { # PERMISSIONS FOLDER
    getfacl --absolute-names --omit-header "$2" | grep -qx "group:$group:$1" && return
    setfacl --modify "group:$group:$1" "$2" || exit 1
    echo "$2"
}

set -- "$state"/* "$state"/.[!.]*
if [ "$root" = none ]; then
    for one in "$state" "$@"; do
        [ "$one" = "$state/shared" ] || [ -L "$one" ] || [ ! -d "$one" ] || setfacl --remove "group:$group" "$one" || exit 1
    done
    exit 0
fi
# A FUSE mount is not even root's to look at; whoever has brought another one has to close it.
case $(timeout 20 stat --format=%a "$state/shared" 2> /dev/null) in
    "" | *0) ;;
    *)
        echo "$state/shared is open to all accounts: close it (chmod o= there), as members_separate keeps runs apart" >&2
        exit 1
        ;;
esac
for one in "$@"; do
    case ${one##*/} in
        runs | data | homes | shared | members) ;;
        *) [ -L "$one" ] || [ ! -d "$one" ] || has --- "$one" ;;
    esac
done
for one in "$state/runs" "$state/data" "$root/releases" "$root/layers" "$state"; do
    has --x "$one"
done
