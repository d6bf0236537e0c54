"""Jump hosts, and members that are one: who gets things from whom."""

import re
from pathlib import Path

import pytest

from regatta.errors import RemoteError, UnreachableError, UsageError
from regatta.hosts import cluster, inventories, openssh, routes, sshconfig
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.provisioning import aptrelay, relay


def made(tmp_path: Path, ways_: dict[str, str]) -> Cluster:
    """A cluster whose nodes are led to by these arguments of ssh."""
    hosts = {
        name: {
            "ansible_host": f"192.0.{2 + i // 256}.{i % 256}",
            "cluster_address": f"10.0.{i // 256}.{i % 256}",
            "ansible_ssh_common_args": args,
        }
        for i, (name, args) in enumerate(ways_.items(), 1)
    }
    first, *_ = ways_
    listing = {"_meta": {"hostvars": hosts}, "head": {"hosts": [first]}, "workers": {"hosts": list(ways_)}}
    return inventories.build("c", tmp_path, listing)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-J me@gate", ("", "me", "gate", None)),
        ("-Jgate", ("", None, "gate", None)),
        ("-J first:2222,me@gate:22", ("first:2222", "me", "gate", 22)),
        ("-J ssh://me@gate:2200", ("", "me", "gate", 2200)),
        ("-J me@[2001:db8::1]:2200", ("", "me", "2001:db8::1", 2200)),
        ("-o ProxyJump=me@gate", ("", "me", "gate", None)),
        ("-o 'ProxyJump = gate'", ("", None, "gate", None)),
        ("-oproxyjump=gate", ("", None, "gate", None)),
        ("-J none", None),
        ("-o ProxyCommand='nc %h %p'", None),
        ("-o Compression=yes", None),
        ("", None),
    ],
)
def test_the_last_jump_host(tmp_path: Path, args: str, expected: tuple[object, ...] | None) -> None:
    found = routes.jump(made(tmp_path, {"a": args}).head)
    assert (found and (found.before, found.user, found.host, found.port)) == expected


def test_the_way_to_a_host_key(tmp_path: Path) -> None:
    nodes = made(tmp_path, {"a": "-J x,me@gate:2222", "b": "-o ProxyCommand='nc %h %p'", "c": ""})
    config = sshconfig.write(tmp_path, nodes.nodes, accept_new=False)
    jumped, own, straight = (openssh.proxy(config, node) for node in nodes.nodes)
    assert jumped and jumped.endswith("-J x -p 2222 -W '[192.0.2.1]:22' -- me@gate")
    assert (own, straight) == ("nc 192.0.2.2 22", None)


def test_a_member_on_the_way_is_a_relay(tmp_path: Path) -> None:
    nodes = made(
        tmp_path,
        {"a": "", "b": "-J a", "c": "-J me@192.0.2.1", "d": "-J elsewhere", "e": "-J 192.0.2.1:2222", "f": "-J c"},
    )
    found = {node.name: getattr(routes.relay(nodes, node), "name", None) for node in nodes.nodes}
    assert found == {"a": None, "b": "a", "c": "a", "d": None, "e": None, "f": "c"}
    assert [node.name for node in routes.with_relays(nodes, [nodes.node("f"), nodes.node("d")])] == ["f", "c", "a", "d"]


def test_each_relay_has_it_before_it_passes_it_on(tmp_path: Path) -> None:
    nodes = made(tmp_path, {"a": "", "b": "-J a", "c": "-J b", "d": "-J a", "e": ""})
    has: list[str] = []
    given: list[str] = []

    def give(node: cluster.Node) -> None:
        given.append(node.name)
        has.append(node.name)

    def pass_on(node: cluster.Node, through: cluster.Node) -> None:
        assert through.name in has
        has.append(node.name)

    done, failed = routes.spread(Remote(nodes), reversed(nodes.nodes), give, pass_on)
    assert (sorted(has), sorted(given), failed) == (["a", "b", "c", "d", "e"], ["a", "e"], {})
    assert sorted(done) == sorted(has)


def test_what_a_relay_cannot_pass_on_comes_from_here_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = made(tmp_path, {"a": "", "b": "-J a", "c": "-J a"})
    given: list[str] = []

    def pass_on(node: cluster.Node, through: cluster.Node) -> None:
        if node.name == "c":
            raise UnreachableError("c", "is off")
        raise RemoteError("b", f"{through.name} refuses")

    _done, failed = routes.spread(Remote(nodes), nodes.nodes, lambda node: given.append(node.name), pass_on)
    assert given == ["a", "b"]
    assert list(failed) == ["c"] and "is off" in str(failed["c"])
    assert re.fullmatch(r"warning: b: a .*\(a refuses\)\n", capsys.readouterr().err)


def test_behind_a_relay_that_failed_the_long_way_is_tried(tmp_path: Path) -> None:
    nodes = made(tmp_path, {"a": "", "b": "-J a"})

    def give(node: cluster.Node) -> None:
        if node.name == "a":
            raise RemoteError("a", "no space left")

    def pass_on(node: cluster.Node, through: cluster.Node) -> None:
        raise AssertionError("it has nothing to pass on")

    done, failed = routes.spread(Remote(nodes), nodes.nodes, give, pass_on)
    assert (list(done), list(failed)) == (["b"], ["a"])


def test_archives_are_staged_on_the_relays_of_those_who_lack_them(tmp_path: Path) -> None:
    nodes = made(tmp_path, {"a": "", "b": "-J a", "c": ""})
    names = {lacking: [n.name for n in relay.relays(nodes, [nodes.node(lacking)])] for lacking in "abc"}
    assert names == {"a": ["a"], "b": ["a"], "c": []}


def test_package_proxies_of_relays(tmp_path: Path) -> None:
    nodes = made(tmp_path, {"a": "", "b": "-J a", "c": ""})
    way = "http://regatta:word@10.0.0.1:28143"
    assert aptrelay.proxies(nodes, "word") == {"a": way, "b": way}


def test_in_a_large_cluster_some_nodes_serve_the_others(tmp_path: Path) -> None:
    nodes = made(tmp_path, {f"n{i}": "-J n0" if i in (5, 50) else "" for i in range(102)})
    found = routes.sources(nodes, nodes.nodes)
    served = {
        name: [n for n, through in found.items() if through.name == name] for name in (f"n{i}" for i in range(11))
    }
    assert sum(map(len, served.values())) == 92
    assert {"n5", "n50"} < set(served.pop("n0"))  # whose relay it is
    assert "n5" not in [name for name, others in served.items() if others]
    assert max(map(len, served.values())) <= routes.EACH_SERVES
    assert routes.sources(nodes, nodes.nodes[:10]) == {"n5": nodes.node("n0")}
    assert routes.sources(nodes, nodes.nodes, tree=False).keys() == {"n5", "n50"}


def test_how_many_nodes_make_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    assert routes.tree_nodes() == routes.TREE_NODES
    monkeypatch.setenv("REGATTA_TREE_NODES", "3")
    assert routes.tree_nodes() == 3
    monkeypatch.setenv("REGATTA_TREE_NODES", "many")
    with pytest.raises(UsageError, match="REGATTA_TREE_NODES=many"):
        routes.tree_nodes()


def test_a_tree_is_served_from_the_top_and_a_lost_source_is_done_without(tmp_path: Path) -> None:
    nodes = made(tmp_path, {f"n{i}": "" for i in range(400)})
    has: set[str] = set()
    given: list[str] = []

    def give(node: cluster.Node) -> None:
        given.append(node.name)
        if node.name == "n3":
            raise RemoteError("n3", "is off")
        has.add(node.name)

    def pass_on(node: cluster.Node, through: cluster.Node) -> None:
        assert through.name in has
        has.add(node.name)

    _done, failed = routes.spread(Remote(nodes), nodes.nodes, give, pass_on, tree=True)
    assert (len(has), list(failed)) == (399, ["n3"])
    assert 40 <= len(given) <= 50
