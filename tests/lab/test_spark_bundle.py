"""Spark and Slurm on a host without a way out: they and their packages come out of a bundle."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from provisioning import play, with_spark

from lab.handle import LabHandle

pytestmark = [pytest.mark.whole, pytest.mark.timeout(1200)]


def test_spark_slurm_and_java_come_out_of_a_bundle(make_lab: Callable[..., LabHandle], tmp_path: Path) -> None:
    host = make_lab(nodes=1, egress=False)
    with_spark(host, hdfs_enabled=False, slurm_enabled=False)
    bundle = tmp_path / "regatta-bundle.tar"
    play(host, "bundle", "--out", str(bundle))
    assert host.ssh("node1", "command -v java", check=False).returncode
    with_spark(host, hdfs_enabled=False)
    said = play(host, "provision", "--bundle", str(bundle), good=False)
    lacking = re.search(r"not in the bundle: (.+): make it again for this inventory", said)
    assert lacking and {"munge", "slurm-client", "slurmctld", "slurmd"} <= {*lacking[1].split(", ")}, said
    play(host, "bundle", "--out", str(bundle))
    play(host, "provision", "--bundle", str(bundle))
    said = play(host, "verify")
    assert "Spark: a task has run on node1" in said and "Slurm: 1 of 1 nodes take runs" in said
