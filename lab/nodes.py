"""One node: its file system, its boot, its end."""

import contextlib
import ipaddress
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from . import cgroups, network
from .image import USER
from .model import Node
from .system import LabError, run, say, signals_wait, unmount_below

KEPT = "kept"
"""In a node's folder: a link to the layer of a kept lab that is between the base image and the node's own changes."""
_INNER = "inner0"
_START = 'set -e; while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'


def mount(node: Node) -> None:
    """Mount the node's file system: the base image below, perhaps the layer of a kept lab, its own changes above."""
    for name in ("up", "work", "root"):
        (node.folder / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    if os.path.ismount(node.root):
        return
    if not Path(node.lab.image).is_dir():
        raise LabError(
            f"the base image {node.lab.image} of the lab {node.lab.name} is gone: remove the lab "
            f"(python3 -m lab down --name {node.lab.name}) and make it again"
        )
    kept = node.folder / KEPT
    below = [str(kept.readlink()), node.lab.image] if kept.is_symlink() else [node.lab.image]
    if not Path(below[0]).is_dir():
        raise LabError(f"{below[0]}, which {node.machine} was made from, is gone: remove the lab and make it again")
    lower = ":".join(one.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,") for one in below)
    layers = f"lowerdir={lower},upperdir={node.folder}/up,workdir={node.folder}/work"
    with signals_wait():
        run(["mount", "-t", "overlay", "overlay", "-o", layers, node.root])


@signals_wait()
def write(root: Path, path: str, text: str, *, mode: int = 0o644, owner: int = 0, append: bool = False) -> None:
    """Write a file below `root` without following a link that a process on the node may have put there."""
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, mode | (mode & 0o444) >> 2, dir_fd=here)
                os.chown(folder, owner, owner, dir_fd=here)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_APPEND if append else os.O_TRUNC)
        with os.fdopen(os.open(name, flags, mode, dir_fd=here), "w") as file:
            os.fchmod(file.fileno(), mode)
            os.fchown(file.fileno(), owner, owner)
            file.write(text)
    except OSError as error:
        raise LabError(
            f"cannot write /{path} of the node in {root} ({error.strerror}): remove the lab and make it again"
        ) from error
    finally:
        os.close(here)


def network_text(node: Node) -> str:
    """The systemd-networkd file of the first interface; without egress, and where it is hidden, there is no gateway."""
    lab = node.lab
    return _interface_text("host0", node.address, lab.inner if node.hidden else lab.outer, open_=has_egress(node))


def _interface_text(interface: str, address: str, network: str, *, open_: bool) -> str:
    lines = ["[Match]", f"Name={interface}", "", "[Network]", f"Address={address}/{network.partition('/')[2]}"]
    if open_:
        lines.append(f"Gateway={ipaddress.IPv4Network(network)[1]}")
    return "\n".join([*lines, "LinkLocalAddressing=no", "IPv6AcceptRA=no", ""])


def has_egress(node: Node) -> bool:
    """Whether the node has a way out; only node1 of a private lab can have one."""
    return node.lab.egress and not node.hidden


def hosts_text(node: Node) -> str:
    """Debian's /etc/hosts of a fresh machine."""
    return (
        f"127.0.0.1\tlocalhost\n127.0.1.1\t{node.name}\n\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n"
    )


def resolv_text(egress: bool, files: Iterable[Path] | None = None) -> str:
    """This machine's name servers that a node can reach; none without egress, so that look-ups fail at once."""
    if not egress:
        return ""
    for file in files or (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        lines = file.read_text().splitlines() if file.exists() else []
        servers = [line for line in lines if line.startswith("nameserver") and " 127." not in line]
        if servers:
            return "\n".join(servers) + "\n"
    return ""


def prepare(node: Node, public_key: str) -> None:
    """Make a fresh node's identity, or bring the files of an existing one that depend on this machine up to date."""
    host_key = node.folder / "host_key"
    if not (node.folder / "prepared").exists():
        host_key.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.machine, "-f", host_key])
        write(node.root, "etc/ssh/ssh_host_ed25519_key", host_key.read_text(), mode=0o600)
        write(node.root, "etc/ssh/ssh_host_ed25519_key.pub", host_public_key(node) + "\n")
        write(node.root, "etc/hostname", f"{node.name}\n")
        write(node.root, "etc/hosts", hosts_text(node))
        write(node.root, "etc/machine-id", f"{secrets.token_hex(16)}\n", mode=0o444)
        write(node.root, "etc/systemd/network/10-host0.network", network_text(node))
        if node.cable:
            inner = _interface_text(_INNER, node.cluster_address, node.lab.inner, open_=False)
            write(node.root, f"etc/systemd/network/10-{_INNER}.network", inner)
        (node.folder / "prepared").touch()
    keys = node.root / f"home/{USER}/.ssh/authorized_keys"
    known = "" if keys.is_symlink() or not keys.exists() else keys.read_text()
    if public_key not in known:
        path = f"home/{USER}/.ssh/authorized_keys"
        write(node.root, path, f"{public_key}\n", mode=0o600, owner=1000, append=True)
    if not (node.root / "etc/resolv.conf").is_symlink():
        write(node.root, "etc/resolv.conf", resolv_text(has_egress(node)))


def host_public_key(node: Node) -> str:
    """The node's host key as known_hosts has it."""
    return " ".join((node.folder / "host_key.pub").read_text().split()[:2])


def boot(node: Node) -> None:
    """Start the node unless it runs; it outlives this program. Its console goes to the file `console`."""
    if cgroups.supervisor(node):
        ration(node)
        return
    cgroups.kill([node])
    folders = [str(folder) for folder in cgroups.make(node)]
    bridge = node.lab.inner_bridge if node.hidden else node.lab.bridge
    nspawn = [
        "systemd-nspawn",
        *("--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={node.root}"),
        *(f"--machine={node.machine}", f"--hostname={node.name}", f"--network-bridge={bridge}"),
        *([f"--network-veth-extra={node.cable}:{_INNER}"] if node.cable else []),
        *("--bind=/dev/fuse", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only"),
    ]
    with (node.folder / "console").open("ab") as console:
        subprocess.Popen(
            ["/bin/sh", "-c", _START, "sh", *folders, "--", *nspawn],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            cwd="/",
        )
    network.plug_in(node)


def ration(node: Node) -> None:
    """Give a node that runs its part of a core, which may have changed."""
    if node.lab.part and cgroups.supervisor(node):
        cgroups.make(node)


def console_tail(node: Node) -> str:
    """The last lines of the node's console."""
    text = (node.folder / "console").read_text(errors="replace")
    return "\n  ".join(line for line in text.splitlines()[-8:] if line.strip())


def power_off(nodes: list[Node]) -> None:
    """Cut the nodes' power: every process is killed at once, without a signal to end."""
    cgroups.kill(nodes)
    for node in nodes:
        unmount_below(node.folder)
        # The kernel takes its time to remove the cable of a killed node, and a new one of that name cannot be laid.
        for cable in filter(None, (f"vb-{node.machine}", node.cable)):
            with contextlib.suppress(LabError):
                run(["ip", "link", "delete", cable])
        with contextlib.suppress(OSError):
            Path(f"/run/systemd/nspawn/propagate/{node.machine}").rmdir()
        with contextlib.suppress(FileNotFoundError):
            (node.folder / ".#root.lck").unlink()


def stop(nodes: list[Node], *, seconds: float = 30) -> None:
    """Shut the nodes down in order; those that take longer than `seconds` lose their power."""
    for node in nodes:
        if number := cgroups.supervisor(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, 15)
    end = time.monotonic() + seconds
    while (left := [node for node in nodes if cgroups.processes(node)]) and time.monotonic() < end:
        time.sleep(0.05)
    for node in left:
        say(f"{node.name} did not stop within {seconds:.0f} s: its power was cut")
    power_off(nodes)


def erase(nodes: list[Node]) -> None:
    """Power the nodes off and remove all their state."""
    power_off(nodes)
    for node in nodes:
        if node.folder.exists():
            shutil.rmtree(node.folder)
