"""Whose a run is: the login account and the fingerprint of its key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta import text
from regatta.node import owner


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, kind: str) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)], check=True)
    shown = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True).stdout.split()[
        1
    ]
    told = f"publickey {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n"
    assert owner.fingerprint(told) == shown


@pytest.mark.parametrize(
    "told", ["", "password\n", "publickey ssh-ed25519\n", "publickey ssh-ed25519 !!\n", "publickey"]
)
def test_what_tells_no_key_gives_none(told: str) -> None:
    assert owner.fingerprint(told) == ""


def test_the_key_is_found_above_what_sudo_has_started(tmp_path: Path) -> None:
    """The variable of sshd is in a process above, and the file is the account's own; another account's is not read."""
    told = tmp_path / "auth"
    told.write_text("publickey ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIaOsUrlZ+FIn66tPk1HqSpdTLhyeJ3FqZOMvnxPZYpj\n")
    account = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    program = "from regatta.node import owner; print(owner.of_request())"
    command = ["sh", "-c", f'env -u SSH_USER_AUTH {sys.executable} -c "{program}"; true']
    env = {**os.environ, "SSH_USER_AUTH": str(told), "SUDO_USER": account}
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    assert said == f"{account} SHA256:ya6xyrIZQlIKH8Z58mQ8XSpt7ABF7MvoLhxfwweK5Dc\n"
    other = subprocess.run(command, env={**env, "SUDO_USER": "games"}, check=True, capture_output=True, text=True)
    assert other.stdout == "games\n"
    assert text.owner(said.strip()) == f"{account} (ya6xyrIZ)" and text.owner("root on vm") == "root on vm"
