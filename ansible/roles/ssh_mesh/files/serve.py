"""Serves to another node's root over SSH: its name, and what it passes on as a relay.

    serve.py FOLDER...     the folders that it passes on from

sshd starts it for the account regatta-relay, whatever was asked for, which is in $SSH_ORIGINAL_COMMAND.
"""

import os
import re
import shlex
import sys

NODE = "/etc/regatta/node.json"
SENDER = ["rsync", "--server", "--sender"]
# One bundle of letters, of which `s` would hide the path, and what both sides can do; nothing that names a file.
OPTIONS = re.compile(r"-[A-Za-rt-z]+(e[0-9.]*[A-Za-z]*)?\Z|--timeout=[0-9]+\Z|--inplace\Z|--partial\Z")


def command(asked, folders):
    """The program to start and its arguments; None for what is refused."""
    try:
        words = shlex.split(asked)
    except ValueError:
        return None
    if len(words) == 2 and words[0] == "cat" and (words[1] == NODE or inside(words[1], folders)):
        return words
    if words[:3] != SENDER or len(words) < 5 or words[-2] != "." or not inside(words[-1], folders):
        return None
    options = words[3:-2]
    return words if all(OPTIONS.match(word) for word in options) else None


def inside(path, folders):
    """Whether a path, links followed, is in one of the folders."""
    real = os.path.realpath(path)
    return path.startswith("/") and any(real.startswith(os.path.join(os.path.realpath(one), "")) for one in folders)


def main():
    """Start what was asked for, or refuse it."""
    words = command(os.environ.get("SSH_ORIGINAL_COMMAND", ""), sys.argv[1:])
    if words is None:
        print("this key opens what a relay passes on, and no login", file=sys.stderr)
        sys.exit(1)
    os.execv(f"/usr/bin/{words[0]}", words)


if __name__ == "__main__":
    main()
