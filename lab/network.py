"""The lab's bridge, subnet and nftables table."""

import contextlib
import hashlib
import ipaddress
import itertools
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from .model import Lab, Node
from .system import LabError, raise_setting, restore_settings, run

FORWARD = "net.ipv4.ip_forward"


def table_text(lab: Lab) -> str:
    """The nftables table: traffic within the lab, and with egress what goes out and its answers.

    It names the other side by what it is not (the lab's own subnet), so that it holds for any way out that this
    machine has or gets. Traffic from another lab is new traffic into the bridge, and dropped. Nothing passes between
    this machine and a private lab's inner bridge.
    """
    bridge = lab.bridge
    rules = [
        "type filter hook forward priority -10; policy accept;",
        *(f'iifname "{one}" oifname "{one}" accept' for one in lab.bridges),
        f'oifname "{bridge}" ct state established,related accept',
        f'oifname "{bridge}" drop',
    ]
    if not lab.egress:
        rules.append(f'iifname "{bridge}" drop')
    if lab.private:
        rules += [f'iifname "{lab.inner_bridge}" drop', f'oifname "{lab.inner_bridge}" drop']
    chains = ["chain forward {", *rules, "}"]
    if lab.private:
        # This machine would answer to any of its addresses, also where it has none.
        chains += ["chain input {", "type filter hook input priority 0;", f'iifname "{lab.inner_bridge}" drop', "}"]
        refuse = f"ip daddr {lab.inner} reject with icmp type host-unreachable"
        chains += ["chain output {", "type filter hook output priority 0;", refuse, "}"]
    if lab.egress:
        masquerade = f"ip saddr {lab.subnet} ip daddr != {lab.subnet} masquerade"
        chains += ["chain post {", "type nat hook postrouting priority 100;", masquerade, "}"]
    body = "\n".join(chains)
    return f"table ip {lab.table} {{}}\ndelete table ip {lab.table}\ntable ip {lab.table} {{\n{body}\n}}\n"


def find_clash(lab: Lab, labs: Iterable[Lab], taken: Iterable[tuple[str, str]]) -> str | None:
    """Say who holds the lab's subnet or bridge: another lab, or one of `taken` (network, interface)."""
    mine = ipaddress.IPv4Network(lab.subnet)
    for other in labs:
        if mine.overlaps(ipaddress.IPv4Network(other.subnet)):
            return f"the subnet {lab.subnet} belongs to the lab {other.name} ({other.subnet})"
        if lab.bridge == other.bridge:
            return f"the bridge {lab.bridge} belongs to the lab {other.name}"
    for network, interface in taken:
        if interface != lab.bridge and mine.overlaps(ipaddress.IPv4Network(network)):
            return f"the subnet {lab.subnet} overlaps {network} on {interface}"
    return None


def taken_networks() -> list[tuple[str, str]]:
    """Networks that this machine's addresses and routes cover, but default routes (also a VPN's two halves)."""
    found = []
    for link in json.loads(run(["ip", "-json", "-4", "address"])):
        for entry in link.get("addr_info", []):
            with contextlib.suppress(ValueError, KeyError):
                network = ipaddress.IPv4Interface(f"{entry['local']}/{entry['prefixlen']}").network
                found.append((str(network), link["ifname"]))
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"])):
        if route.get("dst") != "default":
            with contextlib.suppress(ValueError, KeyError):
                network = ipaddress.IPv4Network(route["dst"])
                if network.prefixlen > 4:
                    found.append((str(network), route.get("dev", "a route")))
    return found


def mark(lab: Lab, bridge: str) -> str:
    """A bridge's hardware address, by which we know it as ours: set as it is made, so no bridge is ever unmarked."""
    digits = hashlib.sha256((lab.table if bridge == lab.bridge else bridge).encode()).hexdigest()
    return f"02:72:67:{digits[:2]}:{digits[2:4]}:{digits[4:6]}"


def _is_ours(lab: Lab, bridge: str) -> bool | None:
    """Whether the interface of a bridge's name is the lab's; None where there is none."""
    for link in json.loads(run(["ip", "-json", "link"])):
        if link["ifname"] == bridge:
            return bool(mark(lab, bridge) == link["address"] or lab.table == link.get("ifalias"))
    return None


def refuse_clash(lab: Lab, labs: Iterable[Lab]) -> None:
    """Raise LabError if the lab's subnet or bridge belongs to another lab or network."""
    clash = find_clash(lab, labs, taken_networks())
    if not clash and (foreign := [bridge for bridge in lab.bridges if _is_ours(lab, bridge) is False]):
        clash = f"there is an interface {foreign[0]} that is not of a lab"
    if clash:
        raise LabError(f"lab {lab.name}: {clash}; choose another subnet (--subnet 10.98.N.0/24) or another name")


def up(lab: Lab, others: list[Lab]) -> None:
    """Make the bridges and the table; existing ones of this lab are put right."""
    run(["nft", "-f", "-"], feed=table_text(lab))
    for bridge in lab.bridges:
        if _is_ours(lab, bridge) is None:
            run(["ip", "link", "add", bridge, "address", mark(lab, bridge), "type", "bridge"])
        ipv6 = Path(f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6")
        if ipv6.exists():
            ipv6.write_text("1")
        if bridge == lab.bridge:
            run(["ip", "address", "replace", f"{lab.gateway}/{lab.outer.partition('/')[2]}", "dev", bridge])
        run(["ip", "link", "set", bridge, "up"])
    _pass_foreign_firewalls(lab)
    if lab.egress:
        raise_setting(FORWARD, 1)
    nodes = lab.nodes + sum(other.nodes for other in others)
    for key, value in _room_for(nodes).items():
        raise_setting(key, value)


def down(lab: Lab, others: list[Lab]) -> None:
    """Remove bridges and table, and put back the kernel's settings that no lab in `others` needs."""
    for bridge in (lab.bridge, lab.inner_bridge):
        if not _is_ours(lab, bridge):
            continue
        # The outer end of a killed node's cable outlives it for a moment, in the way of the next node of that name.
        for cable in json.loads(run(["ip", "-json", "link", "show", "master", bridge]) or "[]"):
            if "ifname" in cable:
                with contextlib.suppress(LabError):  # it is gone by itself
                    run(["ip", "link", "delete", cable["ifname"]])
        run(["ip", "link", "delete", bridge])
    if shutil.which("nft"):
        if f"table ip {lab.table}\n" in run(["nft", "list", "tables"]):
            run(["nft", "delete", "table", "ip", lab.table])
        _remove_rules(lab)
    keep = [*_room_for(1)] if others else []
    if any(other.egress for other in others):
        keep.append(FORWARD)
    restore_settings(keep)


def plug_in(node: Node) -> None:
    """Lead the second cable of a node that has just been started to the inner bridge."""
    if not node.cable:
        return
    end = time.monotonic() + 20
    while not Path(f"/sys/class/net/{node.cable}").exists():
        if time.monotonic() > end:
            raise LabError(
                f"{node.name}: its cable {node.cable} to the inner bridge is missing: remove the lab and make it again"
            )
        time.sleep(0.02)
    run(["ip", "link", "set", node.cable, "master", node.lab.inner_bridge, "up"])


def _room_for(nodes: int) -> dict[str, int]:
    """Kernel limits that all nodes share: watches of their systemds, and neighbours, each node knowing each."""
    return {
        "fs.inotify.max_user_instances": 128 + 24 * nodes,
        "net.ipv4.neigh.default.gc_thresh2": 512 + 2 * nodes**2,
        "net.ipv4.neigh.default.gc_thresh3": 1024 + 2 * nodes**2,
    }


def _forward_chains() -> list[tuple[str, str, str]]:
    """(family, table, chain) of every chain that drops forwarded packets by default.

    An accept in our table does not overrule it, and with bridge-nf-call-iptables it also cuts a lab's own nodes
    off from each other. Docker and ufw make such chains.
    """
    listed = json.loads(run(["nft", "-j", "list", "chains"]))["nftables"]
    chains = [entry["chain"] for entry in listed if "chain" in entry]
    return [
        (chain["family"], chain["table"], chain["name"])
        for chain in chains
        if chain["family"] in ("ip", "inet") and chain.get("hook") == "forward" and chain.get("policy") == "drop"
    ]


def _pass_foreign_firewalls(lab: Lab) -> None:
    """Let the lab's traffic through chains that drop by default; our own table still judges it."""
    _remove_rules(lab)
    for family, table, chain in _forward_chains():
        for bridge, side in itertools.product(lab.bridges, ("iifname", "oifname")):
            rule = f'{side} "{bridge}" accept comment "{lab.table}"'
            run(["nft", f"insert rule {family} {table} {chain} {rule}"])


def _remove_rules(lab: Lab) -> None:
    for family, table, chain in _forward_chains():
        for line in run(["nft", "-a", "list", "chain", family, table, chain]).splitlines():
            if f'comment "{lab.table}"' in line:
                handle = line.rsplit("# handle ", 1)[1]
                run(["nft", "delete", "rule", family, table, chain, "handle", handle])
