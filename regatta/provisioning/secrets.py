"""A cluster's own secrets on the controller: made once, mode 0600, below `inventory/<name>/secrets/`."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from regatta import files
from regatta.errors import RegattaError
from regatta.program import about_hosts
from regatta.services import parts
from regatta_protocol.operations.hosts import Token

CLUSTER_KEY, MESH_KEY = "cluster_key", "mesh_key"
"""The key of runs, which opens the shared folder, and root's, by which nodes fetch from each other."""
KEYS = (CLUSTER_KEY, MESH_KEY)
UNKNOWN = "REGATTA_SECRETS_UNKNOWN"
"""Variable for the steps of roles: why it is not known whether the hosts have what is missing here."""
_ROTATING = ".rotating"


def folder(inventory_dir: Path) -> Path:
    """Return where the secrets of an inventory are."""
    return inventory_dir / "secrets"


def names() -> tuple[str, ...]:
    """Files of all secrets that a cluster may have."""
    return (*_tokens(), *KEYS)


def tokens() -> tuple[Token, ...]:
    """The tokens of all services, as nodes are asked for them."""
    return tuple(Token(one.name, one.path, one.line) for one in parts.secrets())


def held(inventory_dir: Path) -> dict[str, str]:
    """The secrets that are here, by name."""
    paths = {name: folder(inventory_dir) / name for name in names()}
    return {name: path.read_text() for name, path in paths.items() if path.is_file()}


def put(inventory_dir: Path, name: str, text: str, cluster: str = "") -> None:
    """Write a secret that the hosts have; RegattaError where it cannot be one.

    `cluster`: its name there, where the inventory has another one.
    """
    where = _made(inventory_dir)
    path = where / name
    _write(path, text.strip() + "\n")
    try:
        if name in KEYS:
            _key(path, cluster or inventory_dir.name)
        else:
            _token(path)
    except RegattaError:
        path.unlink()
        raise RegattaError(
            f"{name} of the hosts is none: put secrets/ of another checkout into {inventory_dir}"
        ) from None


def rotating(inventory_dir: Path) -> bool:
    """Whether new secrets were made here that have not been seen on all hosts yet."""
    return (folder(inventory_dir) / _ROTATING).exists()


def rotated(inventory_dir: Path) -> None:
    """The hosts have what is here."""
    (folder(inventory_dir) / _ROTATING).unlink(missing_ok=True)


def _made(inventory_dir: Path) -> Path:
    where = folder(inventory_dir)
    where.mkdir(mode=0o700, exist_ok=True)
    where.chmod(0o700)
    return where


def _may_make(path: Path) -> None:
    if reason := os.environ.get(UNKNOWN):
        raise RegattaError(
            f"{path} is missing, and whether the hosts have that secret is not known ({reason}): provision again when "
            "all hosts answer, or copy secrets/ of the checkout that provisioned them"
        )


def ensure(inventory_dir: Path) -> bool:
    """Make what is missing; returns whether anything was. RegattaError where the hosts may have it."""
    where = _made(inventory_dir)
    made = False
    for name in _always():
        made = _token(where / name) or made
    for name in KEYS:
        made = _key(where / name, inventory_dir.name) or made
    return made


def ensure_token(inventory_dir: Path, name: str) -> bool:
    """Make the token of a service that not every cluster has where it is missing; returns whether it was."""
    return _token(folder(inventory_dir) / name)


def rotate(inventory_dir: Path) -> bool:
    """Replace all of them, each in one step; returns True."""
    where = _made(inventory_dir)
    (where / _ROTATING).touch()
    for name in _tokens():
        if name in _always() or (where / name).exists():
            _write(where / name, _new_token())
    for name in KEYS:
        _new_key(where / name, inventory_dir.name)
    return True


def missing(inventory_dir: Path) -> bool:
    """Whether `ensure` would make something."""
    return not all((folder(inventory_dir) / name).is_file() for name in (*_always(), *_key_files()))


def remove(inventory_dir: Path) -> bool:
    """Delete them; returns whether there was anything. A person's own files in that folder stay."""
    where, found = folder(inventory_dir), False
    for name in (*_tokens(), *_addresses(), *_key_files(), _ROTATING):
        if (where / name).exists():
            (where / name).unlink()
            found = True
    if where.is_dir() and not any(where.iterdir()):
        where.rmdir()
    return found


def _key_files() -> tuple[str, ...]:
    return tuple(name for key in KEYS for name in (key, f"{key}.pub"))


def _tokens() -> tuple[str, ...]:
    """Files of tokens that a cluster may have."""
    return tuple(secret.name for secret in parts.secrets())


def _always() -> tuple[str, ...]:
    """Files of tokens that every cluster has."""
    return tuple(secret.name for secret in parts.secrets() if not secret.optional)


def _addresses() -> tuple[str, ...]:
    """Files with the addresses of services that are not Regatta's."""
    return tuple(part.foreign for part in parts.every() if part.foreign)


def _token(path: Path) -> bool:
    if path.is_file():
        text = path.read_text().strip()
        if len(text) != 64 or set(text) - set("0123456789abcdef"):
            raise RegattaError(
                f"{path} does not hold 64 hex digits: delete it, and '{about_hosts('provision')}' makes a new one"
            )
        path.chmod(0o600)
        return False
    _may_make(path)
    _write(path, _new_token())
    return True


def _new_token() -> str:
    return secrets.token_hex(32) + "\n"


def _key(path: Path, name: str) -> bool:
    public = path.with_name(f"{path.name}.pub")
    if path.is_file():
        path.chmod(0o600)
        own = _ssh_keygen("-y", "-P", "", "-f", str(path))
        if public.is_file() and public.read_text().split()[:2] == own.split()[:2]:
            return False
        _write(public, f"{' '.join(own.split()[:2])} {_comment(name)}\n")
        return True
    _may_make(path)
    _new_key(path, name)
    return True


def _new_key(path: Path, name: str) -> None:
    """The private half comes first: `_key` makes the public one from it where that is not its own."""
    new = path.with_name(f".{path.name}.new")
    for old in (new, new.with_name(f"{new.name}.pub")):
        old.unlink(missing_ok=True)
    _ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", _comment(name), "-f", str(new))
    files.put(new, path)
    files.put(new.with_name(f"{new.name}.pub"), path.with_name(f"{path.name}.pub"))


def _comment(name: str) -> str:
    return f"regatta-{name}"


def _ssh_keygen(*words: str) -> str:
    if not shutil.which("ssh-keygen"):
        raise RegattaError("ssh-keygen is not installed on this machine: apt-get install openssh-client")
    done = subprocess.run(
        ["ssh-keygen", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise RegattaError(
            f"ssh-keygen: {done.stderr.strip()}: delete that file, and '{about_hosts('provision')}' makes a new one"
        )
    return done.stdout


def _write(path: Path, text: str) -> None:
    files.write(path, text, 0o600)
