"""A cluster and its nodes as values; `inventories` reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from regatta.errors import InventoryError
from regatta.hosts import limits as run_limits
from regatta_protocol.run import Limits


@dataclass(frozen=True)
class Node:
    """One host. `cluster_address` is the private address that services bind to and peers use."""

    name: str
    host: str
    cluster_address: str
    local: bool
    port: int | None
    user: str | None
    key_file: str | None
    ssh_args: tuple[str, ...]
    root: str
    state: str
    python: str
    limits: Limits = run_limits.DEFAULT
    price_per_hour: float | None = None
    become: str | None = field(default=None, repr=False, compare=False)
    """The password of sudo there, or a vault with it; see `sudo.password`."""
    member: bool = False
    """Whether the login has no sudo there but for the gate (`regatta.node.gate`)."""

    frameworks: tuple[str, ...] = ()
    """Of a member's head: frameworks whose runs a service of the cluster takes, which other copies know by secrets."""

    @property
    def privileged(self) -> bool:
        """Whether the node's side works as root under systemd (a provisioned host), not as a plain user."""
        return not self.local


@dataclass(frozen=True)
class Cluster:
    """`nodes` in inventory order; `workers` run ranks; `head` runs the services and Ray's jobs.

    `inventory`: all hosts, where `nodes` are some of them.
    """

    name: str
    folder: Path
    nodes: tuple[Node, ...]
    workers: tuple[Node, ...]
    head: Node
    inventory: tuple[Node, ...] = ()

    @property
    def everybody(self) -> tuple[Node, ...]:
        """All hosts of the inventory, also those that this command leaves out."""
        return self.inventory or self.nodes

    @property
    def price_per_hour(self) -> float | None:
        """What all hosts that this command uses cost together; None where one of them has no price."""
        prices = [node.price_per_hour for node in self.nodes]
        return sum(filter(None, prices)) if None not in prices else None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the inventory's hosts that this command leaves out."""
        return tuple(node.name for node in self.everybody if node not in self.nodes)

    @property
    def local(self) -> bool:
        """Whether the cluster is this machine only (inventory/local)."""
        return all(node.local for node in self.nodes)

    def ordered(self, names: Sequence[str]) -> "Cluster":
        """The cluster with its workers in the order of `names`, which come before others."""
        places = {name: place for place, name in enumerate(names)}
        ordered = sorted(self.workers, key=lambda node: places.get(node.name, len(places)))
        return replace(self, workers=tuple(ordered))

    def node(self, name: str) -> Node:
        """The node of that name; InventoryError names the ones there are."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise InventoryError(f"{self.name}: no host '{name}'; there are {', '.join(n.name for n in self.nodes)}")
