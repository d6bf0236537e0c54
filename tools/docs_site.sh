#!/usr/bin/env bash
# Make the site of the docs in build/docs: pages, contents, search. Warnings are errors. Nothing in it asks a network.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=requirements/docs.lock
if ! cmp -s "$lock" .venv-docs/.made-from; then
    echo "docs-site: making .venv-docs from $lock"
    .venv/bin/uv venv --quiet --clear .venv-docs
    UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}" UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}" \
        .venv/bin/uv pip install --quiet --python .venv-docs/bin/python --require-hashes -r "$lock"
    cp "$lock" .venv-docs/.made-from
fi
.venv-docs/bin/sphinx-build --quiet --fail-on-warning --fresh-env --doctree-dir build/docs-trees docs build/docs
echo "docs-site: build/docs/index.html"
