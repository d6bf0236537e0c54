"""An inventory that `regatta init` writes of bare hosts: it passes the check, and provisions them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from provisioning import said

from lab.handle import LabHandle

REGATTA = str(Path(sys.executable).with_name("regatta"))


@pytest.mark.whole
def test_bare_hosts_become_a_cluster_by_init_and_provision(make_lab: Callable[..., LabHandle], tmp_path: Path) -> None:
    lab = make_lab(nodes=2)
    hosts = [f"--host={name}=ubuntu@{lab.addresses[name]}" for name in lab.nodes]
    words = ["--name=made", f"--key={lab.inventory / 'secrets/lab_key'}", "--services=none", "--yes"]
    env = {name: value for name, value in os.environ.items() if name not in ("REGATTA_INVENTORY", "INVENTORY")}
    text = said([REGATTA, "init", *hosts, *words], tmp_path, env)
    assert "provision (check only) of made: done" in text
    assert "Next: regatta provision --inventory inventory/made" in text
    text = said([REGATTA, "provision", "--inventory", "inventory/made"], tmp_path, env)
    assert "2 host(s): 0 unchanged, 2 changed, 0 failed" in text
    text = said([REGATTA, "provision", "--inventory", "inventory/made"], tmp_path, env)
    assert "2 host(s): 2 unchanged, 0 changed, 0 failed" in text
    assert "all-reduce" in said([REGATTA, "verify", "--inventory", "inventory/made"], tmp_path, env)
    lab.down()
