"""Whether nodes that each get a part of a core really get it: a spin on one of them, then on all at the same time."""

import subprocess
from collections.abc import Callable, Sequence

from .model import Lab, Node
from .system import LabError

SECONDS = 2.0
ALIKE = 0.10
"""Parts may differ by so much from their mean."""
_SPIN = (
    "import time; end = time.monotonic() + {seconds}\n"
    "while time.monotonic() < end: pass\n"
    "print(time.process_time() / {seconds})"
)
Command = Callable[..., list[str]]


def told(lab: Lab, command: Command) -> str:
    """Say what part of a core each node gets, by itself and with the others. `command`: runs words on a node."""
    nodes = lab.all_nodes()
    alone, together = spun(nodes[:1], command), spun(nodes, command)
    said = (
        f"{lab.part:g} of one for each node: {alone[0]:.2f} alone, {min(together):.2f} to {max(together):.2f} at once"
    )
    return said if even([*alone, *together]) else f"{said}; {UNEVEN}"


UNEVEN = (
    "NOT EVEN: times of several nodes say nothing about scaling. End other work on this machine, and make the lab again"
)


def even(parts: Sequence[float]) -> bool:
    """Whether all parts are the same, within `ALIKE` of their mean."""
    mean = sum(parts) / len(parts)
    return all(abs(part - mean) <= ALIKE * mean for part in parts)


def spun(nodes: Sequence[Node], command: Command) -> list[float]:
    """Return the cores that a process that computes gets on each node, on all at the same time. LabError."""
    words = ("python3", "-c", f"'{_SPIN.format(seconds=SECONDS)}'")
    going = [
        subprocess.Popen(
            command(node, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for node in nodes
    ]
    said = [process.communicate() for process in going]
    try:
        return [float(out) for out, _ in said]
    except ValueError:
        raise LabError(
            f"the parts of cores cannot be measured: {said[0][1].strip() or said}; make the lab again without --cores"
        ) from None
