"""``python -m workloads.stars.check FILE``: read a CSV as the nodes will, and say what it is or what is wrong.

One line on standard output, and status 2 where a node would refuse the file. Without torch and machine code: this runs
where the controller runs, before the file goes to the nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from workloads.common.events import BAD_INPUT_STATUS, BadInput
from workloads.stars import csvfile


def check(paths: Sequence[str]) -> str:
    """Return what the only file holds, in a line. Raises :class:`BadInput`, also where there are several."""
    if len(paths) != 1:
        raise BadInput(f"{', '.join(paths[:3])}: {len(paths)} files, and one CSV is meant")
    rows = galaxies = 0
    for _, labels in csvfile.blocks(paths[0], csvfile.Table):
        rows += len(labels)
        galaxies += int(labels.sum())
    return f"{rows:,} rows, {galaxies:,} galaxies and {rows - galaxies:,} stars"


def main() -> None:
    """Run with the paths that are given."""
    try:
        print(check(sys.argv[1:]))
    except BadInput as error:
        print(error)
        sys.exit(BAD_INPUT_STATUS)


if __name__ == "__main__":
    main()
