"""Starts the ranks of a run under OpenMPI in the run's own units: each is a child of its node's supervisor.

OpenMPI wants to start daemons on other hosts by ssh, and ranks as children of its daemons. Here it starts neither:

- `mpilaunch.py rank PROGRAM...` is what a supervisor starts for each rank. It waits for what OpenMPI has to say to that
  rank, then becomes the program (`mpilaunch.py program PROGRAM...`). The first one of a node is also the parent of
  OpenMPI's process there: of `mpirun` on the node of rank 0, of `prted` elsewhere. It ends when both have ended, as its
  program has.
- `mpilaunch.py agent HOST COMMAND...` is what `mpirun` calls in place of ssh. It gives prted's arguments to the first
  rank's parent on that node, proves by the run's token that they are from this run, and ends as prted does.
- `mpilaunch.py stand-in` is what OpenMPI starts in place of each rank. It hands the variables by which a rank joins
  (PMIX_*, OMPI_*) to the process that waits, and ends when that has ended.

So output, limits, signals and exit codes of a rank are its own, as under any framework. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import json
import os
import random
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from typing import Any, Dict, List, NoReturn

TOKEN, HOSTS, PLACE, PORTS = (f"REGATTA_MPI_{what}" for what in ("TOKEN", "HOSTS", "PLACE", "PORTS"))
GRACE_SECONDS = 3.0
"""The seconds that a rank may run when OpenMPI's process of its node is gone: others have mostly ended the run by then.
"""
HELLO_SECONDS = 5.0
"""The seconds in which a peer that connects must prove itself."""
MOST_BYTES = 1 << 20
HANDED = ("PMIX_", "OMPI_", "PRTE_")
OWN = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")
PREFIX, LIBRARY = "OPAL_PREFIX", "MPI4PY_LIBMPI"
"""By which OpenMPI finds its texts, and mpi4py the library that belongs to this `mpirun`."""
LISTENERS = (
    "PRTE_MCA_oob_tcp_dynamic_ipv4_ports",
    "PRTE_MCA_oob_tcp_dynamic_ipv6_ports",
    "PMIX_MCA_ptl_base_ipv4_port",
)
"""Which ports OpenMPI's process of a node takes: for those of other nodes, and on loopback for its ranks."""
DAEMON, WORDS = "prted", "mpi-words"


def patience() -> float:
    """Seconds that ranks wait for each other."""
    return float(os.environ.get("REGATTA_PG_TIMEOUT") or 60)


# --- a rank


def rank(program: List[str]) -> NoReturn:
    """Be a rank: the program itself, or the parent of the program and of OpenMPI's process of this node."""
    command = [sys.executable, os.path.abspath(__file__), "program", *program]
    if os.environ.get("LOCAL_RANK") != "0":
        become(command)
    child = os.fork()
    if not child:
        become(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    first = os.environ["RANK"] == "0"
    end(keep(child, started() if first else asked_for()))


def become(command: List[str]) -> NoReturn:
    """Wait for OpenMPI's word to this rank, then become the command; nothing of this program is left in it."""
    number = os.environ["RANK"]
    os.environ.update(handed(number))
    os.environ.pop(TOKEN, None)
    prefix = os.path.dirname(os.path.dirname(found("mpirun")))
    os.environ.update({PREFIX: prefix, LIBRARY: f"{prefix}/lib/libmpi.so.40"})
    os.execvp(command[0], command)


def run(program: List[str]) -> int:
    """Run the program as `python -m mpi4py` does: where it fails, only this rank does not wait for others to part.

    It ends at once, and without MPI_Abort, which would let others end before it: whose failure it is could not be seen.
    """
    sys.path[0] = os.getcwd()
    try:
        importlib.import_module("mpi4py.run").run_command_line(program)
    except SystemExit as error:
        if not error.code:
            return 0
        if not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        leave(error.code if isinstance(error.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        leave(1)
    return 0


def leave(code: int) -> NoReturn:
    """End this process, with all that it has printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def handed(number: str) -> Dict[str, str]:
    """Return what the stand-in of a rank says; it gets this process's id."""
    with in_scratch(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"mpi-{number}")
        listener.listen(1)
        listener.settimeout(patience())
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            late = f"OpenMPI has not started rank {number} within {patience():g} s: are all hosts of the run up?"
            raise failed(late) from None
        os.unlink(f"mpi-{number}")
    with connection, connection.makefile("rwb") as file:
        said = json.loads(file.readline())
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
    return {name: value for name, value in said.items() if name not in LISTENERS and not kept(name)}


def kept(name: str) -> bool:
    """Whether a variable is this node's own, whatever OpenMPI says."""
    return name.startswith(OWN) and name in os.environ


@contextlib.contextmanager
def in_scratch() -> Any:
    """Be in the run's folder of this host: the path of a socket must be short, and that of the folder may be long."""
    before = os.getcwd()
    os.chdir(os.environ["REGATTA_SCRATCH"])
    try:
        yield
    finally:
        os.chdir(before)


def stand_in() -> int:
    """Hand over to the rank that waits what OpenMPI has said in this process's environment; end when it has ended."""
    words = {name: value for name, value in os.environ.items() if name.startswith(HANDED)}
    with in_scratch(), socket.socket(socket.AF_UNIX) as there:
        retried(lambda: there.connect(f"mpi-{os.environ['OMPI_COMM_WORLD_RANK']}"))
        with there.makefile("rwb") as file:
            file.write(json.dumps(words).encode() + b"\n")
            file.flush()
            pid = int(file.readline())
    with contextlib.suppress(ProcessLookupError):
        ended = os.pidfd_open(pid)
        select.select([ended], [], [])
    return 0


# --- OpenMPI's process of a node, and its parent


class Daemon:
    """OpenMPI's process of this node; `caller` is the agent that has asked for it."""

    def __init__(self, process: subprocess.Popen[bytes], caller: socket.socket | None = None) -> None:
        self.process, self.caller = process, caller

    def tell(self, code: int) -> None:
        """Tell the agent how it has ended."""
        if self.caller:
            with contextlib.suppress(OSError):
                self.caller.sendall(f"{code}\n".encode())
                self.caller.close()


def started() -> Daemon:
    """`mpirun`, which starts all of the run, by the agent and stand-ins."""
    me = os.path.abspath(__file__)
    python = [sys.executable, "-I", "-S", me]
    environment = {**surroundings(), "PRTE_MCA_plm_ssh_agent": shlex.join([*python, "agent"])}
    words = [found("mpirun"), "--host", os.environ[HOSTS], "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
    words += ["-n", os.environ["WORLD_SIZE"], *python, "stand-in"]
    return Daemon(begun(words, environment))


def asked_for() -> Daemon:
    """`prted`, as the run's own agent asks for it."""
    host, port = os.environ[PLACE].split(":")
    end = time.monotonic() + patience()
    with socket.create_server((host, int(port))) as listener:
        while (left := end - time.monotonic()) > 0:
            listener.settimeout(left)
            with contextlib.suppress(OSError, ValueError):
                connection, _ = listener.accept()
                connection.settimeout(HELLO_SECONDS)
                if words := proven(connection):
                    return Daemon(begun([found(DAEMON), *words], surroundings()), connection)
                connection.close()
    raise failed(
        f"OpenMPI has not asked for its daemon on {host} within {patience():g} s: see whether the node of rank 0 "
        "has started"
    )


def begun(words: List[str], environment: Dict[str, str]) -> subprocess.Popen[bytes]:
    """Start OpenMPI's process. Its output is kept for the case that it matters: a failed rank says more."""
    with in_scratch(), open(WORDS, "wb") as said:
        return subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)


def tell_words() -> None:
    """Print what OpenMPI's process has said."""
    with in_scratch(), open(WORDS, errors="replace") as said:
        sys.stderr.write(said.read(MOST_BYTES).replace("\0", ""))
        sys.stderr.flush()


def surroundings() -> Dict[str, str]:
    """Variables of OpenMPI's process: all it leaves on the disk is in the run's folder."""
    made = {**os.environ, "PRTE_MCA_prte_tmpdir_base": os.environ["REGATTA_SCRATCH"]}
    made |= zip(LISTENERS, free_ports(len(LISTENERS), *map(int, os.environ[PORTS].split("-"))), strict=True)
    if os.environ[PLACE].startswith("127."):  # one machine; OpenMPI takes no loopback interface for its daemons
        made.pop("PRTE_MCA_prte_if_include", None)
    if not os.geteuid():  # root may start it where there is only one machine
        made |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return made


def free_ports(count: int, first: int, last: int) -> List[str]:
    """Ports that nothing listens at: of a range OpenMPI's process would take all. They are tried in any order."""
    every, found = list(range(first, last + 1)), []
    random.shuffle(every)
    for port in every:
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            found.append(str(port))
        if len(found) == count:
            return found
    raise failed(f"all ports from {first} to {last} are taken here: wait until other runs have ended, or cancel one")


def keep(child: int, daemon: Daemon) -> int:
    """Wait until the rank and OpenMPI's process here have ended; the status of the one that counts, as `waitpid`."""
    waiting = {os.pidfd_open(child): "rank", os.pidfd_open(daemon.process.pid): "daemon"}
    if daemon.caller:
        waiting[daemon.caller.fileno()] = "caller"
    status: int | None = None
    give_up: float | None = None
    while True:
        left = None if give_up is None else max(0.0, give_up - time.monotonic())
        ready, _, _ = select.select([*waiting], [], [], left)
        if not ready:
            raise failed("OpenMPI's process here has ended while its ranks worked: see which rank or node failed first")
        for one in ready:
            what = waiting.pop(one, None)
            if what == "rank":
                status = os.waitpid(child, 0)[1]
                if status:
                    return status
            elif what == "caller":
                daemon.process.terminate()
            elif what == "daemon":
                waiting = {other: name for other, name in waiting.items() if name != "caller"}
                daemon.tell(daemon.process.wait())
                tell_words()
                give_up = time.monotonic() + GRACE_SECONDS
        if status is not None and daemon.process.poll() is not None:
            # `mpirun` answers for all of the run. If it is gone before `prted` has ended by itself, that is ended.
            return 1 << 8 if daemon.process.returncode and not daemon.caller else 0


def end(status: int) -> NoReturn:
    """End as the rank has, by its signal or with its code."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


# --- the agent


def agent(host: str, words: List[str]) -> int:
    """Have the daemon started on a host, by its address; the exit code is the daemon's."""
    address = (host, int(os.environ[PLACE].rpartition(":")[2]))
    own = secrets.token_hex(16)
    there = retried(lambda: socket.create_connection(address, timeout=HELLO_SECONDS))
    with there, there.makefile("rwb") as file:
        challenge = line(file)
        said = json.dumps({"nonce": own, "words": arguments(words)})
        file.write(f"{proof(challenge, said)} {said}\n".encode())
        file.flush()
        if not same(line(file), proof(own, "started")):
            raise failed(f"{host} does not know the run's token: is it another program that listens there?")
        there.settimeout(None)
        return int(file.readline(MOST_BYTES) or 1)


def arguments(words: List[str]) -> List[str]:
    """Those of the daemon's command, which OpenMPI writes for a shell; its path and its variables are the node's."""
    every = shlex.split(" ".join(words))
    return every[1 + max(n for n, word in enumerate(every) if word.rpartition("/")[2] == DAEMON) :]


def proven(connection: socket.socket) -> List[str] | None:
    """The arguments that whoever has connected asks for, where it has the run's token."""
    challenge = secrets.token_hex(16)
    connection.sendall(f"{challenge}\n".encode())
    with connection.makefile("rb") as file:
        mac, _, said = line(file).partition(" ")
    if not same(mac, proof(challenge, said)):
        return None
    asked = json.loads(said)
    connection.sendall(f"{proof(asked['nonce'], 'started')}\n".encode())
    return [str(word) for word in asked["words"]]


def line(file: Any) -> str:
    """A line from the network, whatever bytes it has."""
    return str(file.readline(MOST_BYTES).decode("utf-8", "replace")).strip()


def same(said: str, wanted: str) -> bool:
    """Whether two texts are equal; how long that takes does not reveal where they differ."""
    return hmac.compare_digest(said.encode(), wanted.encode())


def proof(challenge: str, said: str) -> str:
    """Return what only those can say who have the run's token."""
    return hmac.new(os.environ[TOKEN].encode(), f"{challenge} {said}".encode(), hashlib.sha256).hexdigest()


# --- what all need


def found(program: str) -> str:
    """The path of one of OpenMPI's programs."""
    if path := shutil.which(program):
        return path
    raise failed(f"there is no {program} on the run's PATH: the layer of the framework mpi brings it")


def retried(connect: Any) -> Any:
    """Try until the other side listens."""
    end = time.monotonic() + patience()
    while True:
        try:
            return connect()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def failed(message: str) -> SystemExit:
    """Say why; gives what ends this process."""
    print(message, file=sys.stderr, flush=True)
    return SystemExit(1)


def main(words: List[str]) -> int:
    """Entry point, see the module's docstring."""
    if words[0] == "rank":
        rank(words[1:])
    if words[0] == "program":
        return run(words[1:])
    return stand_in() if words[0] == "stand-in" else agent(words[1], words[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
