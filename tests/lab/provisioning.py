"""Steps of a cluster's life, each a small function, for tests to put in order."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.handle import LabHandle
from regatta.provisioning import steps

PROJECT = Path(__file__).resolve().parents[2]
LEFT = r"""
sh -c '
ls -d /opt/regatta /var/lib/regatta /etc/regatta /etc/security/limits.d/90-regatta.conf /etc/ssh/ssh_known_hosts2 \
   /etc/ssh/sshd_config.d/*regatta* /etc/ssh/.regatta* \
   /etc/systemd/system/*regatta* /etc/systemd/system/*/*regatta* /run/systemd/*/regatta* /tmp/*ray* /tmp/*regatta* \
   /dev/shm/*plasma* /var/lib/regatta-prometheus /run/systemd/system/prometheus* 2>/dev/null
getent passwd regatta hdfs; getent group regatta hdfs; grep -n regatta /etc/hosts
systemctl list-units --all --plain --no-legend "regatta*"
pgrep -af "/opt/regatta|raylet|gcs_server|prometheus" | grep -v pgrep'
true
"""


def command(lab: LabHandle, word: str, *extra: str) -> list[str]:
    """`python -m regatta.provisioning.commands WORD` for a lab."""
    return [sys.executable, "-m", "regatta.provisioning.commands", word, "--inventory", str(lab.inventory), *extra]


def said(words: Sequence[str], folder: Path, env: Mapping[str, str], *, good: bool = True) -> str:
    """Return what a command prints in a folder; it must succeed, or fail where `good` is false."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is good, done.stdout[-6000:]
    return done.stdout


def play(lab: LabHandle, word: str, *extra: str, good: bool = True, **env: str) -> str:
    """Run it and return what it printed; it must succeed, or fail where `good` is false."""
    printed = said(command(lab, word, *extra), PROJECT, {**os.environ, **env}, good=good)
    assert "Traceback" not in printed, printed[-6000:]
    return printed


def logged(lab: LabHandle) -> str:
    """Ansible's own output of the last command that had any."""
    return max((lab.inventory / steps.LOGS).glob("*.log")).read_text()


def changed(lab: LabHandle) -> dict[str, int]:
    """Return how many tasks changed something on each host the last time, from Ansible's recap."""
    recap = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", logged(lab), re.M)
    assert {host for host, _ in recap} == set(lab.nodes), recap
    return {host: int(count) for host, count in recap}


def check(lab: LabHandle) -> str:
    """Say what provisioning would change."""
    return play(lab, "check")


def provision(lab: LabHandle, *extra: str) -> str:
    """Make the hosts into a cluster."""
    return play(lab, "provision", *extra)


def with_spark(lab: LabHandle, **variables: Any) -> None:
    """Say in its inventory that it has Spark and no monitoring, and these other variables; JSON is YAML."""
    settings = lab.inventory / "group_vars/all.yml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"spark_enabled": True, "monitoring_enabled": False, **variables}))


def provision_again(lab: LabHandle) -> None:
    """Nothing is left to do, and nothing is done."""
    said = play(lab, "provision")
    tasks = re.findall(r"TASK [^\n]*\n(?:[^\n]+\n)*?changed: [^\n]*\n", logged(lab))
    assert set(changed(lab).values()) == {0}, "".join(tasks)
    assert f" {len(lab.nodes)} unchanged, 0 changed, 0 failed, 0 unreachable" in said


def verify(lab: LabHandle) -> str:
    """Prove the cluster."""
    output = play(lab, "verify")
    for proof in (
        "reaches every node",
        "every node reads",
        "Versions equal",
        "all-reduce",
        "a task has run on",
        "answers 401",
    ):
        assert proof in output
    return output


def teardown(lab: LabHandle) -> str:
    """Remove everything again; the playbook proves it, `left` looks independently."""
    return play(lab, "teardown", "--yes")


def left(lab: LabHandle) -> dict[str, str]:
    """Return what provisioning left on each host, as far as an independent look finds it."""
    found = {node: lab.ssh(node, f"sudo {LEFT.strip()}").stdout.strip() for node in lab.nodes}
    return {node: text for node, text in found.items() if text}


def state(lab: LabHandle, node: str) -> str:
    """Return what makes a provisioned host: paths with owner and mode, units, the environment, the account."""
    script = (
        "find /opt/regatta /etc/regatta /var/lib/regatta /etc/hosts /etc/ssh/ssh_known_hosts2 -maxdepth 2 "
        "-not -path '*/ray/*' -not -path '*/cache/*' -not -path '*/runs/*' -printf '%p %u %m %l\\n' | sort; "
        "systemctl is-active 'regatta-*'; getent passwd regatta; cat /etc/hosts"
    )
    return lab.ssh(node, f"sudo sh -c {shlex.quote(script)}").stdout


def without_archives(lab: LabHandle, *nodes: str) -> str:
    """Remove from nodes what archives bring, Hadoop and Python's environment; returns that one's folder's name."""
    environment = lab.ssh(nodes[0], "readlink /opt/regatta/env").stdout.strip()
    for node in nodes:
        lab.ssh(
            node, f"sudo rm -r /opt/regatta/hadoop /opt/regatta/hadoop-* /opt/regatta/env /opt/regatta/{environment}"
        )
    return environment
