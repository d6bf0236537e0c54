#!/usr/bin/env bash
# `tools/test.sh [all|unit|local|lab|whole]`: lint, unit tests, tests of this machine alone, lab tests (whole: those that take
# too long for CI). Lab tests need root and
# systemd-nspawn: where they cannot run they are named and left out, but fail where CI is set. Lint and the controller's
# unit tests run beside those of the workloads, which mostly wait for processes of their own; what they say comes after.
set -euo pipefail
cd "$(dirname "$0")/.."
part=${1:-all}
what=0

run() {
    printf '\n== %s\n' "$1"
    shift
    "$@" || what=1
}

export PATH="$PWD/.venv/bin:$PATH"
case "$part" in
    all | unit | local | lab | whole) ;;
    *) echo "test: unknown part '$part': all, unit, local, lab or whole" >&2; exit 2 ;;
esac
has() { [ "$part" = all ] || [ "$part" = "$1" ]; }

beside() {
    what=0
    if [ "$part" = all ]; then
        run "lint and types" tools/lint.sh
    fi
    run "unit tests: controller, lab, local runs" .venv/bin/python -m pytest -q tests/unit --ignore tests/unit/workloads
    exit "$what"
}

if has unit; then
    said=$(mktemp)
    set -m
    beside >"$said" 2>&1 &
    pid=$!
    set +m
    trap 'kill -INT -- "-$pid" 2>/dev/null; wait "$pid"; rm -f "$said"' EXIT
    run "unit tests: workloads" .venv-node/bin/python -m pytest -q tests/unit/workloads
    wait "$pid" || what=1
    trap - EXIT
    cat "$said"
    rm -f "$said"
fi
if has local; then
    run "this machine alone, for a user without privileges" .venv/bin/python -m pytest -q tests/local
fi
if has lab || [ "$part" = whole ]; then
    chosen=(tests/lab -m "not whole")
    [ "$part" = whole ] && chosen=(tests/lab -m whole --ignore tests/lab/faults)
    if problem=$(.venv/bin/python -m lab check 2>&1); then
        run "lab tests: real hosts" .venv/bin/python -m pytest -q --durations=30 "${chosen[@]}"
    elif [ -n "${CI:-}${REGATTA_REQUIRE_LAB:-}" ]; then
        printf '\nThe lab tests cannot run here, and must:\n%s\n' "$problem" >&2
        what=1
    else
        printf '\nSKIPPED: the lab tests (tests/lab), because this machine cannot make hosts:\n%s\n' "$problem"
    fi
fi
exit "$what"
