"""The command that `make provision | verify | teardown` calls."""

import contextlib
import io
import json
from pathlib import Path

import modules
import pytest

from regatta import program
from regatta.errors import RegattaError
from regatta.hosts.cluster import Cluster, Node
from regatta.provisioning import adopting, aptproxy, commands, interruption, playbook, secrets
from regatta.run import catalogue
from regatta_protocol.run import PlanKept
from regatta_protocol.states import State

HOSTS = """
all:
  hosts:
    n1: {cluster_address: 10.0.0.1}
  children:
    head: {hosts: {n1: }}
    workers: {hosts: {n1: }}
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "hosts.yml").write_text(HOSTS)
    monkeypatch.setattr(commands.lease, "held", lambda *_: contextlib.nullcontext())
    return folder


def cluster(folder: Path) -> Cluster:
    node = Node("n1", "n1", "10.0.0.1", False, None, None, None, (), "/opt/regatta", "/var/lib/regatta", "python")
    return Cluster("mine", folder, (node,), (node,), node)


def test_a_missing_inventory_says_how_to_make_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["provision", "--inventory", "inventory/none-such"]) == 2
    said = capsys.readouterr().err
    assert "--inventory inventory/local" in said and "make" not in said
    assert "'regatta init'" in said
    monkeypatch.setenv(program.TYPED, "make")
    assert commands.main(["provision", "--inventory", "inventory/none-such"]) == 2
    assert "'make lab NODES=3'" in capsys.readouterr().err


def test_this_machine_alone_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["provision", "--inventory", "inventory/local"]) == 2
    assert "needs no provision" in capsys.readouterr().err


def test_teardown_asks(inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    called = []
    monkeypatch.setattr(playbook, "play", lambda *words: called.append(words) or 0)
    monkeypatch.setattr(interruption, "going", lambda _: [])
    monkeypatch.delenv("CONFIRM", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert commands.main(["teardown", "--inventory", str(inventory)]) == 2
    assert "--yes" in capsys.readouterr().err
    terminal = io.StringIO("no\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    assert commands.main(["teardown", "--inventory", str(inventory)]) == 2
    assert not called
    assert commands.main(["teardown", "--inventory", str(inventory), "--yes"]) == 0
    assert called[0][0] == "teardown"


def test_check_and_further_arguments_reach_ansible(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(playbook, "play", lambda *words: called.append(words) or 0)
    assert commands.main(["check", "--inventory", str(inventory), "-e", "ray_gcs_port=7000"]) == 0
    assert commands.main(["provision", "--inventory", str(inventory), "--check", "--diff"]) == 0
    assert [(words[0], words[3]) for words in called] == [
        ("provision", ["--check", "-e", "ray_gcs_port=7000"]),
        ("provision", ["--check", "--diff"]),
    ]


def test_two_at_once_are_refused(inventory: Path) -> None:
    again = pytest.raises(RegattaError, match="another provision")
    with playbook.alone(cluster(inventory)), again, playbook.alone(cluster(inventory)):
        pass
    with playbook.alone(cluster(inventory)):
        pass


def test_every_connection_obeys_the_pinned_keys(tmp_path: Path) -> None:
    with aptproxy.serving(tmp_path / "s.apt", tmp_path / "cache", "word") as proxy:
        found = playbook.environment(Path("/i/ssh_config.provision"), proxy, {"n2": "http://10.0.0.1:28143"})
    assert "-F /i/ssh_config.provision" in found["ANSIBLE_SSH_ARGS"]
    assert f"RemoteForward=127.0.0.1:28142 {tmp_path}/s.apt" in found["ANSIBLE_SSH_ARGS"]
    assert found["REGATTA_APT_PROXY"] == "http://regatta:word@127.0.0.1:28142"
    assert "word" not in found["ANSIBLE_SSH_ARGS"], "every account sees the arguments of ssh"
    assert json.loads(found["REGATTA_APT_RELAYS"]) == {"n2": "http://10.0.0.1:28143"}
    assert "StrictHostKeyChecking" not in found["ANSIBLE_SSH_ARGS"]


def test_as_many_forks_as_nodes() -> None:
    assert "--forks=32" in playbook.command("verify", Path("i"), 3, [])
    assert "--forks=80" in playbook.command("verify", Path("i"), 80, [])


def test_secrets_are_made_once_and_private(inventory: Path) -> None:
    assert secrets.missing(inventory)
    assert secrets.ensure(inventory)
    held = {path.name: path.read_text() for path in (inventory / "secrets").iterdir()}
    assert set(held) == {"ray_token", "cluster_key", "cluster_key.pub", "mesh_key", "mesh_key.pub"}
    assert len(held["ray_token"].strip()) == 64
    assert (inventory / "secrets").stat().st_mode & 0o777 == 0o700
    assert all(
        (inventory / "secrets" / name).stat().st_mode & 0o077 == 0 for name in ("ray_token", "cluster_key", "mesh_key")
    )
    assert not secrets.ensure(inventory)
    assert held == {path.name: path.read_text() for path in (inventory / "secrets").iterdir()}


def test_rotated_secrets_are_all_new_and_private(inventory: Path) -> None:
    secrets.ensure(inventory)
    before = {path.name: path.read_text() for path in (inventory / "secrets").iterdir()}
    assert secrets.rotate(inventory)
    after = {path.name: path.read_text() for path in (inventory / "secrets").iterdir()}
    assert set(after) == {*before, ".rotating"}
    assert all(after[name] != before[name] for name in before)
    assert all(
        (inventory / "secrets" / name).stat().st_mode & 0o077 == 0 for name in ("ray_token", "cluster_key", "mesh_key")
    )
    assert not secrets.ensure(inventory)


def test_the_token_of_a_service_is_made_rotated_and_removed(inventory: Path) -> None:
    secrets.ensure(inventory)
    assert secrets.ensure_token(inventory, "spark_secret") and not secrets.ensure_token(inventory, "spark_secret")
    token = inventory / "secrets/spark_secret"
    before = token.read_text()
    secrets.rotate(inventory)
    assert token.read_text() != before and token.stat().st_mode & 0o077 == 0
    token.unlink()
    secrets.rotate(inventory)
    assert not token.exists(), "a cluster without that service has none"
    secrets.ensure_token(inventory, "spark_secret")
    assert secrets.remove(inventory) and not token.exists()


def test_a_rotation_that_stopped_between_the_halves_of_the_key(inventory: Path) -> None:
    secrets.ensure(inventory)
    old = (inventory / "secrets/cluster_key.pub").read_text()
    secrets.rotate(inventory)
    new = (inventory / "secrets/cluster_key.pub").read_text()
    (inventory / "secrets/cluster_key.pub").write_text(old)
    assert secrets.ensure(inventory)
    assert (inventory / "secrets/cluster_key.pub").read_text() == new
    assert not secrets.ensure(inventory)


def test_rotation_waits_for_runs(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called, cancelled = [], []
    going = catalogue.RunInfo("slow", State.RUNNING, "torch", 0.0, None, None, (), PlanKept(), "r")
    monkeypatch.setattr(playbook, "play", lambda *words: called.append(words) or 0)
    monkeypatch.setattr(catalogue, "listing", lambda _: ([going], {}))
    monkeypatch.setattr(catalogue, "cancel", lambda _, info: cancelled.append(info.run))
    assert commands.main(["rotate-secrets", "--inventory", str(inventory)]) == 1
    assert "slow" in capsys.readouterr().err and not called
    assert commands.main(["rotate-secrets", "--inventory", str(inventory), "--force"]) == 0
    assert cancelled == ["slow"]
    assert called[0][0] == "provision" and "ssh_mesh_rotate=true" in called[0][3]


def test_removing_secrets_leaves_other_files(inventory: Path) -> None:
    secrets.ensure(inventory)
    (inventory / "secrets/mine").write_text("x")
    assert secrets.remove(inventory)
    assert [path.name for path in (inventory / "secrets").iterdir()] == ["mine"]
    assert not secrets.remove(inventory)


def test_a_token_that_is_none_is_refused(inventory: Path) -> None:
    secrets.ensure(inventory)
    (inventory / "secrets/ray_token").write_text("short\n")
    with pytest.raises(RegattaError, match="64 hex"):
        secrets.ensure(inventory)


def going(name: str, framework: str) -> catalogue.RunInfo:
    return catalogue.RunInfo(name, State.RUNNING, framework, 0.0, None, None, (), PlanKept(), "r")


RAY, HDFS = {"n1": ["regatta-ray-head.service"]}, {"n1": ["regatta-hdfs-namenode.service"]}


@pytest.fixture
def busy(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """Runs of Ray and torch are in progress; what was played and cancelled."""
    seen: dict[str, list] = {"played": [], "cancelled": []}
    monkeypatch.setattr(commands.inventories, "load", lambda _: cluster(inventory))
    monkeypatch.delenv("FORCE", raising=False)
    monkeypatch.setattr(catalogue, "listing", lambda _: ([going("rayed", "ray"), going("torched", "torch")], {}))
    monkeypatch.setattr(catalogue, "cancel", lambda _, info: seen["cancelled"].append(info.run))
    monkeypatch.setattr(playbook, "play", lambda *words: seen["played"].append(words[3]) or 0)
    monkeypatch.setattr(playbook, "foresee", lambda *_: (0, ""))
    return seen


@pytest.mark.parametrize(("restarts", "ends"), [(RAY, ["rayed"]), (HDFS, ["rayed", "torched"])])
def test_provisioning_that_would_end_runs_names_and_refuses_them(
    inventory: Path,
    busy: dict[str, list],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    restarts: dict[str, list[str]],
    ends: list[str],
) -> None:
    monkeypatch.setattr(playbook, "restarts", lambda _: restarts)
    assert commands.main(["hdfs-restore-metadata", "--inventory", str(inventory)]) == 2
    assert "--yes" in capsys.readouterr().err
    for command, *more in (["provision"], ["add-node", "--node", "n1"], ["hdfs-restore-metadata", "--yes"]):
        assert commands.main([command, "--inventory", str(inventory), *more]) == 1
        said = capsys.readouterr().err
        assert all(name in said for name in ends) and "--force" in said and "n1" in said
        assert [name for name in ("rayed", "torched") if name in said] == ends
    assert busy == {"played": [], "cancelled": []}
    assert commands.main(["teardown", "--inventory", str(inventory), "--yes"]) == 1
    assert "rayed" in (said := capsys.readouterr().err) and "torched" in said and "--force" in said
    assert busy == {"played": [], "cancelled": []}
    assert commands.main(["check", "--inventory", str(inventory)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ends)
    assert busy == {"played": [["--check"]], "cancelled": []}
    assert commands.main(["provision", "--inventory", str(inventory), "--force"]) == 0
    assert busy == {"played": [["--check"], []], "cancelled": ends}


def test_provisioning_that_ends_no_run_goes_on(
    inventory: Path, busy: dict[str, list], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playbook, "restarts", lambda _: {})
    assert commands.main(["provision", "--inventory", str(inventory)]) == 0
    assert busy == {"played": [[]], "cancelled": []}


def test_what_cannot_be_foreseen_is_refused_while_runs_go_on(
    inventory: Path, busy: dict[str, list], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playbook, "foresee", lambda *_: (4, "n1: unreachable"))
    assert commands.main(["provision", "--inventory", str(inventory)]) == 1
    shown = capsys.readouterr()
    assert "n1: unreachable" in shown.out and "rayed" in shown.err and "torched" in shown.err
    assert busy == {"played": [], "cancelled": []}


def test_units_that_restart_or_go_are_those_that_the_roles_name() -> None:
    said = {
        "n1": {"ray_started": {"restarts": ["regatta-ray-head.service"]}, "hdfs_started": {"skipped": True}},
        "n2": {"hdfs_removed": {"units": ["regatta-hdfs-datanode.service"]}, "ray_removed": {"skipped": True}},
        "n3": {"ray_started": {"restarts": []}},
    }
    restarted_units = modules.load("summary", "playbooks/filter_plugins/summary.py").restarted_units
    assert restarted_units(said, ["n1", "n2", "n3"], ["ray", "hdfs", "spark"]) == {
        "n1": ["regatta-ray-head.service"],
        "n2": ["regatta-hdfs-datanode.service"],
    }


def test_secrets_that_the_hosts_may_have_are_not_made(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(secrets.UNKNOWN, "n1: does not answer")
    for make in (lambda: secrets.ensure(inventory), lambda: secrets.ensure_token(inventory, "spark_secret")):
        with pytest.raises(RegattaError, match="n1: does not answer"):
            make()
    assert not list((inventory / "secrets").iterdir())


def test_secrets_of_the_hosts_are_taken_over(inventory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    secrets.ensure(other)
    for name, text in secrets.held(other).items():
        secrets.put(inventory, name, text.strip())
    assert not secrets.missing(inventory) and not secrets.ensure(inventory)
    assert secrets.held(inventory) == secrets.held(other)
    for name in ("ray_token", "cluster_key"):
        with pytest.raises(RegattaError, match="none"):
            secrets.put(inventory, name, "no secret")
        assert not (inventory / "secrets" / name).exists()


def test_which_secret_of_the_hosts_is_taken() -> None:
    nodes = tuple(Node(n, n, "10.0.0.1", False, None, None, None, (), "/r", "/s", "python") for n in ("n1", "n2", "n3"))
    hosts = Cluster("mine", Path("/i"), nodes, nodes, nodes[0])
    old, new = {"ray_token": "old"}, {"ray_token": "new"}
    assert adopting.choose(hosts, ["ray_token"], {"n1": new, "n2": old, "n3": {}}) == new
    assert adopting.choose(hosts, ["ray_token"], {"n1": {}, "n2": old, "n3": old}) == old
    assert adopting.choose(hosts, ["ray_token", "cluster_key"], {"n1": {}, "n3": {}}) == {}
    with pytest.raises(RegattaError, match="n2, n3"):
        adopting.choose(hosts, ["ray_token"], {"n1": {}, "n2": old, "n3": new})


def test_secrets_that_were_made_new_elsewhere_do_not_come_back(inventory: Path) -> None:
    secrets.ensure(inventory)
    own = secrets.held(inventory)
    adopting.same(cluster(inventory), own, {**own, "ray_token": own["ray_token"].strip()})
    adopting.same(cluster(inventory), own, {})
    with pytest.raises(RegattaError, match="n1 has another ray_token"):
        adopting.same(cluster(inventory), own, {"ray_token": "0" * 64})
    secrets.rotate(inventory)  # stopped half-way: the hosts have the old ones
    adopting.same(cluster(inventory), secrets.held(inventory), own)
    secrets.rotated(inventory)
    with pytest.raises(RegattaError):
        adopting.same(cluster(inventory), secrets.held(inventory), own)
