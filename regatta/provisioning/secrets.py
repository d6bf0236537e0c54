"""A cluster's own secrets on the controller: made once, mode 0600, below `inventory/<name>/secrets/`."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from regatta.errors import RegattaError

RAY_TOKEN = "ray_token"
CLUSTER_KEY = "cluster_key"


def folder(inventory_dir: Path) -> Path:
    """Where the secrets of an inventory are."""
    return inventory_dir / "secrets"


def ensure(inventory_dir: Path) -> bool:
    """Make what is missing; returns whether anything was."""
    where = folder(inventory_dir)
    where.mkdir(mode=0o700, exist_ok=True)
    where.chmod(0o700)
    made = _token(where / RAY_TOKEN)
    return _key(where / CLUSTER_KEY, inventory_dir.name) or made


def missing(inventory_dir: Path) -> bool:
    """Whether `ensure` would make something."""
    return not all((folder(inventory_dir) / name).is_file() for name in (RAY_TOKEN, CLUSTER_KEY, f"{CLUSTER_KEY}.pub"))


def remove(inventory_dir: Path) -> bool:
    """Delete them; returns whether there was anything. A person's own files in that folder stay."""
    where, found = folder(inventory_dir), False
    for name in (RAY_TOKEN, CLUSTER_KEY, f"{CLUSTER_KEY}.pub"):
        if (where / name).exists():
            (where / name).unlink()
            found = True
    if where.is_dir() and not any(where.iterdir()):
        where.rmdir()
    return found


def _token(path: Path) -> bool:
    if path.is_file():
        text = path.read_text().strip()
        if len(text) != 64 or set(text) - set("0123456789abcdef"):
            raise RegattaError(f"{path} does not hold 64 hex digits: delete it, and 'make provision' makes a new one")
        path.chmod(0o600)
        return False
    _write(path, secrets.token_hex(32) + "\n")
    return True


def _key(path: Path, name: str) -> bool:
    public = path.with_name(f"{path.name}.pub")
    if path.is_file() and public.is_file():
        path.chmod(0o600)
        return False
    for old in (path, public):
        old.unlink(missing_ok=True)
    if not shutil.which("ssh-keygen"):
        raise RegattaError("ssh-keygen is not installed on this machine: apt-get install openssh-client")
    new = path.with_name(f".{path.name}.new")
    for old in (new, new.with_name(f"{new.name}.pub")):
        old.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"regatta-{name}", "-f", str(new)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    new.with_name(f"{new.name}.pub").replace(public)
    new.replace(path)
    return True


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)
