#!/usr/bin/env bash
# Make what Regatta needs on this machine: `tools/setup.sh controller` (system packages and .venv),
# `tools/setup.sh node` (.venv-node: torch and Ray for inventory/local and the workloads' tests) or
# `tools/setup.sh tests` (system packages that only tests use). With $BUNDLE, a file that `make bundle` wrote, a
# controller without a network gets .venv from there, without what tests and labs need.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n --preserve-env=http_proxy,https_proxy,no_proxy "$@"; fi
}

may_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

# Name the Debian packages that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || printf '%s ' "$package"
    done
}

needed=(git python3-venv python3-pip openssh-client rsync zstd)
for_labs=(mmdebstrap systemd-container nftables iproute2 btrfs-progs)
for_tests=(chromium fonts-dejavu-core nmap ssh-audit)

# Install these Debian packages, where that can be done.
system_packages() {
    local missing
    command -v dpkg-query >/dev/null || { say "no Debian packages here: other hosts than this one need ssh and rsync"; return; }
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if may_be_root; then
        say "installing $missing"
        as_root apt-get update -qq || say "some package lists could not be refreshed; continuing with the lists at hand"
        # shellcheck disable=SC2086
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=120 --no-install-recommends $missing >/dev/null
        return
    fi
    [ -f .venv/.made-from ] && return
    say "not root and no sudo without a password, so not installed: ${missing% }"
    say "inventory/local needs none of them; other hosts need ssh and rsync, make lab and make test the rest"
}

venv_works() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

# uv does not read pip's settings: a folder of wheels, a mirror, the machine's own certificates.
pip_setting() { .venv/bin/python -m pip config get "global.$1" 2>/dev/null || true; }

find_links() { printf '%s' "${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$(pip_setting find-links)}}"; }

# An index may have a password in it, which every user could read in a command line.
uv_pip_install() {
    local index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(pip_setting index-url)}}
    local -a quiet=()
    [ -t 2 ] || quiet=(--quiet) # on a terminal it shows what it downloads
    (
        [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
        [ "${PIP_KEYRING_PROVIDER:-}" != subprocess ] || export UV_KEYRING_PROVIDER="${UV_KEYRING_PROVIDER:-subprocess}"
        UV_FIND_LINKS="$(find_links)" UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}" .venv/bin/uv pip install "${quiet[@]}" "$@"
    )
}

have_torch_wheel() {
    local folder
    for folder in $(find_links); do
        compgen -G "$folder/torch-*.whl" >/dev/null && return 0
    done
    return 1
}

# Whether venv $1 was made from just these locks.
made_from() {
    local folder=$1
    shift
    cat "$@" | cmp -s - "$folder/.made-from" && "$folder/bin/python" -c '' 2>/dev/null
}

# Make venv $1 from the locks that $2 names, unless it was made from just these. A download has to be a file whose
# SHA-256 is there, also what a source is built with: that is the controller's.
environment() {
    local folder=$1 lock
    local -a locks named=()
    read -ra locks <<<"$2"
    shift 2
    local stamp="$folder/.made-from"
    if made_from "$folder" "${locks[@]}"; then return; fi
    say "making $folder from ${locks[*]}"
    rm -f "$stamp"
    if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
        venv_works || { say "python3 has no venv module: have root run 'apt-get install python3-venv'" >&2; exit 1; }
        python3 -m venv --clear "$folder"
    fi
    if [ ! -x .venv/bin/uv ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r <(entry uv)
    fi
    for lock in "${locks[@]}"; do named+=(-r "$lock"); done
    uv_pip_install --python "$folder/bin/python" "$@" --require-hashes \
        --require-build-hashes --build-constraints requirements/controller.lock "${named[@]}"
    compile_packages "$folder"
    cat "${locks[@]}" >"$stamp"
}

# The entry of package $1 in the controller's lock, with its hashes.
entry() { awk -v wanted="$1==" '/^[^ ]/ { found = index($0, wanted) == 1 } found' requirements/controller.lock; }

# Else every process would compile what it imports, where Python may not write (PYTHONDONTWRITEBYTECODE), or the first
# timed run would. Ansible's collections are many and hardly used. A file that cannot be compiled is no reason to stop.
compile_packages() {
    env -u PYTHONDONTWRITEBYTECODE "$1/bin/python" -m compileall -q -q -j 0 -x 'ansible_(collections|test)' "$1/lib" || true
}

# Make .venv of what a bundle brings, each file proven; nothing is asked of any network.
from_bundle() {
    local wheels missing=
    ! command -v dpkg-query >/dev/null || missing=$(missing_packages "${needed[@]}")
    [ -z "$missing" ] || say "these Debian packages are not installed, and a bundle has them only for the hosts: ${missing% }"
    wheels=$(python3 -m regatta.provisioning.bundle "$1") || { say "nothing was made" >&2; exit 1; }
    export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS=$wheels UV_FIND_LINKS=$wheels UV_OFFLINE=1
    unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_DEFAULT_INDEX UV_INDEX
    trap 'say "is the bundle of this version of Regatta, and SUITE= the release of this machine? It was made for that" >&2' EXIT
    environment .venv requirements/controller.lock --no-index
    trap - EXIT
}

case "${1:-controller}" in
    controller)
        if made_from .venv requirements/controller.lock; then
            : # from a bundle
        elif [ -n "${BUNDLE:-}" ] && ! made_from .venv requirements/dev.lock; then
            from_bundle "$BUNDLE"
        else
            system_packages "${needed[@]}" "${for_labs[@]}"
            environment .venv requirements/dev.lock
        fi
        version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
        { [ -x .venv/bin/regatta ] && compgen -G ".venv/lib/python3*/site-packages/regatta-$version.dist-info" >/dev/null &&
            .venv/bin/python -Ic 'import regatta, regatta_protocol' 2>/dev/null; } ||
            uv_pip_install --python .venv/bin/python --no-deps --no-build-isolation -e .
        ;;
    node)
        backend=()
        have_torch_wheel || backend=(--torch-backend=cpu)
        environment .venv-node "requirements/node-test.lock requirements/torch-cpu.lock" "${backend[@]}"
        ;;
    tests)
        system_packages "${for_tests[@]}"
        ;;
    *)
        say "unknown part '$1': controller, node or tests" >&2
        exit 2
        ;;
esac
