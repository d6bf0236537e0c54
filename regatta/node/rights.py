"""Work as another account: what root has to do with files that a run owns, it does as the account of that run.

A run may put a link, a FIFO or a tree of any depth at every path in its folder. As that account it gains nothing by it.
All runs are one account, `place["user"]`, but those of members who have one of their own (`members_separate`).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import pwd
import selectors
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, TypeVar, cast

from regatta.node.problem import Problem
from regatta_protocol.decoding import decode, encode

if TYPE_CHECKING:
    from regatta_protocol.place import Place

SECONDS = 25.0
MOST_BYTES = 64 << 20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38

Function = TypeVar("Function", bound=Callable[..., Any])
Done = TypeVar("Done")


def shared(seconds: float | None = SECONDS, gives: Any = Any) -> Callable[[Function], Function]:
    """Makes a function of `place` and more, which `gives` this type, work as the shared account of runs, see
    :func:`call`.
    """

    def around(function: Function) -> Function:
        @functools.wraps(function)
        def work(place: Place, *args: Any, **options: Any) -> Any:
            return call(place.get("user"), lambda: function(place, *args, **options), seconds, gives)

        return cast(Function, work)

    return around


def of_run(seconds: float | None = SECONDS, gives: Any = Any) -> Callable[[Function], Function]:
    """As :func:`shared`, of `place`, the name of a run and more, as the account of that run.

    Instead of the name: a list or dict of names, of one account (:func:`each`).
    """

    def around(function: Function) -> Function:
        @functools.wraps(function)
        def work(place: Place, *args: Any, **options: Any) -> Any:
            runs = args[0] if args else options["run"]
            user = account(place, path(place, runs if isinstance(runs, str) else next(iter(runs), "")))
            return call(user, lambda: function(place, *args, **options), seconds, gives)

        return cast(Function, work)

    return around


def path(place: Place, run: str) -> str:
    """The folder of a run."""
    return os.path.join(place["state"], "runs", run)


def account(place: Place, folder: str) -> str | None:
    """The account of the run that has a folder in root's `runs/`: its owner, as no run can give its folder away.

    The shared one where there is no such folder, or root is still making it.
    """
    user: str | None = place.get("user")
    if user is not None and os.geteuid() == 0:
        with contextlib.suppress(OSError, KeyError):
            owner = os.lstat(folder).st_uid
            return pwd.getpwuid(owner).pw_name if owner else user
    return user


def each(
    place: Place, runs: Iterable[str], work: Callable[[List[str]], Done], untold: Callable[[List[str]], Done]
) -> List[Done]:
    """What `work` gives for the runs of each account.

    `untold`: for those of a member's own account whose runs end root's helper before it has answered.
    """
    found: Dict[str | None, List[str]] = {}
    for run in runs:
        found.setdefault(account(place, path(place, run)), []).append(run)
    return [_told(place.get("user") == user, own, work, untold) for user, own in found.items()]


def _told(
    shared: bool, runs: List[str], work: Callable[[List[str]], Done], untold: Callable[[List[str]], Done]
) -> Done:
    try:
        return work(runs)
    except Problem:
        if shared:
            raise
        return untold(runs)


def call(user: str | None, work: Callable[[], Any], seconds: float | None = SECONDS, gives: Any = Any) -> Any:
    """Return what `work()` gives, a value for JSON or of the type `gives`, done as `user` in its own process.

    That ends with this one. If this process is not root, or no user is given, it is done here. Problem and OSError
    come through; a Problem says that it took longer than `seconds`, was killed, or said too much.
    """
    if user is None or os.geteuid() != 0:
        return work()
    try:
        who = pwd.getpwnam(user)
    except KeyError:
        raise Problem(f"there is no account '{user}' on this host: run 'regatta provision'") from None
    groups, parent = os.getgrouplist(user, who.pw_gid), os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _work(work, who, groups, parent, writer)
    os.close(writer)
    try:
        said = _answer(reader, seconds)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return decode(gives, _understood(said, user))


def _work(
    work: Callable[[], Any], who: pwd.struct_passwd, groups: List[int], parent: int, writer: int
) -> None:  # in the child: never returns
    try:
        try:
            os.setpgid(0, 0)
            _become(who, groups, parent)
            answer = {"done": work()}
        except Problem as error:
            answer = {"problem": str(error)}
        except OSError as error:
            answer = {"os": [error.errno, error.strerror, error.filename and str(error.filename)], "text": str(error)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        with open(writer, "w") as pipe:
            pipe.write(json.dumps(encode(answer)))
    finally:
        os._exit(0)


def _become(who: pwd.struct_passwd, groups: List[int], parent: int) -> None:
    """Drop every right of root; runs, which are the same account, cannot look into this process."""
    os.chdir("/")
    os.setgroups(groups)
    os.setresgid(who.pw_gid, who.pw_gid, who.pw_gid)
    os.setresuid(who.pw_uid, who.pw_uid, who.pw_uid)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_DUMPABLE, 0), (PR_SET_NO_NEW_PRIVS, 1), (PR_SET_PDEATHSIG, int(signal.SIGKILL))):
        if libc.prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "prctl")
    if os.getppid() != parent:  # it ended before this process could be tied to it
        os._exit(1)


def _answer(reader: int, seconds: float | None) -> bytes:
    said, end = bytearray(), None if seconds is None else time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while True:
            if not selector.select(None if end is None else max(0.0, end - time.monotonic())):
                raise Problem(
                    f"what had to be read or written in runs' folders took longer than {seconds:g} s: is that disk "
                    "busy? Try again"
                )
            block = os.read(reader, 1 << 16)
            if not block:
                return bytes(said)
            said += block
            if len(said) > MOST_BYTES:
                raise Problem(
                    f"runs' folders gave more than {MOST_BYTES >> 20} MiB to read: delete old runs by 'regatta runs-gc'"
                )


def _understood(said: bytes, user: str) -> Any:
    try:
        answer = json.loads(said)
    except (ValueError, RecursionError):
        raise Problem(
            f"a helper of Regatta's, of the account {user}, was killed before it had answered: is memory short? "
            "Try again"
        ) from None
    if "done" in answer:
        return answer["done"]
    if "os" in answer:
        number, text, name = answer["os"]
        raise OSError(number, text, name) if number else OSError(answer["text"])
    raise Problem(answer["problem"]) if "problem" in answer else RuntimeError(answer["error"])
