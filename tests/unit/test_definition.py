"""The definition of a cluster that its head keeps, and copies of it."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from regatta.errors import RegattaError, UsageError
from regatta.hosts.cluster import Cluster, Node
from regatta.node import definition as kept_there
from regatta.node import layout, members
from regatta.provisioning import adopting, definition, joining, secrets
from regatta_protocol.decoding import encode
from regatta_protocol.operations.hosts import Definition, Member

NODE = Node("n1", "n1", "10.0.0.1", False, None, None, None, (), "/opt/regatta", "/var/lib/regatta", "python")
OTHER = replace(NODE, name="n2", host="n2", cluster_address="10.0.0.2")
PIN, NEW = "n1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIaOsUrlZ+FIn66tPk1HqSpdTLhyeJ3FqZOMvnxPZYpj", "n2 ssh-rsa AAAA"
CHANGED = "n1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII6sjY78PKJY+B//kZt3MZ50QeDLIFY5ezU2mp511lUI"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    (made / "group_vars").mkdir(parents=True)
    (made / "hosts.yml").write_text("all: {hosts: {n1: }}\n")
    (made / "group_vars/all.yml").write_text("slurm_enabled: true\n")
    (made / "known_hosts").write_text(f"# of n1\n{PIN}\n")
    return made


def cluster(folder: Path) -> Cluster:
    return Cluster("mine", folder, (NODE, OTHER), (NODE, OTHER), NODE)


def of(folder: Path) -> Definition:
    found, notes = definition.of(cluster(folder), folder)
    assert found and not notes, notes
    return found


def test_a_head_keeps_it_for_root_alone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_there, "PATH", str(tmp_path / "cluster.json"))
    monkeypatch.setattr(layout, "NODE", str(tmp_path / "node.json"))
    place = {"state": str(tmp_path)}
    assert kept_there.member(place, ["cluster_key"], []) == Member({})
    secrets.ensure(folder)
    (tmp_path / "node.json").write_text('{"cluster": "mine", "head": "10.0.0.1", "roles": ["head"]}')
    kept_there.keep(place, of(folder))
    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600
    found = kept_there.member(place, ["cluster_key"], [])
    assert found == Member(secrets.held(folder), "mine", "10.0.0.1", ("head",), of(folder).changed(at=found.kept.at))
    (tmp_path / "cluster.json").write_text('{"name": 5')
    assert kept_there.member(place, [], []).kept is None


def test_what_is_one_persons_stays_in_a_copy(folder: Path) -> None:
    for name in ("own.yml", "hosts.yml~", "ssh_config.provision", ".cluster.json"):
        (folder / name).write_text("all: {hosts: {n1: {ansible_user: ann}}}\n")
    secrets.ensure(folder)
    found = of(folder)
    assert {*found.files} == {"hosts.yml", "group_vars/all.yml"} and found.pins == f"{PIN}\n"
    (folder / "login").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    found, notes = definition.of(cluster(folder), folder)
    assert found and {*found.files} == {"hosts.yml", "group_vars/all.yml"} and "login" in notes[0]


@pytest.mark.parametrize(
    "line", ["ansible_become_password: x", "n1 ansible_sudo_pass=x", '{"ansible_become_pass": "x"}']
)
def test_a_password_in_the_clear_goes_nowhere(folder: Path, line: str) -> None:
    (folder / "group_vars/all.yml").write_text(f"{line}\n")
    found, notes = definition.of(cluster(folder), folder)
    assert found is None and "group_vars/all.yml has sudo's password in the clear" in notes[0]


@pytest.mark.parametrize("value", ["!vault |\n  $ANSIBLE_VAULT;1.1", "\"{{ lookup('env', 'P') }}\"", "'{{ p }}'"])
def test_a_password_that_is_elsewhere_is_none(folder: Path, value: str) -> None:
    (folder / "group_vars/all.yml").write_text(f"ansible_become_password: {value}\n")
    of(folder)


def test_an_inventory_of_one_file_becomes_a_folder(folder: Path) -> None:
    single = folder / "lab.ini"
    single.write_text("[head]\nn1\n")
    found, _ = definition.of(cluster(folder), single)
    assert found and found.files == {"hosts": "[head]\nn1\n", "group_vars/all.yml": "slurm_enabled: true\n"}


def test_a_copy_knows_whether_it_is_older(folder: Path) -> None:
    first = of(folder)
    definition.must_be_current(cluster(folder), folder, first.changed(pins=f"{PIN}\n{NEW}\n"))
    assert definition.note(folder)["name"] == "mine", "a copy without a note that differs in nothing is up to date"
    assert (folder / "known_hosts").read_text() == f"{PIN}\n{NEW}\n"
    kept = first.changed(files={**first.files, "group_vars/all.yml": "spark_enabled: true\n"}, pins=f"{CHANGED}\n")
    with pytest.raises(RegattaError) as raised:
        definition.must_be_current(cluster(folder), folder, kept)
    said = str(raised.value)
    assert "  -slurm_enabled: true\n" in said and "  +spark_enabled: true\n" in said and "regatta pull" in said
    assert "host key of n1: ED25519 SHA256:" in said and "Nothing was changed" in said
    definition.put_note(folder, kept)
    definition.must_be_current(cluster(folder), folder, kept)  # what differs now was edited here


def test_edits_of_two_people_are_named(folder: Path) -> None:
    first = of(folder)
    definition.put_note(folder, first)
    (folder / "hosts.yml").write_text("all: {hosts: {n1: , n3: }}\n")
    definition.must_be_current(cluster(folder), folder, first)
    definition.must_be_current(cluster(folder), folder, first.changed(accounts=("ann",), pins=f"{PIN}\n{NEW}\n"))
    theirs = first.changed(files={"hosts.yml": "all: {hosts: {n1: , n4: }}\n"})
    found = definition.differences(of(folder), theirs, definition.note(folder))
    assert found[:2] == ["group_vars/all.yml: only here", "  -slurm_enabled: true"]
    assert found[2:] == ["hosts.yml:", "  -all: {hosts: {n1: , n3: }}", "  +all: {hosts: {n1: , n4: }}"]
    theirs = first.changed(files={**first.files, "host_vars/n1.yml": "spark_enabled: true\n"})
    found = definition.newer(of(folder), theirs, definition.note(folder))
    assert found == ["host_vars/n1.yml"], "an edit of this copy alone stays"


def test_hosts_of_another_cluster_are_refused(folder: Path) -> None:
    ours = cluster(folder)
    own, theirs = {secrets.MESH_KEY: "ours\n"}, {secrets.MESH_KEY: "theirs"}
    foreign = {"n2": Member(theirs, "fleet", "10.9.0.1")}
    with pytest.raises(RegattaError, match=r"n2 of fleet \(head 10\.9\.0\.1\).*join USER@10\.9\.0\.1.*remove-node"):
        adopting.refuse_foreign(ours, own, foreign)
    with pytest.raises(RegattaError, match="n1 of fleet"):  # the head itself, asked for the first time
        adopting.refuse_foreign(ours, {}, {"n1": Member(theirs, "fleet", "10.9.0.1")})
    adopting.refuse_foreign(ours, own, {"n2": Member(own, "mine", "10.9.0.1")})  # the head's address has changed
    adopting.refuse_foreign(ours, own, {"n1": Member({}), "n2": Member(theirs, "mine", "10.0.0.1")})
    adopting.refuse_foreign(ours, {}, {"n1": Member(own, "mine", "10.0.0.1"), "n2": Member(own, "mine", "10.0.0.9")})


def test_a_key_under_two_names_is_kept_once() -> None:
    key = PIN.partition(" ")[2]
    assert definition.merged(f"n1 {key}\n", f"10.0.0.1,n1 {key}\n") == f"10.0.0.1,n1 {key}\n"
    assert definition.merged(f"n1,outside {key}\n", f"10.0.0.1,n1 {key}\n") == f"10.0.0.1,n1 {key}\noutside {key}\n"


@pytest.mark.parametrize("name", ["../hosts.yml", "/etc/cron.d/x", "group_vars/../../x"])
def test_a_head_writes_only_into_the_inventory(folder: Path, name: str) -> None:
    with pytest.raises(RegattaError, match="in no inventory"):
        joining._put(folder, name, "x")


def test_a_new_host_gets_the_login_of_the_others(folder: Path) -> None:
    joining._own(folder, {"vars": {"regatta_cluster": "fleet"}, "hosts": {"n1": {"ansible_user": "ann"}}})
    joining._follow(folder, of(folder).changed(hosts=("n2", "n3")))
    assert yaml.safe_load((folder / "own.yml").read_text())["all"] == {
        "vars": {"regatta_cluster": "fleet"},
        "hosts": {"n2": {"ansible_user": "ann"}, "n3": {"ansible_user": "ann"}},
    }


def test_an_inventory_that_is_there_is_left_as_it_is(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"mine is there already.*regatta pull --inventory"):
        joining.join("ann@192.0.2.1", "mine", None, None, folder.parent)
    assert {*folder.parent.iterdir()} == {folder}


def test_a_host_that_is_no_head_names_the_head(folder: Path) -> None:
    for member, said in (
        (Member({}), "was not provisioned"),
        (Member({}, "fleet", "10.9.0.1", ("worker",)), r"not its head, which is 10\.9\.0\.1"),
        (Member({}, "fleet", "10.0.0.1", ("head",)), "keeps no definition"),
    ):
        with pytest.raises(UsageError, match=said):
            joining._kept(cluster(folder), member, "regatta join USER@HEAD")


def test_members_get_hosts_and_folders_and_no_secret(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets.put(folder, "ray_token", "f" * 64, "mine")
    (folder / "group_vars/all.yml").write_text("proxy: http://user:word@host\n")
    least = NODE.limits.changed(memory_share=0.5, processes=100)
    whole = replace(NODE, limits=least, become="word", ssh_args=("-o", "ProxyCommand=word"), key_file="/home/ann/word")
    made, _ = definition.of(Cluster("mine", folder, (whole, OTHER), (OTHER,), whole), folder)
    assert made
    (tmp_path / "kept.json").write_text(json.dumps(encode(made)))
    monkeypatch.setattr(kept_there, "PATH", str(tmp_path / "kept.json"))
    monkeypatch.setattr(layout, "NODE", str(tmp_path / "none"))
    place: dict[str, object] = {"state": str(tmp_path)}
    asked = members.RULES["cluster.member"].checked(place, adopting.wanted())
    shown = members.RULES["cluster.member"].shown(place, kept_there.member(place, **vars(asked)))
    told = json.dumps(encode(shown))
    assert "f" * 64 not in told and "word" not in told and shown.kept.secrets == {} and shown.held == {}
    hosts = yaml.safe_load(shown.kept.files["hosts.yml"])["all"]
    assert hosts["hosts"]["n2"]["cluster_address"] == "10.0.0.2" and list(hosts["children"]["workers"]["hosts"]) == [
        "n2"
    ]
    assert [hosts["hosts"]["n1"][f"regatta_run_{name}"] for name in ("memory_share", "processes")] == [0.5, 100]
    old = Member({}, "mine", "n1", ("head",), made.changed(member=""))
    assert members.RULES["cluster.member"].shown(place, old).kept is None
