"""Firewalls of the user's own that would keep members apart: whatever Regatta's lets in, these drop it."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_OPEN = {
    "ufw": "sudo ufw allow from {address}",
    "firewalld": "sudo firewall-cmd --permanent --zone=trusted --add-source={address}; sudo firewall-cmd --reload",
}


def problems(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what to do on each host whose own firewall does not let every other member in.

    `results[host]`: `address`, and `own_firewall`: {name, lets_in: addresses and networks from which all is accepted}.
    Hosts that gave no answer are left out.
    """
    found = []
    results = {host: result for host, result in results.items() if "own_firewall" in result}
    for host, result in results.items():
        own = result["own_firewall"]
        if own["name"] not in _OPEN:
            continue
        others = {other["address"] for name, other in results.items() if name != host and other["address"]}
        if shut_out := sorted(address for address in others if not _covered(address, own["lets_in"])):
            words = "; ".join(_OPEN[own["name"]].format(address=address) for address in shut_out)
            found.append(
                f"{host}: {own['name']} is active there and drops what {', '.join(shut_out)} send(s): {words}; "
                "or switch it off, as Regatta's own firewall lets nothing but members and SSH in"
            )
    return found


def _covered(address: str, sources: Sequence[str]) -> bool:
    for source in sources:
        try:
            if ipaddress.ip_address(address) in ipaddress.ip_network(source, strict=False):
                return True
        except ValueError:  # a name of ufw's or firewalld's own, such as a set of addresses
            continue
    return False


class FilterModule:
    """`results | preflight_firewalls` -> problems."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Return what Ansible finds here."""
        return {"preflight_firewalls": problems}
