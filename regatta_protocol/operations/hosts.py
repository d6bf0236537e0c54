"""A host as such: its lease, secrets, caches, what it does right now, and what a person who helps needs to see."""

from typing import Any, Dict, Optional, Tuple

from regatta_protocol.decoding import Path
from regatta_protocol.operations.operation import Operation, Telling
from regatta_protocol.value import Value

GATE, SEND = "/etc/regatta/gate", "send"
"""The program that members may start by sudo, see `regatta.node.gate`; with this word it sends files by rsync."""


class Holder(Value):
    """The holder of the lease on a cluster, its command, and for how long it has the lease."""

    who: str
    command: str
    seconds: float


class LeaseWord(Value):
    """The state of a lease: it is held, is still held, was taken away; or who has it."""

    held: bool = False
    alive: bool = False
    broken: bool = False
    taken: Optional[Holder] = None


class HoldLease(Telling[None, LeaseWord]):
    """Hold the lease until the connection ends; `broken`: whoever has it loses it."""

    op = "lease.hold"
    who: str
    command: str
    broken: bool = False


class Sampled(Value):
    """The present activity of a node, as `regatta.node.sample` says; what runs tell in it is their choice."""

    sample: Dict[str, Any]


class Sample(Telling[None, Sampled]):
    """Tell every `interval` seconds what a node does; the head also how HDFS is."""

    op = "sample"
    interval: float
    head: bool


class Token(Value):
    """A secret of a service: the file that holds it, whole, or as the value of its setting `line`."""

    name: str
    path: str
    line: str = ""


class Definition(Value):
    """A cluster as its head keeps it for further controllers: the files of its inventory, the pinned keys of hosts.

    `pins`: lines of known_hosts; `accounts`: logins of all who have provisioned; `by`, `at`, `regatta`: who has done so
    last, when, and by which version. `member`: the inventory that people without sudo get, instead of `files`.
    """

    name: str
    head: str
    hosts: Tuple[str, ...]
    files: Dict[Path, str]
    pins: str
    secrets: Dict[str, str]
    accounts: Tuple[str, ...] = ()
    by: str = ""
    at: float = 0.0
    regatta: str = ""
    member: str = ""


class Member(Value):
    """The cluster of a host, the address of its head, its own roles; secrets that it has; on a head the definition."""

    held: Dict[str, str]
    cluster: str = ""
    head: str = ""
    roles: Tuple[str, ...] = ()
    kept: Optional[Definition] = None


class AskMember(Operation[Member]):
    """What a host knows of its cluster, and which of these secrets it has."""

    op = "cluster.member"
    keys: Tuple[str, ...]
    tokens: Tuple[Token, ...]


class KeepDefinition(Operation[None]):
    """Keep the definition of the cluster, for root alone."""

    op = "cluster.keep"
    definition: Definition


class Cooled(Value):
    """Number of prepared forms that went; whether `all` pages or those of `inputs`, and the reason for the latter."""

    prepared: int
    pages: str
    reason: Optional[str] = None


class CoolCaches(Operation[Cooled]):
    """Make caches cold; `whole`: try it for all pages."""

    op = "caches.cool"
    whole: bool = True


class Texts(Value):
    """Texts by the names of files that shall hold them."""

    texts: Dict[Path, str]


class AskSupport(Operation[Texts]):
    """The data that a person who helps needs, without secrets; `more`: patterns of files that services name."""

    op = "support"
    tokens: Tuple[Token, ...]
    more: Tuple[str, ...]
