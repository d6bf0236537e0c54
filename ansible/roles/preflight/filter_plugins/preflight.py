"""All problems of all hosts in one list, from what each host said about itself."""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SUPPORTED = {"debian": ("12", "13"), "ubuntu": ("22.04", "24.04", "26.04")}
OLDEST_PYTHON = (3, 10)
_MB = 1_000_000
_SSH_SAID = re.compile(r"\A.*?(over|via) ssh: ", re.S)

Result = Mapping[str, Any]


def login(hostvars: Mapping[str, Any]) -> dict[str, Any]:
    """Return how Ansible connects to a host: {host, user, key, folder}, the last with the SSH configuration."""
    names = {"host": "ansible_host", "user": "ansible_user", "key": "ansible_ssh_private_key_file"}
    names["folder"] = "inventory_dir"
    return {what: hostvars.get(name) for what, name in names.items()}


def unclear(
    results: Mapping[str, Result], limits: Mapping[str, Any], logins: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Hosts that only the controller has words for: {said, host, user, key, folder} of one that is out of reach,
    {layout} of one whose folders have another layout than the controller knows."""
    found: dict[str, dict[str, Any]] = {}
    for host, result in results.items():
        if result.get("unreachable"):
            found[host] = {"said": _SSH_SAID.sub("", _message(result)).strip(), **logins.get(host, {})}
        elif "python" in result and _other_layout(int(result["layout"]), limits):
            found[host] = {"layout": int(result["layout"])}
    return found


def report(
    results: Mapping[str, Result],
    groups: Mapping[str, Sequence[str]],
    limits: Mapping[str, Any],
    reasons: Mapping[str, str],
    now: float | None = None,
) -> dict[str, list[str]]:
    """`results[host]` is the answer of the gathering module (or Ansible's failure); `limits` the role's variables.

    `reasons` has the controller's words for the hosts that `unclear` names.
    """
    problems = [*_groups(groups, results), *_folders(limits["folders"])]
    warnings: list[str] = []
    wrong: dict[str, list[str]] = {}
    doubtful: dict[str, list[str]] = {}
    good: dict[str, Result] = {}
    for host, result in results.items():
        if failure := _failure(host, result, reasons):
            problems.append(failure)
            continue
        if limits["only_reach"]:
            wrong[host] = _sudo(result) + _layout(host, reasons)
            continue
        good[host] = result
        wrong[host] = (
            _layout(host, reasons)
            + _name(host, limits)
            + _host_problems(result, limits)
            + _clock(result, limits, now or time.time())
        )
        doubtful[host] = _host_warnings(result)
    unequal = _unequal(good, "Python", lambda r: ".".join(str(r["python"]).split(".")[:2]))
    problems += _together(wrong) + unequal + _unequal(good, "architecture", lambda r: str(r["machine"]))
    problems += _same(good)
    warnings += _together(doubtful) + ([] if unequal else _unequal(good, "Python", lambda r: str(r["python"])))
    return {"problems": problems, "warnings": warnings}


def _together(found: Mapping[str, Sequence[str]]) -> list[str]:
    """One line a text, with all hosts that it is true of."""
    hosts: dict[str, list[str]] = {}
    for host, texts in found.items():
        for text in texts:
            hosts.setdefault(text, []).append(host)
    return [f"{', '.join(names)}: {text}" for text, names in hosts.items()]


def _groups(groups: Mapping[str, Sequence[str]], results: Mapping[str, Result]) -> list[str]:
    found = []
    if out := [host for host in {*groups.get("head", []), *groups.get("workers", [])} if host not in results]:
        found.append(
            f"this run leaves out {', '.join(sorted(out))}: nodes know of each other, so run it without --limit"
        )
    heads = list(groups.get("head", []))
    if len(heads) != 1:
        named = f" ({', '.join(heads)})" if heads else ""
        found.append(f"inventory: group 'head' must have exactly one host, it has {len(heads)}{named}")
    if not groups.get("workers"):
        found.append("inventory: group 'workers' has no host; name the hosts that run ranks there")
    return found


def _folders(folders: Mapping[str, str]) -> list[str]:
    """Teardown deletes these folders whole: they must be only ours."""
    return [
        f"inventory: {name} is {path}, which must be an absolute path whose last part has 'regatta' in it"
        for name, path in folders.items()
        if not path.startswith("/") or "regatta" not in path.rstrip("/").rpartition("/")[2]
    ]


def _failure(host: str, result: Result, reasons: Mapping[str, str]) -> str | None:
    if result.get("unreachable"):
        return reasons[host]
    if "python" in result:
        return None
    message = _message(result)
    if result.get("rc") == 127 or "python3: not found" in message or "python3: No such file" in message:
        return f"{host}: /usr/bin/python3 is missing: apt-get install python3"
    return f"{host}: could not be examined: {message.strip() or 'no answer'}"


def _message(result: Result) -> str:
    return "\n".join(str(result.get(key, "")) for key in ("msg", "module_stderr", "module_stdout"))


def _host_problems(result: Result, limits: Mapping[str, Any]) -> list[str]:
    found = []
    system = result["os"]
    versions = SUPPORTED.get(system["id"])
    if not versions or (system["version"] not in versions and not _newer(system)):
        found.append(f"runs {system['name'] or 'an unknown system'}; supported are {_supported()}")
    if tuple(int(part) for part in str(result["python"]).split(".")[:2]) < OLDEST_PYTHON:
        found.append(f"has Python {result['python']}; 3.10 is the oldest that works")
    found += _sudo(result)
    if not result["systemd"]:
        found.append("systemd does not run there; services and runs are systemd units")
    if ":" in result["address"]:
        found.append(
            f"cluster_address {result['address']} is an IPv6 address; services and firewall need the "
            "IPv4 address that the host has in the network of the members"
        )
    elif not result["interface"]:
        have = ", ".join(result["addresses"]) or "none"
        address = result["address"] or "(not set)"
        found.append(f"cluster_address {address} is not an address of this host; it has {have}")
    if result["memory"] < limits["memory_mb"] * _MB:
        have, need = result["memory"] // _MB, limits["memory_mb"]
        found.append(f"has {have} MB of memory, needs {need} (preflight_min_memory_mb)")
    if limits["fuse"] and not result["fuse"]:
        found.append(
            "has no /dev/fuse, by which the shared folder is mounted: give the container that device, or name a mount "
            "that all hosts have (shared_folder_path)"
        )
    for variable, there in result.get("wrong_javas", {}).items():
        found.append(f"{there}: install one there, or leave {variable} empty for a package of the distribution's")
    homes = ", ".join(limits["java_homes"])
    for names in result.get("unobtainable", []):
        either = names.replace("|", " or ")
        found.append(
            f"its apt sources have no {either}: add a source that has one ('apt-get update' there, where its lists are "
            f"old)"
            + (f"; of Java install one of these versions yourself, and name it ({homes})" if "openjdk" in names else "")
        )
    return found + _disks(result, limits) + _ports(result, limits)


def _other_layout(found: int, limits: Mapping[str, Any]) -> bool:
    """Whether a layout is a problem: a newer one; an older one where it is neither migrated nor removed."""
    known = int(limits["layout"])
    return found > known or (0 < found < known and limits["only_reach"] and limits["older_layout"] == "refused")


def _layout(host: str, reasons: Mapping[str, str]) -> list[str]:
    return [reasons[host]] if host in reasons else []


def _sudo(result: Result) -> list[str]:
    if result["sudo"]:
        return []
    user = result["user"]
    if result.get("password_given"):
        return [f"user {user} may not use sudo with the password that was given: correct it; it was tried once"]
    return [
        f"user {user} may not use sudo without a password: give it (--ask-become-pass, or ansible_become_password in a "
        f"vault), or add '{user} ALL=(ALL) NOPASSWD: ALL' to /etc/sudoers.d"
    ]


def _name(host: str, limits: Mapping[str, Any]) -> list[str]:
    if "_" not in host:
        return []
    return [
        f"Java accepts no '_' in the name of a host, and {service} needs it: call it {host.replace('_', '-')} in the "
        f"inventory, or set {service}_enabled: false"
        for service in limits.get("java_names", ())
    ]


def _host_warnings(result: Result) -> list[str]:
    found = []
    system = result["os"]
    if system["version"] not in SUPPORTED.get(system["id"], ()) and _newer(system):
        found.append(f"runs {system['name']}, which is newer than what Regatta was tested on")
    if result["container"]:
        found.append(f"in a container ({result['container']}): kernel settings and time stay as they are")
    if version := result.get("old_sshfs"):
        found.append(
            f"sshfs {version} lacks the fixes of CVE-2026-47187 and CVE-2026-48711: update it (apt-get install sshfs)"
        )
    return found


def _supported() -> str:
    """`Debian 12 and 13, Ubuntu 22.04, 24.04 and 26.04`."""
    return ", ".join(f"{name.capitalize()} {_and(versions)}" for name, versions in SUPPORTED.items())


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _newer(system: Mapping[str, str]) -> bool:
    versions = SUPPORTED.get(system["id"])
    return versions is not None and _number(system["version"]) > _number(versions[-1])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _disks(result: Result, limits: Mapping[str, Any]) -> list[str]:
    """Room for what is not there yet; folders on one filesystem need the sum."""
    again = "_again" if result["has_environment"] else ""
    needs = limits[f"disk_mb{again}"]
    way = f"free some there, or lower preflight_min_root{again}_mb and preflight_min_state{again}_mb"
    found = []
    devices: dict[int, list[str]] = {}
    for path in needs:
        devices.setdefault(result["disks"][path]["device"], []).append(path)
    for paths in devices.values():
        need, free = sum(needs[path] for path in paths), result["disks"][paths[0]]["free"] // _MB
        if free < need:
            found.append(f"has {free} MB free at {' and '.join(paths)}, needs {need}: {way}")
    return found


def _ports(result: Result, limits: Mapping[str, Any]) -> list[str]:
    """Ports in use by others. Only root sees which process has a port."""
    wanted = limits["ports"] if result["sudo"] else {}
    taken = {}
    for entry in result["listeners"]:
        if entry["port"] in wanted and not entry["unit"].startswith("regatta-"):
            taken[entry["port"]] = entry["unit"] or entry["process"] or "an unknown process"
    return [
        f"port {port}, {wanted[port]}, is used by {who}; free it or choose another"
        for port, who in sorted(taken.items())
    ]


def _clock(result: Result, limits: Mapping[str, Any], now: float) -> list[str]:
    """The host's clock was read after `sent` and before `now` on ours: only what is outside both is skew."""
    ahead, behind = result["clock"] - now, result["clock"] - result["sent"]
    limit = limits["clock_skew_s"]
    if ahead > limit or behind < -limit:
        skew = ahead if ahead > limit else behind
        return [f"clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's; set the time there"]
    return []


def _unequal(results: Mapping[str, Result], what: str, of: Any) -> list[str]:
    values = {host: of(result) for host, result in results.items()}
    if len(set(values.values())) < 2:
        return []
    most = Counter(values.values()).most_common(1)[0][0]
    odd = [f"{host} has {value}" for host, value in values.items() if value != most]
    same = [host for host, value in values.items() if value == most]
    return [f"all hosts must have the same {what}: {', '.join(odd)}; {', '.join(same)} {most}"]


def _same(results: Mapping[str, Result]) -> list[str]:
    """Two names of one machine, and two machines of one address."""
    machines: dict[str, str] = {}
    addresses: dict[str, str] = {}
    found = []
    for host, result in results.items():
        machine, address = result.get("one_machine"), result["address"]
        if machine and (other := machines.setdefault(machine, host)) != host:
            found.append(
                f"{other} and {host} are one machine ({machine.split()[-1]}): name it once in the inventory, in both "
                "groups if it is head and worker"
            )
        elif address and (other := addresses.setdefault(address, host)) != host:
            found.append(f"{other} and {host} have the same cluster_address {address}")
    return found


class FilterModule:
    """`results | preflight_report(groups, limits, reasons)` -> {problems, warnings}; `hostvars | preflight_login`;
    `results | preflight_unclear(limits, logins)` -> {host: what is to be put in words}."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"preflight_report": report, "preflight_unclear": unclear, "preflight_login": login}
