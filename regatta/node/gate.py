"""The program by which sudo lets members, accounts without other rights, ask a node: root's own, with no arguments.

It believes nothing of a request: who asks is the account that sudo names, where things are is `PLACE`, what may be
asked, and with which values, is in `regatta.node.members`. What a member's shell leaves to a process is undone first.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator

from regatta.node import main as serving
from regatta.node import members, outputs, staging
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode
from regatta_protocol.operations.hosts import GATE, SEND
from regatta_protocol.operations.outputs import Sending

if TYPE_CHECKING:
    from regatta_protocol.place import Place

PLACE = "/etc/regatta/gate.json"
"""Where things are on this host: root's, as provisioning has written it."""
MOST_BYTES, MOST_MEMORY = 64 << 20, 8 << 30
LEAST_FILES = 1024
"""Of open files, as systemd gives a login."""
_VARIABLES = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root", "USER": "root"}
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main(identity: str) -> None:
    """Serve the requests of a member; `identity`: of this program, as the controller names its own."""
    account = _account()
    _alone()
    if SEND in sys.argv:
        sys.exit(_sent(account, identity))
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    serving.main(_lines(requests), lambda request: answered(request, account, identity))


def answered(request: Dict[str, Any], account: str, identity: str) -> Any:
    """The answer to a request. Problem where a member may not have it, or where the controller is another version."""
    place = request["place"] = _place(request["place"].get("gate"), account, identity)
    op = request["op"]
    rule = members.rule(op)
    serving.check(op, place)
    asked = rule.checked(place, decode(serving.declared(op), request["args"]))
    return rule.shown(place, serving.done(op, place, asked))


def _place(theirs: Any, account: str, identity: str) -> Place:
    if theirs != identity:
        raise Problem(
            f"its gate for members is of Regatta {identity}, and you have {theirs or 'another'}: use the same version, "
            "or ask who has sudo to run 'regatta provision' with yours"
        )
    return place_of(account)


def place_of(account: str) -> Place:
    """Where things are on this host for a member, as provisioning has written it. Problem where it has no such."""
    try:
        with open(PLACE) as file:
            told = json.load(file)
    except FileNotFoundError:
        raise Problem(f"this cluster has no members any more, and {account} was one") from None
    separate = told.pop("separate", None)
    known: Place = told
    place: Place = {**known, "by": account, "member": account}
    return place if separate is None else {**place, **_apart(separate, account)}


def _apart(separate: Dict[str, Any], account: str) -> Place:
    """The account and the ports that only this member's runs have."""
    if account not in separate:
        raise Problem(f"there is no account here for runs of {account}: ask who has sudo to run 'regatta provision'")
    return {"account": separate[account]["name"], "ports": separate[account]["ports"]}


def _sent(account: str, identity: str) -> str | int:
    """Let rsync send files of a run, as the account of the run; returns its exit code, or why there is none.

    The request comes before what the other rsync says, with its length in front: what is behind stays unread.
    """
    try:
        request = json.loads(_exactly(int(_exactly(8))))
        place = _place(request.get("gate"), account, identity)
        asked = decode(Sending, request)
        with tempfile.NamedTemporaryFile(dir=staging.base(place), prefix=".names-") as listed:
            words = members.sender(place, asked, listed.name)
            listed.write(b"\0".join(map(os.fsencode, asked.paths)))
            listed.flush()
            user = outputs.account(place, asked.run, asked.part)
            os.fchown(listed.fileno(), 0, pwd.getpwnam(str(user)).pw_gid)
            os.fchmod(listed.fileno(), 0o640)
            return subprocess.call(words)
    except (Problem, ValueError, OSError) as error:
        return str(error)


def _exactly(count: int) -> bytes:
    """So many bytes of standard input. ValueError for too many, or too few that come."""
    said = bytearray()
    while len(said) < min(count, MOST_BYTES) and (block := os.read(0, count - len(said))):
        said += block
    if len(said) != count:
        raise ValueError("a damaged request: try again")
    return bytes(said)


def _account() -> str:
    """The account that has called sudo. Ends this process where none has."""
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not number.isdigit() or int(number) == 0 or sys.argv[1:] not in ([], [SEND]):
        sys.exit(f"{GATE} is for members of this cluster, by sudo")
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
        if resource.getrlimit(limit) != _UNLIMITED:
            try:
                resource.setrlimit(limit, _UNLIMITED)
            except ValueError:  # in a container even root may not raise it
                sys.exit("your login has a limit of the size of files or of CPU time (ulimit -f, -t): take it away")
    if min(resource.getrlimit(resource.RLIMIT_NOFILE)) < LEAST_FILES:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_FILES, LEAST_FILES))
        except ValueError:
            sys.exit("your login has a limit of open files (ulimit -n): take it away")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _lines(requests: BinaryIO) -> Iterator[bytes]:
    """Requests of a bounded size; one that is larger ends them."""
    while (line := requests.readline(MOST_BYTES)).endswith(b"\n"):
        yield line
