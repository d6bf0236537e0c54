#!/usr/bin/env bash
# Branch coverage of regatta/ and workloads/ by the unit tests, in each Python that runs them and in what they start.
set -euo pipefail
cd "$(dirname "$0")/.."
export COVERAGE_FILE
COVERAGE_FILE=$(mktemp -d)/data
trap 'rm -rf "$(dirname "$COVERAGE_FILE")"' EXIT
code=0
.venv/bin/coverage run -m pytest -q tests/unit --ignore tests/unit/workloads || code=$?
.venv-node/bin/coverage run -m pytest -q tests/unit/workloads || code=$?
.venv/bin/coverage combine --quiet
.venv/bin/coverage report
exit "$code"
