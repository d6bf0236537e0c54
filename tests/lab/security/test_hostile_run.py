"""Root works next to a run that puts links, FIFOs, deep trees and odd names at every path of runs' folders."""

from contextlib import ExitStack
from pathlib import Path

from attack import Attack
from clusters import Cluster, wait_for
from provisioning import play
from waiting import Waiting


def test_no_session_starts_services_of_the_account_of_runs(cluster: Cluster) -> None:
    """They would be outside of the runs' units. PAM starts them with a session, logind where an account lingers."""
    for node in cluster.lab.nodes:
        start = "systemctl start user@$(id -u {0}); systemctl is-active user@$(id -u {0})"
        states = {}
        for name in ("regatta", "ubuntu"):
            states[name] = cluster.lab.ssh(node, f"sudo sh -c '{start.format(name)}'", check=False).stdout.strip()
            cluster.lab.ssh(node, f"sudo sh -c 'u=user@$(id -u {name}); systemctl stop $u; systemctl reset-failed'")
        assert states["regatta"] == "inactive"  # refused; another's at least tries to start
        assert states["ubuntu"] in ("active", "failed")


def test_root_follows_nothing_that_a_run_owns(cluster: Cluster, tmp_path: Path) -> None:
    nodes = cluster.lab.nodes
    with ExitStack() as going, Attack(cluster.lab, nodes[:2]) as attack:
        run = going.enter_context(Waiting(cluster, tmp_path / "project"))
        attack.begin()
        wait_for(lambda: all(attack.tried(node)["planted"] for node in attack.nodes))
        listed = cluster.fab("runs", check=False).stdout
        play(cluster.lab, "support-bundle", "--out", str(tmp_path))
        going.close()
        cluster.fab("cancel", run, check=False)
        for _ in range(2):
            cleared = cluster.fab("runs-gc", "--before", "0m", "--yes", check=False).stdout
            assert "Traceback" not in listed + cleared
        assert all(attack.untouched(node) for node in nodes[:2])
        assert [attack.tried(node)["won"] for node in attack.nodes] == [[], []]
        attack.stop()
        cluster.fab("cancel", run, check=False)

        def cleared() -> bool:
            cluster.fab("runs-gc", "--before", "0m", "--yes")
            return not any(cluster.lab.ssh(node, "sudo ls -A /var/lib/regatta/runs").stdout for node in nodes)

        wait_for(cleared, 120)  # a folder without a spec.json may be one that is just being made, for a minute
        assert all(attack.untouched(node) for node in nodes[:2])
        assert cluster.nothing_runs(run)
