"""Why hosts cannot be reached, and what to do about another layout of folders: in the words that every command has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regatta.hosts.cluster import Node
from regatta.hosts.remote import explain
from regatta.node import layout


def reasons(unclear: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A message for each host.

    `unclear[host]`: `layout`, the number that the host has; or `said`, what ssh has said, and `host`, `user`, `key` and
    `folder`: where, as whom and with which file Ansible logs in, and where the SSH configuration is.
    """
    return {
        host: layout.differs(what["layout"]) if "layout" in what else _refusal(host, what)
        for host, what in unclear.items()
    }


def _refusal(host: str, what: Mapping[str, Any]) -> str:
    config = Path(what.get("folder") or "", "ssh_config.provision")
    return str(explain(_node(host, what), 255, what["said"], config if config.is_file() else None))


def _node(host: str, login: Mapping[str, Any]) -> Node:
    return Node(
        name=host,
        host=str(login.get("host") or host),
        cluster_address="",
        local=False,
        port=None,
        user=login.get("user") or None,
        key_file=login.get("key") or None,
        ssh_args=(),
        root="",
        state="",
        python="",
    )
