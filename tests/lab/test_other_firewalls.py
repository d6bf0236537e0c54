"""ufw on a host: reported with what to do before anything is changed, and left as it is where it lets members in."""

from collections.abc import Callable

import pytest
from provisioning import play

from lab.handle import LabHandle


@pytest.mark.whole
def test_ufw(make_lab: Callable[..., LabHandle]) -> None:
    lab = make_lab(nodes=2)
    one, two = lab.nodes
    lab.ssh(two, "sudo apt-get update -qq && sudo apt-get install -y -qq ufw && sudo ufw allow 22", timeout=300)
    lab.ssh(two, "sudo ufw --force enable")
    command = f"sudo ufw allow from {lab.addresses[one]}"
    refused = play(lab, "check", good=False)
    assert f"{two}: ufw is active there and drops what {lab.addresses[one]} send(s): {command}" in refused
    lab.ssh(two, command)
    assert "ufw is active" not in play(lab, "check")
