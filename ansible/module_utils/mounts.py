"""Mounts of this host."""

import os
import re

TABLE = "/proc/self/mountinfo"


def at_or_below(path, table=TABLE):
    """Points at a path or below it where something is mounted, in the order in which that was done.

    The path itself is not looked at, which may take its time where it is the mount of another host.
    """
    with open(table, encoding="utf-8", errors="surrogateescape") as file:
        points = [_plain(line.split(" ")[4]) for line in file]
    top = os.path.normpath(path)
    return [point for point in points if point == top or point.startswith(top.rstrip("/") + "/")]


def _plain(text):
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
