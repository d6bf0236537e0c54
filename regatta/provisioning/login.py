"""Whether a node accepts a new login while its sshd has settings on trial."""

from regatta.errors import RemoteError
from regatta.hosts import inventories, openssh
from regatta.hosts.remote import Remote, run_once

_SECONDS = 40


def check(inventory: str, host: str) -> None:
    """Log in over a new connection. Raises RemoteError."""
    chosen = inventories.load(inventory)
    node = chosen.node(host)
    remote = Remote(chosen, options=openssh.ALONE)
    command = [*remote.ssh(node), "--", openssh.destination(node), "true"]
    try:
        run_once(remote.config, node, command, _SECONDS, f"no answer within {_SECONDS} s")
    except RemoteError as error:
        raise RemoteError(host, _kept(error.reason)) from None


def _kept(reason: str) -> str:
    return (
        f"with the hardened sshd a new login fails ({reason}). Its old settings come back within two minutes. "
        "Change what is in the way, or one of ssh_hardening_settings, or set ssh_hardening_enabled: false"
    )
