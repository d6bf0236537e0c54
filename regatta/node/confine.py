"""A build of source that others wrote: limited in memory, processor time and files, and nothing of it outlives it."""

from __future__ import annotations

import sys
from typing import List

MEMORY = 8 << 30
CPU_SECONDS = 1200
FILE = 4 << 30
PROCESSES = 4096
"""Of the whole account; the kernel does not hold root to it."""

LIMITS = f"""
import resource
def limit(name, most):
    hard = resource.getrlimit(name)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(name, (most, most))
def limit_all():
    limit(resource.RLIMIT_AS, {MEMORY})
    limit(resource.RLIMIT_CPU, {CPU_SECONDS})
    limit(resource.RLIMIT_FSIZE, {FILE})
    limit(resource.RLIMIT_NPROC, {PROCESSES})
    limit(resource.RLIMIT_CORE, 0)
"""
_KEEPER = (
    LIMITS
    + """
import ctypes, os, signal, sys, time
GRACE = 3.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
def children():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        yield int(name)
            except (OSError, IndexError):
                continue
def end(*_):
    while True:
        for pid in [*children()]:
            os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return
def stop(*_):
    end()
    os._exit(143)
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
signal.signal(signal.SIGTERM, stop)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
child = os.fork()
if not child:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.argv[1] == "limited":
        limit_all()
    os.execvp(sys.argv[2], sys.argv[2:])
seen, over = {}, False
while not over:
    signal.sigtimedwait([signal.SIGCHLD], 1.0)
    while not over:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        over = pid == child
    for pid in () if over else children():  # what has lost its parent may hold the pipes that uv reads to their end
        since = seen.setdefault(pid, time.monotonic())
        if pid != child and time.monotonic() - since > GRACE:
            os.kill(pid, signal.SIGKILL)
end()
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
"""
)


def kept(command: List[str], *, limited: bool) -> List[str]:
    """Return a command that ends all that this one leaves, also if it is ended itself (SIGTERM) or its parent is."""
    return [sys.executable, "-I", "-S", "-c", _KEEPER, "limited" if limited else "free", *command]
