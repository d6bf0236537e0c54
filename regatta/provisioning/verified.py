"""The findings of verify and check, for a program: `regatta verify --json`, `regatta check --json`."""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.provisioning import interruption, playbook

_STOPPED = re.compile(r"^(?:FAILED |UNREACHABLE |\[ERROR\]|ERROR!).*(?:\n    .*)*", re.MULTILINE)
"""The reason why a playbook did not end, as it is shown."""
_CHANGES = re.compile(r"^  would change: (.*) \(([^()]*)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Verified:
    """`regatta verify --json`: what was proven, or what does not work."""

    cluster: str
    works: bool
    proven: list[str]
    problems: list[str]


@dataclass(frozen=True)
class Change:
    """A step of provisioning that would change these hosts."""

    step: str
    hosts: list[str]


@dataclass(frozen=True)
class Checked:
    """`regatta check --json`: what provisioning would change.

    `restarts`: units by host that would restart; `ends`: runs that this would end, which provisioning refuses.
    """

    cluster: str
    works: bool
    changes: list[Change]
    restarts: dict[str, list[str]]
    ends: list[str]
    problems: list[str]


def verify(path: Path, cluster: Cluster, words: Sequence[str]) -> int:
    """Verify a cluster and print what was found as JSON; returns Ansible's exit code."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as said:
        out = Path(folder) / "found.json"
        told = ["-e", json.dumps({"verify_out": str(out)})]
        code = playbook.play("verify", path, cluster, [*words, *told], output=said)
        said.seek(0)
        found = json.loads(out.read_text()) if out.is_file() else {}
        print(json.dumps(asdict(verdict(cluster.name, code, found, said.read())), indent=1), flush=True)
    return code


def verdict(cluster: str, code: int, found: Mapping[str, Any], said: str) -> Verified:
    """Return what was found, or where it stopped before it was: by the failures that were shown."""
    problems = list(found.get("problems", ())) or _problems(code, said)
    return Verified(cluster, code == 0, [] if code else list(found.get("lines", ())), problems)


def check(path: Path, cluster: Cluster, words: Sequence[str], bundle: Path | None) -> int:
    """Check a cluster and print what provisioning would change as JSON; returns Ansible's exit code."""
    code, said = playbook.foresee("provision", path, cluster, words, bundle)
    restarts = playbook.restarts(cluster)
    runs = interruption.ended_by(interruption.going(Remote(cluster)), restarts) if restarts else []
    found = Checked(cluster.name, code == 0, changes(said), restarts, [one.run for one in runs], _problems(code, said))
    print(json.dumps(asdict(found), indent=1), flush=True)
    return code


def changes(said: str) -> list[Change]:
    """Return what would change, by the steps that were shown."""
    return [Change(step, hosts.split(", ")) for step, hosts in _CHANGES.findall(said)]


def _problems(code: int, said: str) -> list[str]:
    return (_STOPPED.findall(said) or said.splitlines()[-1:]) if code else []
