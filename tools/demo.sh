#!/usr/bin/env bash
# The whole of Regatta in one command: on temporary hosts where this machine can make them, else on this machine only.
# An inventory given as argument is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
workers=${WORKERS:-4}
lab=${LAB:-lab}
inventory=${1:-}

can_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

if [ "${inventory%/}" = inventory/local ]; then
    inventory=inventory/local
    echo "demo: this machine only (inventory/local)"
elif [ -n "$inventory" ]; then
    echo "demo: the hosts of $inventory"
elif python3 -m lab check >/dev/null 2>&1 || { can_be_root && command -v apt-get >/dev/null; }; then
    inventory=inventory/$lab
    echo "demo: 3 temporary hosts on this machine (systemd-nspawn)"
else
    inventory=inventory/local
    echo "demo: this machine only (inventory/local), since it cannot make temporary hosts"
fi
tools/setup.sh controller
if [ "$inventory" = "inventory/$lab" ] && ! python -m lab check; then
    inventory=inventory/local
    echo "demo: so this machine only (inventory/local) instead"
fi
if [ "$inventory" = "inventory/$lab" ]; then
    python -m lab up --name "$lab" --nodes 3
fi
export REGATTA_INVENTORY=$inventory

if [ "$inventory" = inventory/local ]; then
    tools/setup.sh node
else
    verbose=()
    case ${VERBOSE:-no} in no | 0) ;; *) verbose=(--verbose) ;; esac
    for command in provision verify; do
        python -m regatta.provisioning.commands "$command" --inventory "$inventory" "${verbose[@]}"
    done
fi
regatta run-ppr --workers "$workers"
echo
if [ "$inventory" = inventory/local ]; then
    echo "More of it: export REGATTA_INVENTORY=inventory/local PATH=\"$PWD/.venv/bin:\$PATH\""
    echo "then 'regatta torchrun SCRIPT ARGS', 'regatta rayrun SCRIPT ARGS', 'regatta runs', 'regatta help'."
elif [ "$inventory" = "inventory/$lab" ]; then
    echo "The hosts stay: export REGATTA_INVENTORY=$inventory PATH=\"$PWD/.venv/bin:\$PATH\""
    echo "then 'regatta status', 'regatta torchrun SCRIPT ARGS', 'regatta runs'. Remove them: make lab-down$([ "$lab" = lab ] || echo " LAB=$lab")"
fi
