"""The findings of verify, for a program: `regatta verify --json`."""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regatta.hosts.cluster import Cluster
from regatta.provisioning import playbook

_STOPPED = re.compile(r"^(?:FAILED |UNREACHABLE |\[ERROR\]|ERROR!).*(?:\n    .*)*", re.MULTILINE)
"""The reason why a playbook did not end, as it is shown."""


@dataclass(frozen=True)
class Verified:
    """`regatta verify --json`: what was proven, or what does not work."""

    cluster: str
    works: bool
    proven: list[str]
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
    problems = list(found.get("problems", ()))
    if code and not problems:
        problems = _STOPPED.findall(said) or said.splitlines()[-1:]
    return Verified(cluster, code == 0, [] if code else list(found.get("lines", ())), problems)
