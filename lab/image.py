"""The base image: a bare Debian or Ubuntu, made once by mmdebstrap and kept in the cache."""

import hashlib
import os
import pwd
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from .system import Interrupted, LabError, lock, run, say

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "sudo",
    "iproute2",
    "iputils-ping",
    "ca-certificates",
)
UBUNTU = ("jammy", "noble", "resolute")
DEBIAN = ("bookworm", "trixie")
USER = "ubuntu"

_SSHD = """\
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 200:30:400
MaxSessions 200
"""
_SUDO = f"{USER} ALL=(ALL:ALL) NOPASSWD:ALL\n"
_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-resolved.service",
)


def default_suite(os_release: str | None = None) -> str:
    """The release that this machine itself runs where a lab knows it, else Debian 12."""
    file = Path("/etc/os-release")
    text = os_release if os_release is not None else file.read_text() if file.exists() else ""
    own = re.search(r'^VERSION_CODENAME="?([a-z]+)', text, re.MULTILINE)
    return own[1] if own and own[1] in UBUNTU + DEBIAN else "bookworm"


def cache_dir() -> Path:
    """The same cache folder as the rest of Regatta: `$REGATTA_CACHE` or the user's."""
    if chosen := os.environ.get("REGATTA_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "regatta"


def architecture() -> str:
    """Debian's name of this machine's architecture."""
    return run(["dpkg", "--print-architecture"]).strip()


def own_sources() -> list[tuple[str, str, str]]:
    """This machine's deb sources as (URI, suite, component)."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    try:
        out = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
    except LabError:
        return []
    return [(words[0], words[1], words[2]) for line in out.splitlines() if len(words := line.split()) == 3]


def sources(suite: str, mirror: str | None, own: list[tuple[str, str, str]], arch: str) -> list[str]:
    """Lines of the nodes' sources.list: the mirror asked for, else this machine's own, else the public ones."""
    components = "main universe" if suite in UBUNTU else "main"
    if mirror:
        return [f"deb {mirror} {suite} {components}"]
    if suite not in UBUNTU:
        public = {"": "http://deb.debian.org/debian", "-security": "http://deb.debian.org/debian-security"}
    elif arch == "amd64":
        public = {"": "http://archive.ubuntu.com/ubuntu", "-security": "http://security.ubuntu.com/ubuntu"}
    else:
        public = {"": "http://ports.ubuntu.com/ubuntu-ports"}
    lines: list[str] = []
    for pocket in ("", "-updates", "-security"):
        named = [uri for uri, release, part in own if release == suite + pocket and part == "main"]
        uri = named[0] if named else public.get(pocket, lines[0].split()[1] if lines else "")
        lines.append(f"deb {uri} {suite}{pocket} {components}")
    return lines


def apt_options() -> list[str]:
    """The proxy that this machine's apt uses, for mmdebstrap (which reads no such setting) and for the nodes."""
    options = []
    for name in ("Acquire::http::Proxy", "Acquire::https::Proxy"):
        for word in shlex.split(run(["apt-config", "shell", "proxy", name])):
            options.append(f'--aptopt={name} "{word.removeprefix("proxy=")}";')
    return options


def key(suite: str, arch: str, lines: list[str]) -> str:
    """Name of the image in the cache; it changes with whatever the image is made from."""
    recipe = "\n".join([*PACKAGES, *lines, _SSHD, _SUDO, *_MASKED])
    return f"{suite}-{arch}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def ensure(suite: str, mirror: str | None = None) -> Path:
    """Return the folder of the base image, making it first where the cache has none."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", suite):
        raise LabError(f"{suite!r} names no Debian or Ubuntu release: say bookworm or noble")
    arch, options = architecture(), apt_options()
    lines = sources(suite, mirror, own_sources(), arch)
    name = key(suite, arch, [*lines, *options])
    folder = cache_dir() / "lab"
    image = folder / name
    if image.is_dir():
        return image
    make_folder(folder)
    with lock(f"image-{name}"):
        if image.is_dir():
            return image
        for left in folder.glob(f".{name}.*"):
            shutil.rmtree(left)
        say(f"making the base image {name} (once; takes about 40 s)")
        started = time.monotonic()
        new = folder / f".{name}.{os.getpid()}"
        try:
            _make(suite, [*options, suite, str(new), *lines], new, folder / f"{name}.log")
            new.rename(image)
        finally:
            _remove(new)
        say(f"base image made in {time.monotonic() - started:.0f} s: {image}")
    return image


def make_folder(folder: Path) -> None:
    """Make the folder; what is in the home of the person who called sudo stays theirs."""
    missing = [path for path in [*reversed(folder.parents), folder] if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        give_to_caller(path)


def give_to_caller(path: Path) -> None:
    """Make what is in the home of the person who called sudo theirs."""
    if user := os.environ.get("SUDO_UID"):
        person = pwd.getpwuid(int(user))
        if path.is_relative_to(person.pw_dir):
            os.chown(path, person.pw_uid, person.pw_gid)


def _remove(root: Path) -> None:
    """Remove a folder, though processes that were killed a moment ago may still write there."""
    for _ in range(50):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(root)


def _make(suite: str, words: list[str], root: Path, log: Path) -> None:
    """Fill `root`. mmdebstrap runs in its own namespaces: killed, it leaves no process and no mount."""
    command = [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *(f'--customize-hook=chroot "$1" useradd -m -s /bin/bash -U {USER}', *words),
    ]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            status = process.wait()
        except (Interrupted, Exception):
            process.kill()
            process.wait()
            raise
    if status:
        tail = "\n  ".join(log.read_text(errors="replace").splitlines()[-8:])
        raise LabError(f"mmdebstrap could not make a base image of {suite} (all of it: {log}):\n  {tail}")
    _configure(root)


def _configure(root: Path) -> None:
    for old in (root / "etc/ssh").glob("ssh_host_*"):
        old.unlink()
    (root / "etc/ssh/sshd_config.d/10-lab.conf").write_text(_SSHD)
    sudoers = root / f"etc/sudoers.d/90-{USER}"
    sudoers.write_text(_SUDO)
    sudoers.chmod(0o440)
    units = root / "etc/systemd/system"
    for unit in _MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "systemd-networkd.service").unlink(missing_ok=True)
    (wanted / "systemd-networkd.service").symlink_to("/lib/systemd/system/systemd-networkd.service")
    for name in ("resolv.conf", "hosts", "hostname"):
        (root / "etc" / name).unlink(missing_ok=True)
