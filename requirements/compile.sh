#!/usr/bin/env bash
# Resolve requirements/*.in into *.lock for every Python from 3.10 on, with the SHA-256 of every file. `make locks` calls
# it; versions in a lock stay unless they no longer fit. `make locks UPGRADE=yes` takes the newest ones.
#
# torch is pinned in node.in. The nodes' locks have neither torch nor the CUDA packages that its builds pull in: which
# build a cluster gets is its owner's choice, and each has a lock of its own beside them, torch-<build>.lock.
# torch-pypi.lock, the build of the ordinary index, is made here. `requirements/compile.sh torch BUILD`, that is
# `make torch-lock BUILD=cpu`, makes that of a build with a local label from the index of PyTorch ($TORCH_INDEX).
set -euo pipefail
cd "$(dirname "$0")"
uv=${UV:-../.venv/bin/uv}
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

compile() {
    "$uv" pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header --generate-hashes "$@"
}

# The entries of lock $1 that belong to torch's build (yes), or the others (no): each with its hashes or not at all.
entries() {
    awk -v wanted="$2" '
        /^[^ #]/ { torch = /^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==/ ? "yes" : "no" }
        /^[^#]/ && torch == wanted' "$1"
}

# Standard input becomes lock $1, in one step.
write() {
    { echo "# Made by '$2' from $3: edit that file, not this one."; cat; } > "$1.new"
    mv "$1.new" "$1"
}

if [[ ${1:-} == torch ]]; then
    build=${2:?which build of torch: cpu, cu126, ...}
    version=$(sed -n 's/^torch==//p' node.in)
    echo "torch==$version+$build" > "$new/torch.in"
    # The versions of all other packages are those of node.lock.
    compile --index "${TORCH_INDEX:-https://download.pytorch.org/whl/$build}" --index-strategy unsafe-best-match \
        --constraints node.lock --output-file "$new/torch.lock" "$new/torch.in"
    entries "$new/torch.lock" yes | write "torch-$build.lock" "make torch-lock BUILD=$build" node.in
    exit
fi

for name in controller dev docs node node-test store-test networks-test; do
    if [[ ${UPGRADE:-no} != yes && -e $name.lock ]]; then
        cat "$name.lock" > "$new/$name.lock"
        [[ $name != node* ]] || cat torch-pypi.lock >> "$new/$name.lock"
    fi
    compile --output-file "$new/$name.lock" "$name.in"
    entries "$new/$name.lock" no | write "$name.lock" "make locks" "$name.in"
done
# Spark 4.3 is for Python 3.11 and newer, and needs of its requirements only py4j, which its own archive brings.
if [[ ${UPGRADE:-no} == yes || ! -e spark.lock ]]; then
    compile --python-version 3.11 --no-deps --output-file "$new/spark.lock" spark.in
    write spark.lock "make locks" spark.in < "$new/spark.lock"
fi
entries "$new/node.lock" yes | write torch-pypi.lock "make locks" node.in

# What frameworks bring as layers, in versions that go with the nodes' own, which the lock does not repeat.
[[ ${UPGRADE:-no} == yes || ! -e layers.lock ]] || cat layers.lock > "$new/layers.lock"
compile --constraints "$new/node.lock" --output-file "$new/layers.lock" layers.in
awk '
    /^[^ #]/ { name = $1; sub(/==.*/, "", name) }
    NR == FNR { if (/^[^ #]/) nodes[name] = 1; next }
    /^[^#]/ && !(name in nodes)' "$new/node.lock" "$new/layers.lock" | write layers.lock "make locks" layers.in
