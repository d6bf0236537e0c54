"""`fab probe` finds a host that is slower than the others, in one probe: one with little CPU, one with a thin cable."""

import json

import pytest
from clusters import Cluster
from faults import kernel


def slow(cluster: Cluster) -> dict[tuple[str, str], float]:
    """One probe: {(host, what is slow): the part that it does of what the others do}."""
    said = cluster.fab("probe", "--json").stdout
    return {(one["node"], one["what"]): one["part"] for one in json.loads(said[said.index("\n{") :])["slow"]}


@pytest.mark.whole
def test_a_host_with_little_cpu_is_found_in_one_probe(cluster: Cluster) -> None:
    with kernel.little_cpu(cluster.lab, "node3", None, 0.3):
        found = slow(cluster)
    assert found[("node3", "processor")] < 0.8, found


@pytest.mark.whole
def test_a_host_with_a_thin_cable_is_found_in_one_probe(cluster: Cluster) -> None:
    with kernel.narrow_cable(cluster.lab, "node2", 200):
        found = slow(cluster)
    assert found[("node2", "receives")] < 0.8, found
