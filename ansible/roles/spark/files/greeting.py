"""Before a worker on the head: wait until a master that comes back after a crash has done so.

It greets the workers that it knew. One that begins meanwhile at the same address would take that for its admission, and
never join. Arguments: the folder where the master keeps what it knows, and the port of its page on loopback.
"""

import json
import os
import sys
import time
import urllib.request

SECONDS = 45.0
"""Longer than a master waits for the workers that it knew (`spark.deploy.recoveryTimeout`)."""


def knows(folder):
    """Whether there is anything that a master knows."""
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def stands(port):
    """Whether the master works, and has ended to ask those that it knew."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
            return json.load(answer)["status"] == "ALIVE"
    except (OSError, ValueError, KeyError):
        return False


folder, port = sys.argv[1:]
until = time.monotonic() + SECONDS
while knows(folder) and not stands(port) and time.monotonic() < until:
    time.sleep(0.5)
