"""``python -m workloads.stars.check FILE``: read a CSV as the nodes will, and say what it is or what is wrong.

One line on standard output, and status 2 where a node would refuse the file. Without torch and machine code: this runs
where the controller runs, before the file goes to the nodes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from workloads.common.events import BAD_INPUT_STATUS, BadInput
from workloads.stars import csvfile, own


def check(paths: Sequence[str], label: str | None = None, bad: str = csvfile.REFUSE) -> str:
    """Return what the only file holds, in a line. Raises :class:`BadInput`, also where there are several."""
    if len(paths) != 1:
        raise BadInput(f"{', '.join(paths[:3])}: {len(paths)} files, and one CSV is meant: give one")
    found = own.label_of(paths[0], label)
    left_out: Counter[str] = Counter()
    if found is not None:
        read = own.read(paths[0], found, bad)
        counts = np.bincount(read.labels, minlength=len(read.classes)).tolist()
        named = [f"{count:,} {name}" for name, count in zip(read.classes, counts, strict=True)]
        left_out, rows = read.left_out, len(read.labels)
        held = ", ".join(named[:5]) + (", ..." if len(named) > 5 else "")
        if read.dropped:
            held += f"; without {', '.join(read.dropped)}"
    else:
        rows = galaxies = 0
        for _, labels in csvfile.blocks(paths[0], csvfile.Table, bad=bad, left_out=left_out):
            rows += len(labels)
            galaxies += int(labels.sum())
        held = f"{galaxies:,} galaxies and {rows - galaxies:,} stars"
    return f"{rows:,} rows, {held}" + (f"; {left_out.total():,} rows left out" if left_out else "")


def main() -> None:
    """Run with the paths that are given."""
    parser = argparse.ArgumentParser(prog="python -m workloads.stars.check", description="What is in a CSV.")
    parser.add_argument("data", nargs="+")
    parser.add_argument("--label", help="the column to learn")
    parser.add_argument("--bad-rows", choices=(csvfile.REFUSE, csvfile.LEAVE_OUT), default=csvfile.REFUSE)
    given = parser.parse_args()
    try:
        print(check(given.data, given.label, given.bad_rows))
    except BadInput as error:
        print(error)
        sys.exit(BAD_INPUT_STATUS)


if __name__ == "__main__":
    main()
