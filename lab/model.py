"""A lab: names, addresses and folders that follow from its name, and its lab.json."""

import dataclasses
import hashlib
import ipaddress
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .system import LabError

STATE = Path("/var/lib/regatta-lab")
PROJECT = Path(__file__).resolve().parent.parent
MOST_NODES = 100
RESERVED = ("example", "local")
TOPOLOGIES = ("flat", "private")


def check_name(name: str) -> str:
    """Return the lab's name if it can serve as a host, table and folder name."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?", name):
        raise LabError(f"{name!r} cannot name a lab: at most 20 lower-case letters, digits and dashes, a letter first")
    if name in RESERVED:
        raise LabError(f"a lab cannot be named {name}: inventory/{name} belongs to the project; give another --name")
    return name


def bridge_name(name: str) -> str:
    """The lab's bridge, at most 15 characters (the kernel's limit)."""
    if len(name) <= 12:
        return f"rg-{name}"
    return f"rg-{name[:7]}-{hashlib.sha256(name.encode()).hexdigest()[:4]}"


def default_subnet(name: str) -> str:
    """The /24 that a lab of this name takes when none is chosen: 10.98.1.0 to 10.98.254.0."""
    third = 1 + int(hashlib.sha256(name.encode()).hexdigest(), 16) % 254
    return f"10.98.{third}.0/24"


def check_subnet(subnet: str) -> str:
    """Return the subnet in its usual form; it must be a private IPv4 /24."""
    try:
        network = ipaddress.IPv4Network(subnet)
    except ValueError as error:
        raise LabError(f"{subnet!r} is no IPv4 network: give a private /24 such as 10.98.7.0/24") from error
    if network.prefixlen != 24 or not network.is_private:
        raise LabError(f"{subnet} does not serve: give a private /24 such as 10.98.7.0/24")
    return str(network)


@dataclass(frozen=True)
class Lab:
    """A lab as its lab.json describes it."""

    name: str
    nodes: int
    egress: bool
    suite: str
    image: str
    subnet: str
    inventory: str
    topology: str = "flat"
    cores: float | None = None
    """A whole number: so many of the machine's cores each node has, and no others. Else each node may use so many
    cores' worth of time, on any of them. None: all nodes share all cores."""

    @property
    def part(self) -> float | None:
        """The part of a core, or cores and a part, that each node may use; None where it has whole cores."""
        return None if self.cores is None or float(self.cores).is_integer() else self.cores

    @property
    def private(self) -> bool:
        """Whether this machine reaches only node1, and the other nodes only from there."""
        return self.topology == "private"

    @property
    def folder(self) -> Path:
        """State of the lab, removed with it."""
        return STATE / self.name

    @property
    def bridge(self) -> str:
        """Name of the lab's bridge."""
        return bridge_name(self.name)

    @property
    def inner_bridge(self) -> str:
        """Name of the bridge of the nodes that only node1 reaches: this machine has no address there."""
        return f"ri{self.bridge[2:]}"

    @property
    def bridges(self) -> list[str]:
        """Names of all bridges of the lab."""
        return [self.bridge, self.inner_bridge] if self.private else [self.bridge]

    @property
    def outer(self) -> str:
        """The network that this machine is in: the whole subnet, or its lower half."""
        return str(self._halves()[0]) if self.private else self.subnet

    @property
    def inner(self) -> str:
        """The network of the nodes among themselves: the whole subnet, or its upper half."""
        return str(self._halves()[1]) if self.private else self.subnet

    def _halves(self) -> list[ipaddress.IPv4Network]:
        return list(ipaddress.IPv4Network(self.subnet).subnets())

    @property
    def table(self) -> str:
        """Name of the lab's nftables table and of its cgroup."""
        return f"regatta-lab-{self.name}"

    @property
    def gateway(self) -> str:
        """Address of this machine on the bridge."""
        return str(ipaddress.IPv4Network(self.subnet)[1])

    def node(self, number: int) -> "Node":
        """The node of this number, counted from 1."""
        return Node(self, number)

    def all_nodes(self) -> list["Node"]:
        """Every node, in order."""
        return [self.node(number) for number in range(1, self.nodes + 1)]

    def save(self) -> None:
        """Write lab.json, whole or not at all."""
        STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        new = self.folder / "lab.json.new"
        new.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        new.rename(self.folder / "lab.json")


@dataclass(frozen=True)
class Node:
    """One host of a lab."""

    lab: Lab
    number: int

    @property
    def name(self) -> str:
        """Host name."""
        return f"node{self.number}"

    @property
    def machine(self) -> str:
        """Name for systemd-nspawn, unlike that of any node of another lab."""
        return f"{self.lab.name}-{self.name}"

    @property
    def hidden(self) -> bool:
        """Whether this machine reaches it only through node1."""
        return self.lab.private and self.number > 1

    @property
    def address(self) -> str:
        """IPv4 address by which it is reached: from this machine, or where it is hidden, from node1."""
        return str(ipaddress.IPv4Network(self.lab.inner if self.hidden else self.lab.outer)[10 + self.number])

    @property
    def cluster_address(self) -> str:
        """IPv4 address by which the nodes reach it."""
        return str(ipaddress.IPv4Network(self.lab.inner)[10 + self.number])

    @property
    def cable(self) -> str | None:
        """Name here, at most 15 characters, of the cable that leads node1 to the hidden nodes; None elsewhere."""
        if not self.lab.private or self.hidden:
            return None
        return f"rx-{hashlib.sha256(self.machine.encode()).hexdigest()[:11]}"

    @property
    def cpus(self) -> list[int]:
        """Numbers of the machine's cores that it has, all where it is bound to none; the next nodes begin again."""
        here = sorted(os.sched_getaffinity(0))
        if self.lab.cores is None or self.lab.part:
            return here
        cores = int(self.lab.cores)
        first = (self.number - 1) * cores
        return sorted(here[place % len(here)] for place in range(first, first + min(cores, len(here))))

    @property
    def folder(self) -> Path:
        """State of the node."""
        return self.lab.folder / self.name

    @property
    def root(self) -> Path:
        """Return where the node's file system is mounted while it runs."""
        return self.folder / "root"


def load(name: str) -> Lab | None:
    """The lab of this name, or None where there is none."""
    file = STATE / name / "lab.json"
    try:
        return Lab(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise LabError(f"{file} is damaged ({error}): remove the lab by `python3 -m lab down --name {name}`") from error


def all_labs() -> list[Lab]:
    """Every lab of this machine that has a readable lab.json."""
    labs = []
    for file in sorted(STATE.glob("*/lab.json")):
        try:
            lab = load(file.parent.name)
        except LabError:
            continue
        if lab:
            labs.append(lab)
    return labs
