#!/usr/bin/env bash
# Record a command in a terminal of 100 columns, and draw it: tools/cast.sh docs/images/demo make demo
# writes docs/images/demo.cast (asciinema) and docs/images/demo.svg, an animated picture. Needs npm.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?'which file? tools/cast.sh FILE COMMAND...'}
shift
mkdir -p "$(dirname "$name")"
# Outside of the tree, which the command may synchronise.
recorded=$(mktemp)
trap 'rm -f "$recorded"' EXIT
.venv/bin/uv tool run --quiet --from asciinema==2.4.0 asciinema rec --quiet --overwrite --cols 100 --rows 36 \
    --idle-time-limit 1 --command "${*@Q}" "$recorded"
# Output within half a second is one frame: spinners make hundreds.
.venv/bin/python - "$recorded" >"$name.cast" <<'END'
import json
import sys

head, *events = map(json.loads, open(sys.argv[1]))
print(json.dumps(head))
frames: list[tuple[float, str]] = []
for at, kind, text in events:
    if kind == "o" and frames and at - frames[-1][0] < 0.5:
        frames[-1] = frames[-1][0], frames[-1][1] + text
    elif kind == "o":
        frames.append((at, text))
for at, text in frames:
    print(json.dumps([at, "o", text]))
END
npx --yes svg-term-cli@2.1.1 --in "$name.cast" --out "$name.svg" --window --no-cursor
