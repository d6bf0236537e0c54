"""The program by which sudo lets members, accounts without other rights, ask a node: root's own, with no arguments.

Nothing that it is told is believed: who asks is the account that sudo names, where things are is `PLACE`, what may be
asked, and with which values, is in `regatta.node.members`. What a member's shell leaves to a process is undone first.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import sys
from typing import Any, BinaryIO, Dict, Iterator

from regatta.node import main as serving
from regatta.node import members
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode
from regatta_protocol.operations.hosts import GATE

PLACE = "/etc/regatta/gate.json"
"""Where things are on this host: root's, as provisioning has written it."""
MOST_BYTES, MOST_MEMORY = 64 << 20, 8 << 30
_VARIABLES = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root", "USER": "root"}
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main(identity: str) -> None:
    """Serve the requests of a member; `identity`: of this program, as the controller names its own."""
    account = _account()
    _alone()
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    serving.main(_lines(requests), lambda request: answered(request, account, identity))


def answered(request: Dict[str, Any], account: str, identity: str) -> Any:
    """The answer to a request. Problem where a member may not have it, or where the controller is another version."""
    if (theirs := request["place"].get("gate")) != identity:
        raise Problem(
            f"its gate for members is of Regatta {identity}, and you have {theirs or 'another'}: use the same version, "
            "or ask who has sudo to run 'regatta provision' with yours"
        )
    with open(PLACE) as file:
        place = request["place"] = {**json.load(file), "by": account, "member": account}
    op = request["op"]
    rule = members.rule(op)
    serving.check(op, place)
    asked = rule.checked(place, decode(serving.declared(op), request["args"]))
    return rule.shown(place, serving.done(op, place, asked))


def _account() -> str:
    """The account that has called sudo. Ends this process where none has."""
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not number.isdigit() or int(number) == 0 or len(sys.argv) > 1:
        sys.exit(f"{GATE} is for members of this cluster, by sudo and without arguments")
    return pwd.getpwuid(int(number)).pw_name


def _alone() -> None:
    """Undo what the caller has chosen for this process: variables, folder, limits, ignored signals."""
    os.environ.clear()
    os.environ.update(_VARIABLES)
    os.chdir("/")
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 524288))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _lines(requests: BinaryIO) -> Iterator[bytes]:
    """Requests of a bounded size; one that is larger ends them."""
    while (line := requests.readline(MOST_BYTES)).endswith(b"\n"):
        yield line
