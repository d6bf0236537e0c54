"""Whether a lab can run on this machine, and what it lacks."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import cgroups

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "unshare": "util-linux",
    "dpkg": "dpkg",
}


def problems() -> list[str]:
    """Everything that keeps a lab from running here, one line each; empty where it can."""
    if sys.platform != "linux":
        return [f"this is {sys.platform}: a lab needs Linux"]
    found = []
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        programs = [program for program, package in PROGRAMS.items() if package in missing]
        found.append(f"not installed: {', '.join(programs)} (apt-get install {' '.join(missing)})")
    if not cgroups.hierarchies():
        found.append("no cgroups are mounted: systemd cannot run in a node")
    if Path("/dev/null").stat().st_mode & 0o666 != 0o666:
        found.append("not every account may write to /dev/null, and nodes inherit its mode (chmod 0666 /dev/null)")
    if os.geteuid():
        found.append("you are not root, and `sudo -n` (without a password) does not work")
    elif not missing:
        found += _refused_to_root()
    return found


def _refused_to_root() -> list[str]:
    """Try, in a mount namespace that goes away, what an unprivileged container does not allow."""
    found = []
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix=".regatta-lab-check-") as folder:
        for name in ("low", "up", "work", "root"):
            (Path(folder) / name).mkdir()
        layers = f"lowerdir={folder}/low,upperdir={folder}/up,workdir={folder}/work"
        overlay = ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", layers, f"{folder}/root"]
        if said := _fails(overlay):
            found.append(f"no overlay file system below /var/lib ({said}): is this machine itself a container?")
    if said := _fails(["nft", "list", "tables"]):
        found.append(f"nftables does not work ({said})")
    if said := _fails(["unshare", "--net", "ip", "link", "add", "rg-check", "type", "bridge"]):
        found.append(f"no bridge can be made ({said})")
    if not Path("/dev/fuse").exists():
        found.append("there is no /dev/fuse, by which nodes mount their shared folder (modprobe fuse)")
    for point in cgroups.hierarchies():
        if not os.access(point, os.W_OK):
            found.append(f"{point} is read-only: is this machine itself a container?")
    return found


def _fails(command: list[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["refused"])[-1]


def advice(found: list[str]) -> str:
    """The one message for a machine that cannot run a lab."""
    return "\n".join(
        [
            "no lab can run here:",
            *(f"  - {line}" for line in found),
            "`make setup`, as root, installs what is missing on Debian and Ubuntu.",
            "Any hosts that SSH reaches serve instead: 'fab init' asks for them and writes inventory/mine.",
        ]
    )
