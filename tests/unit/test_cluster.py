import json
import re
from pathlib import Path

import pytest

from regatta.errors import InventoryError, UsageError
from regatta.hosts import inventories, inventory_lint
from regatta.provisioning import commands
from regatta.provisioning.flags import Options


def listing(hosts: dict[str, dict[str, object]], head: list[str], workers: list[str]) -> dict[str, object]:
    return {"_meta": {"hostvars": hosts}, "head": {"hosts": head}, "workers": {"hosts": workers}}


def test_head_workers_and_variables() -> None:
    hosts = {
        "a": {"ansible_host": "h1.example", "cluster_address": "10.0.0.1", "ansible_user": "ubuntu"},
        "b": {"cluster_address": "10.0.0.2", "ansible_ssh_common_args": "-J me@jump -o 'X=a b'", "ansible_port": 2222},
    }
    made = inventories.build("c", Path("/inv"), listing(hosts, ["a"], ["a", "b"]))
    assert [node.name for node in made.nodes] == ["a", "b"]
    assert made.head.host == "h1.example"
    assert made.node("b").ssh_args == ("-J", "me@jump", "-o", "X=a b")
    assert made.node("b").port == 2222
    assert made.node("a").python == "/opt/regatta/env/bin/python"
    assert not made.local


def test_head_that_does_not_work() -> None:
    hosts = {name: {"cluster_address": f"10.0.0.{i}"} for i, name in enumerate("abc", 1)}
    made = inventories.build("c", Path("/inv"), listing(hosts, ["a"], ["b", "c"]))
    assert [node.name for node in made.workers] == ["b", "c"]
    assert [node.name for node in made.nodes] == ["a", "b", "c"]


def test_children_of_groups_count() -> None:
    hosts = {name: {"cluster_address": f"10.0.0.{i}"} for i, name in enumerate("ab", 1)}
    made = inventories.build(
        "c",
        Path("/inv"),
        {
            "_meta": {"hostvars": hosts},
            "head": {"hosts": ["a"]},
            "workers": {"children": ["rack1"]},
            "rack1": {"hosts": ["a", "b"]},
        },
    )
    assert [node.name for node in made.workers] == ["a", "b"]


@pytest.mark.parametrize(
    ("hosts", "head", "workers", "said"),
    [
        ({"a": {"cluster_address": "10.0.0.1"}}, [], ["a"], "exactly one host"),
        ({"a": {"cluster_address": "10.0.0.1"}}, ["a"], [], "'workers' has no host"),
        ({"a": {"ansible_host": "name.example"}}, ["a"], ["a"], "needs cluster_address"),
        (
            {"a": {"cluster_address": "10.0.0.1"}, "b": {"cluster_address": "10.0.0.1"}},
            ["a"],
            ["a", "b"],
            "same cluster_address",
        ),
        ({"-oProxyCommand=x": {"cluster_address": "10.0.0.1"}}, ["-oProxyCommand=x"], ["-oProxyCommand=x"], "no host"),
        ({"a": {"cluster_address": "10.0.0.1", "ansible_host": "-oX=y"}}, ["a"], ["a"], "no address"),
        ({"a": {"cluster_address": "{{ unknown_thing }}"}}, ["a"], ["a"], "unknown_thing"),
    ],
)
def test_contradictions_are_named(
    hosts: dict[str, dict[str, object]], head: list[str], workers: list[str], said: str
) -> None:
    if said == "no host":
        said = "is not a host name"
    with pytest.raises(InventoryError, match=said):
        inventories.build("c", Path("/inv"), listing(hosts, head, workers))


def test_missing_inventory_says_how_to_make_one() -> None:
    with pytest.raises(InventoryError, match=r"inventory/local.*regatta init.*regatta provision"):
        inventories.choose("inventory/does-not-exist")


def test_inventory_is_read_by_ansible_and_cached_until_it_changes(here: Path, tmp_path: Path) -> None:
    made = inventories.load(str(here))
    assert made.local
    assert made.name == "here"
    cached = list((tmp_path / "cache" / "inventory").glob("*.json"))
    assert len(cached) == 1
    content = json.loads(cached[0].read_text())
    content["_meta"]["hostvars"]["here"]["regatta_python"] = "/from/the/cache"
    cached[0].write_text(json.dumps(content))
    assert inventories.load(str(here)).head.python == "/from/the/cache"
    (here / "hosts.yml").write_text((here / "hosts.yml").read_text() + "    regatta_state: /elsewhere\n")
    assert inventories.load(str(here)).head.state == "/elsewhere"
    assert inventories.load(str(here)).head.python != "/from/the/cache"


def test_an_inventory_that_never_answers_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = here / "hosts.sh"
    script.write_text("#!/bin/sh\nsleep 300\n")
    script.chmod(0o755)
    monkeypatch.setattr(inventories, "_ANSWER", 3.0)
    with pytest.raises(InventoryError, match=rf"{script}.*no answer"):
        inventories.load(str(script))


def test_variables_may_refer_to_others(here: Path) -> None:
    (here / "hosts.yml").write_text(
        "head: {hosts: {n1: }}\nworkers: {hosts: {n1: }}\nall:\n  vars:\n    mine: 10.9.8.7\n"
        "    cluster_address: '{{ mine }}'\n    ansible_ssh_private_key_file: '{{ inventory_dir }}/secrets/key'\n"
    )
    made = inventories.load(str(here))
    assert made.head.cluster_address == "10.9.8.7"
    assert made.head.key_file == f"{here}/secrets/key"


def test_broken_inventory_shows_ansibles_words(here: Path) -> None:
    (here / "hosts.yml").write_text("head: [unclosed\n")
    with pytest.raises(InventoryError, match="cannot read this inventory"):
        inventories.load(str(here))


NAMED = listing(
    {
        f"node{i}": {"ansible_user": "me", "ansible_host": f"192.0.2.{i}", "cluster_address": f"10.0.0.{i}"}
        for i in (1, 2, 3)
    },
    ["node1"],
    ["node2", "node3"],
)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"node3"]', '"nod3"]', "nod3 is in workers, but not below hosts; did you mean node3"),
        ('["node1"]', '["nodee1"]', "nodee1 is in head, but not below hosts; did you mean node1"),
        ('["node2", ', '["node1", "node-2", ', "node-2 is in workers, but not below hosts; did you mean node2"),
        ('"head"', '"haed"', "'head', but a group 'haed'"),
        ('"workers"', '"worker"', "'workers', but a group 'worker'"),
        ('3", "cluster_address"', '3", "cluster_adress"', "node3: .*cluster_adress; did you mean cluster_address"),
    ],
)
def test_a_misspelt_name_is_named_with_what_is_meant(right: str, wrong: str, said: str) -> None:
    assert inventory_lint.problems(NAMED) == []
    listed = json.loads(json.dumps(NAMED).replace(right, wrong))
    used = {host for group in listed.values() for host in group.get("hosts", [])}
    listed["ungrouped"] = {"hosts": [host for host in listed["_meta"]["hostvars"] if host not in used]}
    for host in used - set(listed["_meta"]["hostvars"]):
        listed["_meta"]["hostvars"][host] = {"ansible_user": "me"}
    found = inventory_lint.problems(listed)
    assert len(found) == 1
    assert re.search(said, found[0])


def test_misspelt_keys_of_yaml_are_named(here: Path) -> None:
    (here / "hosts.yml").write_text(
        "all:\n  var: {a: 1}\n  hosts: {n1: {cluster_address: 10.0.0.1}}\n  childern: {head: {hosts: {n1: }}}\n"
        "workers: {host: {n1: }}\n"
    )
    with pytest.raises(InventoryError) as found:
        inventories.load(str(here))
    for key, near in (("var", "vars"), ("childern", "children"), ("host", "hosts")):
        assert re.search(rf"'{key}'.* did you mean {near}\?", str(found.value))


def _misspelt(name: str, at: int) -> str:
    """A letter in the middle left out, doubled, or swapped with the next one that differs, by turns."""
    i = next(i for i in range(len(name) // 2, len(name) - 1) if name[i] != name[i + 1])
    return name[:i] + ("", name[i] * 2, name[i + 1] + name[i])[at % 3] + name[i + (2 if at % 3 == 2 else 1) :]


def test_every_variable_misspelt_once_is_noticed() -> None:
    names = sorted(inventory_lint.known_variables())
    assert {"cluster_address", "hdfs_replication", "ray_gcs_port", "monitoring_enabled"} < set(names)
    wrong = {_misspelt(name, at): name for at, name in enumerate(names)}
    said = inventory_lint.problems(listing({"a": dict.fromkeys(wrong, 1)}, ["a"], ["a"]))
    assert len(said) == len(names)
    for typed, name in wrong.items():
        assert any(typed in line and line.endswith(f" {name}?") for line in said), typed


def test_names_of_ansible_and_of_the_users_own_are_left_alone() -> None:
    names = ["ansible_become", "ansible_ssh_port", "ansible_python_interpreter", "my_rack", "hdfs_colour", "ray"]
    assert inventory_lint.variables(names) == {}
    assert inventory_lint.problems(listing({"a": {}, "b": {}}, ["a"], ["a", "b"])) == []


def test_a_misspelt_argument_is_named(here: Path) -> None:
    words = ["--diff", "-e", "ray_gsc_port=7000", "-e", '{"hdfs_replicaton": 2}', "-e", "own=1", "-e", "@file"]
    assert inventory_lint.arguments(words) == {"ray_gsc_port": "ray_gcs_port", "hdfs_replicaton": "hdfs_replication"}
    with pytest.raises(UsageError, match="did you mean ray_gcs_port"):
        commands.run("provision", Options(str(here), extra=words))


def test_changes_are_seen_below_a_folder_of_any_name(here: Path) -> None:
    place = here.parent / "secrets" / "known_hosts" / "here"
    (place / "secrets").mkdir(parents=True)
    (place / "hosts.yml").write_text("all: {}\n")
    before = inventories._fingerprint(place)
    (place / "secrets" / "ray_token").write_text("no part of the inventory")
    (place / "known_hosts").write_text("neither is this")
    assert inventories._fingerprint(place) == before
    (place / "hosts.yml").write_text("all: {vars: {regatta_state: /elsewhere}}\n")
    assert inventories._fingerprint(place) != before
    of_a_file = inventories._fingerprint(place / "hosts.yml")
    (place / "hosts.yml").write_text("all: {}\n")
    assert inventories._fingerprint(place / "hosts.yml") != of_a_file
