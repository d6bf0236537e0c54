#!/usr/bin/env bash
# Record a command in a terminal of 100 columns, and draw it: tools/cast.sh docs/images/demo make demo
# writes docs/images/demo.cast (asciinema) and docs/images/demo.svg, an animated picture. Needs npm.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?'which file? tools/cast.sh FILE COMMAND...'}
shift
mkdir -p "$(dirname "$name")"
.venv/bin/uv tool run --quiet --from asciinema==2.4.0 asciinema rec --quiet --overwrite --cols 100 --rows 36 \
    --idle-time-limit 1.5 --command "${*@Q}" "$name.cast"
npx --yes svg-term-cli@2.1.1 --in "$name.cast" --out "$name.svg" --window --no-cursor
