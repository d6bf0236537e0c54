#!/usr/bin/env bash
# Lint and types, all of it, then one exit code.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PATH"
failed=0

check() {
    printf '== %s\n' "$*"
    "$@" || failed=1
}

check ruff check .
check ruff format --check .
check mypy
check mypy ansible/roles/*/filter_plugins/*.py ansible/playbooks/filter_plugins/*.py tools/role_readmes.py
check python -m tools.plain_words
check yamllint --strict ansible inventory/example inventory/local
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
check shellcheck "${scripts[@]}"
(cd ansible && check ansible-lint --offline --profile production) || failed=1
exit "$failed"
