"""The main process of Ray's units: `ray start --block`, which also fails where one of its daemons ends in order.

A raylet whose agent was killed ends with exit code 0. `ray start --block` takes that for wanted and stays without a
raylet, so that systemd sees no failure.

    ray_main.py SECONDS start WORDS     SECONDS: how long a stop of the unit may take, in which daemons end in order
"""

import contextlib
import os
import select
import sys
import threading
import time

from ray.scripts.scripts import main as ray

LOOK_SECONDS = 0.2


def children(names):
    """Process ids of this process's children that have one of these names, by name."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            if name in names and int(rest.split()[1]) == os.getpid():
                found[name] = int(pid)
    return found


def watch(names, patience):
    """Wait until all have started, then until one has ended; where the unit is not stopped then, this process fails."""
    started = {}
    while missing := names - set(started.values()):
        time.sleep(LOOK_SECONDS)
        for name, pid in children(missing).items():
            with contextlib.suppress(ProcessLookupError):
                started[os.pidfd_open(pid)] = name
    ended = [started[handle] for handle in select.select(started, [], [])[0]]
    time.sleep(patience)
    print(f"{' and '.join(ended)} ended, and ray start continues without it: Ray restarts", file=sys.stderr, flush=True)
    os._exit(1)


def main():
    """Run ray's program in this process, watched."""
    del sys.path[0]  # the folder of this file
    patience = float(sys.argv.pop(1))
    sys.argv[0] = "ray"
    names = {"raylet", "gcs_server"} if "--head" in sys.argv else {"raylet"}
    threading.Thread(target=watch, args=(names, patience), daemon=True).start()
    ray()


if __name__ == "__main__":
    main()
