"""JupyterLab as a run: its own arguments."""

from workloads.common import notebook as there


def test_it_listens_on_loopback_and_at_its_own_port_only() -> None:
    said = there.settings(4321, "secret")
    assert "--ServerApp.ip=127.0.0.1" in said and "--ServerApp.port=4321" in said
    assert "--ServerApp.port_retries=0" in said and "--IdentityProvider.token=secret" in said
