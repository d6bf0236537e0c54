"""Faults made on hosts from outside: limits, frozen processes, bad cables. Only for labs of this machine, as root."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab import cgroups
from lab.handle import LabHandle
from lab.model import STATE, Node, load

MEMORY, CPU, DISK = (Path("/sys/fs/cgroup") / name for name in ("memory", "cpu", "blkio"))


def host(lab: LabHandle, name: str) -> Node:
    """The lab's own idea of one of its hosts."""
    found = load(lab.name)
    assert found
    return found.node(int(name.removeprefix("node")))


def outer_pid(node: Node, inner: int) -> int:
    """The number that a host's process has on this machine."""
    for pid in cgroups.processes(node):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("NSpid:") and line.split()[2:] == [str(inner)]:
                    return pid
    raise AssertionError(f"{node.name} has no process {inner}")


@contextlib.contextmanager
def limited(kind: Path, lab: LabHandle, name: str, pid: int | None, **files: str) -> Iterator[None]:
    """Put a process of a host (None: all) into a cgroup of its own, with these values in its files (`__` for a dot)."""
    group = kind / f"regatta-fault-{os.getpid()}"
    group.mkdir()
    try:
        for file, value in files.items():
            (group / file.replace("__", ".")).write_text(value)
        node, moved = host(lab, name), set[int]()
        while left := (cgroups.processes(node) if pid is None else {outer_pid(node, pid)}) - moved:
            for one in left:
                with contextlib.suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(one))
            moved |= left
        yield
    finally:
        _remove(group)


def little_memory(
    lab: LabHandle, name: str, pid: int, megabytes: int, *, waits: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Let a process of a host have so much more memory than now, after which the kernel kills it, or lets it wait."""
    more = {"memory__oom_control": "1"} if waits else {}
    return limited(MEMORY, lab, name, pid, memory__limit_in_bytes=str(megabytes << 20), **more)


def little_cpu(lab: LabHandle, name: str, pid: int | None, part: float) -> contextlib.AbstractContextManager[None]:
    """Let a process of a host (None: all together) use so much of a core."""
    return limited(CPU, lab, name, pid, cpu__cfs_period_us="100000", cpu__cfs_quota_us=str(round(part * 100_000)))


def slow_disk(lab: LabHandle, name: str, pid: int, kilobytes: int) -> contextlib.AbstractContextManager[None]:
    """Let a process of a host write so much to its disk each second, past the cache."""
    device = (STATE / lab.name).stat().st_dev
    value = f"{os.major(device)}:{os.minor(device)} {kilobytes << 10}"
    return limited(DISK, lab, name, pid, blkio__throttle__write_bps_device=value)


def _remove(group: Path) -> None:
    end = time.monotonic() + 10
    while group.exists():
        assert time.monotonic() < end, f"{group} is in use"
        with contextlib.suppress(OSError):
            for left in (group / "cgroup.procs").read_text().split():
                (group.parent / "cgroup.procs").write_text(left)
            group.rmdir()


@contextlib.contextmanager
def own_limits(lab: LabHandle, name: str) -> Iterator[None]:
    """Let a host's systemd set limits of memory and processes, as on one's own host."""

    def mounted(how: str) -> None:
        command = f"for one in memory pids; do sudo mount -o remount,bind,{how} /sys/fs/cgroup/$one; done"
        lab.ssh(name, f"{command}; sudo systemctl daemon-reexec")

    mounted("rw")
    try:
        yield
    finally:
        mounted("ro")


def freeze(lab: LabHandle, name: str) -> None:
    """Stop every process of a host where it is: its kernel answers, and no process does."""
    before: set[int] = set()
    while (now := cgroups.processes(host(lab, name))) != before:
        for pid in now:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        before = now


def thaw(lab: LabHandle, name: str) -> None:
    """Let them continue."""
    for pid in cgroups.processes(host(lab, name)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def cable(lab: LabHandle, name: str) -> str:
    """This machine's end of a host's cable (long names are shortened, and lead there as other names)."""
    shown = subprocess.run(
        ["ip", "-json", "link", "show", "dev", f"vb-{host(lab, name).machine}"],
        capture_output=True,
        check=True,
    )
    return str(json.loads(shown.stdout)[0]["ifname"])


@contextlib.contextmanager
def bad_cable(lab: LabHandle, name: str, *, into: str = "", out: str = "", peers: str = "all") -> Iterator[None]:
    """nftables verdicts, such as `drop`, for frames into a host and out of it.

    `peers`: `all`, or `controller`: this machine only.
    """
    table, end = f"regatta-fault-{lab.name}-{name}", cable(lab, name)
    chains = {"input": ("iifname", out), "output": ("oifname", into)}
    rules = []
    for hook, (side, verdict) in chains.items():
        rules.append(_chain(hook, [f'{side} "{end}" {verdict}'] if verdict else []))
    if peers == "all":
        sides = {"iifname": out, "oifname": into}
        rules.append(_chain("forward", [f'{side} "{end}" {verdict}' for side, verdict in sides.items() if verdict]))
    nft(f"table bridge {table} {{\n{''.join(rules)}}}\n")
    try:
        yield
    finally:
        nft(f"delete table bridge {table}\n")


def _chain(hook: str, rules: list[str]) -> str:
    return f"chain {hook} {{ type filter hook {hook} priority 0; policy accept;\n" + "\n".join(rules) + "\n}\n"


def nft(text: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


@contextlib.contextmanager
def narrow_cable(lab: LabHandle, name: str, megabits: int) -> Iterator[None]:
    """So many megabits a second come to a host, and no more."""
    words = ["tc", "qdisc", "{}", "dev", cable(lab, name), "root"]
    rate = ["tbf", "rate", f"{megabits}mbit", "burst", "64kb", "latency", "50ms"]
    subprocess.run([word.format("add") for word in words] + rate, check=True)
    try:
        yield
    finally:
        subprocess.run([word.format("delete") for word in words], check=True)


@contextlib.contextmanager
def slow_cable(lab: LabHandle, name: str, seconds: float) -> Iterator[None]:
    """Every frame of a host comes so much later, by a program in the middle of its cable (no netem in this kernel)."""
    end, bridge = cable(lab, name), host(lab, name).lab.bridge
    inner, outer = f"rgd{os.getpid() % 100000}a", f"rgd{os.getpid() % 100000}b"

    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True)

    ip("add", inner, "type", "veth", "peer", "name", outer)
    middle = None
    try:
        ip("set", outer, "master", bridge)
        for one in (inner, outer):
            Path(f"/proc/sys/net/ipv6/conf/{one}/disable_ipv6").write_text("1")
            ip("set", one, "up")
        ip("set", end, "nomaster")
        program = [sys.executable, str(Path(__file__).with_name("slowcable.py")), end, inner, str(seconds)]
        middle = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        assert middle.stdout and middle.stdout.readline() == "ready\n"
        yield
    finally:
        if middle:
            middle.kill()
            middle.wait()
        ip("set", end, "master", bridge)
        ip("delete", inner)


@contextlib.contextmanager
def stopped_files(lab: LabHandle, name: str, folder: str) -> Iterator[None]:
    """Mount in a folder of a host files whose server does not answer, as of an sshfs that is stopped."""
    lab.ssh(name, f"sudo mkdir -p {folder}")
    supervisor = cgroups.supervisor(host(lab, name))
    assert supervisor
    inner = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0]
    server = Path(__file__).with_name("silentfiles.py")
    command = [sys.executable, str(server), f"/proc/{inner}/ns/mnt", folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        lab.ssh(name, f"sudo umount -l {folder}", check=False)
