"""The accounts of members, and what is wrong with them, from what `getent` said on each host."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\Z")
FIRST = 1000
"""Accounts of lower numbers are the system's."""
PREFIX, LONGEST = "regatta-", 32
"""Of the names of accounts that only the runs of one member have; the longest name that a host takes."""
OFFSET, OWN = 65_000, range(66_000, 100_000)
"""The number of such an account, by its member's: none of them is a person's, systemd's or of a user namespace."""
PORTS, SLOTS, EACH = 23_000, 400, 10
"""The ports of such accounts' runs, a few each."""


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


def separate(found: Mapping[str, Sequence[str]], looked: Mapping[str, Sequence[str]]) -> list[str]:
    """Sentences about accounts of runs that members cannot have.

    `found`: as for `problems`, which come first; `looked`: lines of `apart.sh` by host.
    """
    said: dict[str, None] = {}
    slots: dict[int, str] = {}
    for one in accounts([line for lines in found.values() for line in lines]):
        login, name, number = one["login"], one["name"], one["number"]
        other = slots.setdefault(one["ports"][0], login)
        wrong = {
            f"{login}: members_separate takes names of a-z, 0-9, '_', '-' and '.', at most {LONGEST - len(PREFIX)}": (
                not NAME.match(login) or len(name) > LONGEST
            ),
            f"{login}: members_separate takes numbers from {FIRST} to {OWN[-1] - OFFSET}": number not in OWN,
            f"{login} and {other} have numbers {SLOTS} apart: give one of them another number": other != login,
        }
        said |= dict.fromkeys(text for text, found_so in wrong.items() if found_so)
    for host, lines in found.items():
        said |= dict.fromkeys(f"{host}: {problem}" for problem in _in_the_way(lines, looked.get(host, ())))
    return list(said)


def _in_the_way(lines: Sequence[str], looked: Iterable[str]) -> Iterable[str]:
    """Problems of one host: others' accounts and groups of these names or numbers, and numbers that it lacks."""
    ours = {(one["name"], one["number"]): one["comment"] for one in accounts(lines)}
    for mark, line in ((line[:1], line[1:]) for line in looked):
        if mark == "!":
            yield f"{line}: members_separate needs the numbers {OWN[0]} to {OWN[-1]}"
            continue
        name, _, number, *rest = line.split(":")
        comment = ours.get((name, int(number)))
        if comment is None or (mark == "+" and rest[1] != comment):
            what = "account" if mark == "+" else "group"
            yield f"another's {what} {name} ({number}) is in the way of members_separate: remove it, or rename it"


def accounts(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The account for runs of each member, from the lines of one host or of several."""
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        if rest:
            number = int(rest.split(":")[1]) + OFFSET
            first = PORTS + (number - OWN[0]) % SLOTS * EACH
            about = {"login": name, "name": f"{PREFIX}{name}", "number": number, "ports": [first, first + EACH - 1]}
            found[name] = {**about, "comment": f"Regatta runs of {name}"}
    return list(found.values())


class FilterModule:
    """`{host: lines} | members_problems(names, group)` -> sentences; `lines | members_runs` -> accounts."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"members_problems": problems, "members_apart": separate, "members_runs": accounts}
