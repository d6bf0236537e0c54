"""Slurm's batch script of a run without a controller, made on the head: it starts the run's part on each node."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

from regatta_protocol import sent
from regatta_protocol.decoding import encode

if TYPE_CHECKING:
    from regatta_protocol.operations.queue import Carried
    from regatta_protocol.place import Place

_SCRIPT = """#!/bin/sh
# A run of Regatta: starts its part on each node, and ends all of them where one has failed.
# Its steps are one a node, whatever the job asked for.
unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK
each() {
    echo PROGRAM | srun --overlap --quiet "$@"
}
what=run
python="import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.stdin.read())))"
said=$(each --ntasks-per-node=1 --kill-on-bad-exit=1 /usr/bin/python3 -ISc "$python" $what 2>&1) &&FINISH exit 0
lost=$(echo "$said" | grep -E 'failed on node|Node failure on' | head -n 1)
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    each --nodes=1 --ntasks=1 --nodelist="$node" /usr/bin/python3 -ISc "$python" stop "$lost" &
done
wait
exit 1
"""
_FINISH = ' each --ntasks-per-node=1 /usr/bin/python3 -ISc "$python" finish &&'
"""The part of it that ends what a service of the cluster has of a run."""


def script(carried: Carried, place: Place, *, driver: bool) -> str:
    """Return the script. `place`: of the head; where it is a member's, each node checks the part.

    `driver`: a service of the cluster may have something of the run that ends with its driver.
    """
    asked = json.dumps(encode(carried))
    kept = ("user", "root", "state", "by", "member")
    member = {name: place.get(name) for name in kept} if place.get("member") else {}
    then = f"from regatta.node import detached\ndetached.main(sys.argv[1], {asked!r}, {member!r}, *sys.argv[2:])\n"
    program = base64.b64encode(zlib.compress(sent.program(sources(), then))).decode()
    return _SCRIPT.replace("FINISH", _FINISH if driver else "").replace("PROGRAM", program)


def sources() -> Any:
    """The modules that were sent to this host, or that it keeps for members, by full name."""
    loader: Any = __spec__.loader
    return loader.sources
