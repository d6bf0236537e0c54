import json
from pathlib import Path

import pytest

from regatta import cluster
from regatta.errors import InventoryError


def listing(hosts: dict[str, dict[str, object]], head: list[str], workers: list[str]) -> dict[str, object]:
    return {"_meta": {"hostvars": hosts}, "head": {"hosts": head}, "workers": {"hosts": workers}}


def test_head_workers_and_variables() -> None:
    hosts = {
        "a": {"ansible_host": "h1.example", "cluster_address": "10.0.0.1", "ansible_user": "ubuntu"},
        "b": {"cluster_address": "10.0.0.2", "ansible_ssh_common_args": "-J me@jump -o 'X=a b'", "ansible_port": 2222},
    }
    made = cluster.build("c", Path("/inv"), listing(hosts, ["a"], ["a", "b"]))
    assert [node.name for node in made.nodes] == ["a", "b"]
    assert made.head.host == "h1.example"
    assert made.node("b").ssh_args == ("-J", "me@jump", "-o", "X=a b")
    assert made.node("b").port == 2222
    assert made.node("a").python == "/opt/regatta/env/bin/python"
    assert not made.local


def test_head_that_does_not_work() -> None:
    hosts = {name: {"cluster_address": f"10.0.0.{i}"} for i, name in enumerate("abc", 1)}
    made = cluster.build("c", Path("/inv"), listing(hosts, ["a"], ["b", "c"]))
    assert [node.name for node in made.workers] == ["b", "c"]
    assert [node.name for node in made.nodes] == ["a", "b", "c"]


def test_children_of_groups_count() -> None:
    hosts = {name: {"cluster_address": f"10.0.0.{i}"} for i, name in enumerate("ab", 1)}
    made = cluster.build(
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
        cluster.build("c", Path("/inv"), listing(hosts, head, workers))


def test_missing_inventory_says_how_to_make_one() -> None:
    with pytest.raises(InventoryError, match=r"make lab.*inventory/example.*inventory/local"):
        cluster.choose("inventory/does-not-exist")


def test_inventory_is_read_by_ansible_and_cached_until_it_changes(here: Path, tmp_path: Path) -> None:
    made = cluster.load(str(here))
    assert made.local
    assert made.name == "here"
    cached = list((tmp_path / "cache" / "inventory").glob("*.json"))
    assert len(cached) == 1
    content = json.loads(cached[0].read_text())
    content["_meta"]["hostvars"]["here"]["regatta_python"] = "/from/the/cache"
    cached[0].write_text(json.dumps(content))
    assert cluster.load(str(here)).head.python == "/from/the/cache"
    (here / "hosts.yml").write_text((here / "hosts.yml").read_text() + "    regatta_state: /elsewhere\n")
    assert cluster.load(str(here)).head.state == "/elsewhere"
    assert cluster.load(str(here)).head.python != "/from/the/cache"


def test_variables_may_refer_to_others(here: Path) -> None:
    (here / "hosts.yml").write_text(
        "head: {hosts: {n1: }}\nworkers: {hosts: {n1: }}\nall:\n  vars:\n    mine: 10.9.8.7\n"
        "    cluster_address: '{{ mine }}'\n    ansible_ssh_private_key_file: '{{ inventory_dir }}/secrets/key'\n"
    )
    made = cluster.load(str(here))
    assert made.head.cluster_address == "10.9.8.7"
    assert made.head.key_file == f"{here}/secrets/key"


def test_broken_inventory_shows_ansibles_words(here: Path) -> None:
    (here / "hosts.yml").write_text("head: [unclosed\n")
    with pytest.raises(InventoryError, match="cannot read this inventory"):
        cluster.load(str(here))
