"""What is wrong with the accounts of members, from what `getent` said on each host."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\Z")
FIRST = 1000
"""Accounts of lower numbers are the system's."""


def problems(found: Mapping[str, Sequence[str]], names: Sequence[str], group: str) -> list[str]:
    """Sentences about accounts that a host lacks, or that have another number there; `found`: lines by host."""
    said = [
        f"'{name}' is no name of an account or group that can be a member: use a-z, 0-9, '_', '-' and '.'"
        for name in names
        if not NAME.match(name)
    ]
    numbers: dict[str, dict[str, int]] = {}
    for host, lines in found.items():
        for line in lines:
            name, _, rest = line.partition(":")
            if name == "%":
                said.append(f"{host}: there is no group {group} (members_group): make it there")
            elif rest:
                numbers.setdefault(name, {})[host] = int(rest.split(":")[1])
            else:
                said.append(f"{host}: there is no account {name}: make it there, with the number that it has elsewhere")
    for name, by_host in sorted(numbers.items()):
        if len(set(by_host.values())) > 1:
            each = ", ".join(f"{number} on {host}" for host, number in by_host.items())
            said.append(f"the account {name} has different numbers ({each}): give it the same one on all hosts")
        elif min(by_host.values()) < FIRST:
            said.append(f"{name} is an account of the system (number {min(by_host.values())}): name a person's")
    return said


class FilterModule:
    """`{host: lines} | members_problems(names, group)` -> sentences."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"members_problems": problems}
