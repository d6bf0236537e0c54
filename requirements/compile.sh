#!/usr/bin/env bash
# Resolve requirements/*.in into *.lock for every Python from 3.10 on. `make locks` calls it; versions in a lock
# stay unless they no longer fit. `make locks UPGRADE=yes` takes the newest ones.
#
# torch is pinned in node.in and resolved without the CUDA packages that its default build pulls
# in: which build (CPU or CUDA) a cluster gets is the choice of the wheel index, not of the lock.
set -euo pipefail
cd "$(dirname "$0")"
uv=${UV:-../.venv/bin/uv}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for name in controller dev node node-test; do
    if [[ ${UPGRADE:-no} != yes && -e $name.lock ]]; then
        cp "$name.lock" "$new/$name.lock"
    fi
    "$uv" pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header \
        --output-file "$new/$name.lock" "$name.in"
    {
        echo "# Made by 'make locks' from $name.in: edit that file, not this one."
        grep -Ev '^(#|nvidia-|cuda-|triton)' "$new/$name.lock"
    } > "$name.lock.new"
    mv "$name.lock.new" "$name.lock"
done
