"""Debian 13 from bare hosts to a cluster and back, with the build of torch that the ordinary index has."""

import json
from collections.abc import Callable, Iterator

import pytest
from clusters import Cluster
from provisioning import left, provision, provision_again, teardown, verify

from lab.handle import LabHandle

pytestmark = [pytest.mark.whole, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def hosts(make_lab: Callable[..., LabHandle]) -> Iterator[LabHandle]:
    """Two bare hosts with Debian 13. Wheels and environments of this build need 30 GB of disk in all."""
    made = make_lab(nodes=2, suite="trixie")
    (made.inventory / "group_vars").mkdir()
    (made.inventory / "group_vars/all.yml").write_text(json.dumps({"python_env_torch_build": "pypi"}))
    yield made
    made.down()


def test_debian_13_is_provisioned_verified_used_and_left_bare(hosts: LabHandle) -> None:
    assert "13" in hosts.ssh(hosts.nodes[0], "cat /etc/debian_version").stdout
    provision(hosts)
    verify(hosts)
    provision_again(hosts)
    cluster = Cluster(hosts)
    status = cluster.fab("status").stdout
    assert "3.13" in status and "2.13.0" in status
    cluster.fab("run-ppr", "--workers", "2")
    teardown(hosts)
    assert left(hosts) == {}
