"""ssh as rsync starts it, where sudo on the node may ask: `python rsyncssh.py SSH...`.

The beginning of what ssh reads is the variable `REGATTA_SUDO`; then comes what rsync sends. It ends when ssh does.
With `REGATTA_GATE` instead, the gate for members starts the other rsync: this rsync names it as the program to start,
and the gate gets only its short options, with the request in the file that the variable names.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

BLOCK = 1 << 20


def main() -> int:
    """Return ssh's exit code."""
    words = sys.argv[1:]
    if asked := os.environ.pop("REGATTA_GATE", ""):
        at = words.index("--server")
        text = json.dumps({**json.loads(Path(asked).read_text()), "flags": words[at + 2]}).encode()
        first, words = b"%08d" % len(text) + text, words[:at]
    else:
        first = os.environb.pop(b"REGATTA_SUDO")
    process = subprocess.Popen(words, stdin=subprocess.PIPE, bufsize=0)
    assert process.stdin
    threading.Thread(target=_give, args=(first, process.stdin.fileno()), daemon=True).start()
    code = process.wait()
    sys.stdout.flush()
    os._exit(code if code >= 0 else 255)  # rsync keeps its end open until we are gone


def _give(first: bytes, there: int) -> None:
    with contextlib.suppress(OSError):
        data = first
        while data:
            while data:
                data = data[os.write(there, data) :]
            data = os.read(0, BLOCK)
    with contextlib.suppress(OSError):
        os.close(there)


if __name__ == "__main__":
    main()
