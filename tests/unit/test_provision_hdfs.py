"""The controller's decisions about HDFS: formatting, restoring, the tarball, who leaves, what is confirmed."""

import dataclasses
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import modules
import pytest

from lab import hadoop as lab_hadoop
from regatta.errors import RunError, UsageError
from regatta.hosts.cluster import Cluster, Node
from regatta.provisioning import commands, hadoop, membership, playbook
from regatta.provisioning.flags import Options
from regatta.run import catalogue
from regatta_protocol.operations.hdfs import HdfsState
from regatta_protocol.run import PlanKept
from regatta_protocol.states import State

DATA = modules.load("hdfs_filters", "roles/hdfs/filter_plugins/hdfs.py")
newest_checkpoint, refusal = DATA.newest_checkpoint, DATA.refusal
FOLDER = "/var/lib/regatta-hdfs"
EMPTY = {"name": "", "pools": {}, "checkpoint": {}}
BODY = b"a tarball" * 1000
SUM = hashlib.sha512(BODY).hexdigest()


def host(name: str = "", pools: dict[str, int] | None = None, transaction: int | None = None) -> dict[str, object]:
    copy = {"transaction": transaction, "time": 0.0} if transaction is not None else {}
    return {"name": name, "pools": pools or {}, "checkpoint": copy}


def test_bare_hosts_may_be_formatted() -> None:
    assert refusal({"n1": EMPTY, "n2": EMPTY}, "n1", FOLDER) == ""


def test_a_cluster_goes_on_with_its_data_and_with_new_nodes() -> None:
    held = {"n1": host("BP-1", {"BP-1": 3}), "n2": host(pools={"BP-1": 3}, transaction=9), "n3": EMPTY}
    assert refusal(held, "n1", FOLDER) == ""


def test_blocks_without_metadata_are_never_formatted_over() -> None:
    held = {"n1": EMPTY, "n2": host(pools={"BP-1": 7}), "n3": host(pools={"BP-1": 5}, transaction=42)}
    said = refusal(held, "n1", FOLDER, "/home/me/inventory/mine")
    assert "n2: 7 block(s) of BP-1" in said
    assert "n3: 5 block(s) of BP-1; a copy of the metadata up to change 42" in said
    assert "copy on n3: regatta hdfs-restore-metadata --inventory inventory/mine" in said
    assert "regatta teardown --inventory inventory/mine --data destroy" in said
    assert refusal(held, "n1", FOLDER, restore=True) == ""


def test_metadata_on_a_host_that_is_not_the_head_any_more() -> None:
    said = refusal({"n1": EMPTY, "n2": host("BP-1")}, "n1", FOLDER)
    assert "n2: metadata of BP-1" in said
    assert "Make n2, which has the metadata, the head again" in said


def test_blocks_of_another_file_system() -> None:
    said = refusal({"n1": host("BP-1", {"BP-1": 1}), "n2": host(pools={"BP-2": 4})}, "n1", FOLDER)
    assert said.startswith("n2 hold(s) blocks of another file system")
    assert "4 block(s) of BP-2" in said


def test_restoring_needs_a_copy_and_no_metadata() -> None:
    there = refusal({"n1": host("BP-1"), "n2": host(transaction=1)}, "n1", FOLDER, restore=True)
    assert "move the folder away first" in there
    assert "no host has a copy" in refusal({"n1": EMPTY, "n2": host(pools={"BP-1": 1})}, "n1", FOLDER, restore=True)


def test_a_copy_of_another_file_system_is_not_restored() -> None:
    copy = {"transaction": 9, "time": 0.0, "pool": "BP-2"}
    held = {"n1": EMPTY, "n2": {**EMPTY, "checkpoint": copy}, "n3": host(pools={"BP-1": 4})}
    said = refusal(held, "n1", FOLDER, restore=True)
    assert "is of BP-2, but n3 hold(s) blocks" in said and "n3: 4 block(s) of BP-1" in said
    assert refusal({**held, "n3": host(pools={"BP-2": 4})}, "n1", FOLDER, restore=True) == ""


def test_the_newest_copy_wins() -> None:
    assert newest_checkpoint({"n1": EMPTY, "n2": host(transaction=99), "n3": host(transaction=100)}) == "n3"
    assert newest_checkpoint({"n1": EMPTY}) == ""


class Mirror(BaseHTTPRequestHandler):
    """A server that can continue in the middle of a file."""

    ranges: list[str | None]

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        type(self).ranges.append(wanted)
        if self.path != "/hadoop.tar.gz":
            self.send_error(404)
            return
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(BODY) - begin))
        self.end_headers()
        self.wfile.write(BODY[begin:])

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    Mirror.ranges = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_tarball_is_downloaded_once_and_verified(mirror: str) -> None:
    path = hadoop.fetch(f"{mirror}/hadoop.tar.gz", SUM)
    assert path.read_bytes() == BODY
    assert hadoop.fetch(f"{mirror}/hadoop.tar.gz", SUM) == path
    assert Mirror.ranges == [None]


def test_a_stopped_download_goes_on(mirror: str, tmp_path: Path) -> None:
    part = tmp_path / "hadoop" / f"{SUM[:12]}-hadoop.tar.gz.part"
    part.parent.mkdir()
    part.write_bytes(BODY[:500])
    assert hadoop.fetch(f"{mirror}/hadoop.tar.gz", SUM).read_bytes() == BODY
    assert Mirror.ranges == ["bytes=500-"]


def test_a_tarball_with_another_sum_is_not_kept(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(hadoop.HadoopError, match="the mirror has another file"):
        hadoop.fetch(f"{mirror}/hadoop.tar.gz", "0" * 128)
    assert [path.suffix for path in (tmp_path / "hadoop").iterdir()] == [".lock"]


def test_no_tarball_to_be_had(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(hadoop.HadoopError, match=r"404.*hdfs_tarball to a mirror or to a file"):
        hadoop.fetch(f"{mirror}/none.tar.gz", SUM)
    with pytest.raises(hadoop.HadoopError, match="there is no file"):
        hadoop.fetch(str(tmp_path / "none"), SUM)
    (tmp_path / "other").write_bytes(b"x")
    with pytest.raises(hadoop.HadoopError, match="does not belong to it"):
        hadoop.fetch(str(tmp_path / "other"), SUM)


def cluster(*names: str) -> Cluster:
    nodes = tuple(
        Node(name, name, f"10.0.0.{i}", False, None, None, None, (), "/opt/regatta", "/var/lib/regatta", "python")
        for i, name in enumerate(names, 1)
    )
    return Cluster("mine", Path("inventory/mine"), nodes, nodes, nodes[0])


def test_who_may_leave() -> None:
    with pytest.raises(UsageError, match="is the head"):
        membership.remove(Path("i"), cluster("n1", "n2"), "n1", [], check=False, force=False)
    with pytest.raises(UsageError, match=r"add it to .*hosts\.yml"):
        membership.must_be_known(cluster("n1"), "n9")


def test_a_node_that_runs_need_leaves_only_when_it_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = dataclasses.replace(cluster("n1", "n2", "n3"), folder=tmp_path)
    runs = [
        catalogue.RunInfo(name, State.RUNNING, "torch", 0.0, None, None, nodes, PlanKept(), "r")
        for name, nodes in (("here", made.nodes), ("elsewhere", made.nodes[:1]))
    ]
    done: list[str] = []
    monkeypatch.setattr(catalogue, "listing", lambda _: (runs, {}))
    monkeypatch.setattr(catalogue, "cancel", lambda _, info: done.append(info.run))
    monkeypatch.setattr(membership.Remote, "call", lambda *_: HdfsState(installed=False))
    monkeypatch.setattr(playbook, "play", lambda book, *_: done.append(book) or 0)
    assert membership.remove(Path("i"), made, "n2", [], check=True, force=False) == 0
    said = capsys.readouterr().out
    assert "here" in said and "elsewhere" not in said and "--force" in said
    with pytest.raises(RunError, match=r"n2 .*here .*regatta remove-node --node n2 --force"):
        membership.remove(Path("i"), made, "n2", [], check=False, force=False)
    assert not done
    assert membership.remove(Path("i"), made, "n2", [], check=False, force=True) == 0
    assert done == ["here", "remove_node"]


@pytest.mark.parametrize(
    ("data", "confirm", "words"),
    [
        ("keep", "yes", []),
        ("keep", "mine", []),
        ("destroy", "mine", ["-e", "shared_folder_destroy=mine", "-e", "hdfs_destroy=mine"]),
    ],
)
def test_what_confirms(data: str, confirm: str, words: list[str]) -> None:
    assert commands._confirm(["n1"], "mine", Options(data=data, confirm=confirm)) == words


@pytest.mark.parametrize(("data", "confirm"), [("destroy", "yes"), ("destroy", "other"), ("keep", "other")])
def test_what_does_not_confirm(data: str, confirm: str) -> None:
    with pytest.raises(UsageError):
        commands._confirm(["n1"], "mine", Options(data=data, confirm=confirm))


def test_the_labs_tarball_is_the_same_everywhere(tmp_path: Path) -> None:
    members = {"bin/hdfs": b"#!", "lib/a.jar": b"a"}
    sums = set()
    for name, order in (("one", members), ("two", dict(reversed(members.items())))):
        lab_hadoop._pack(tmp_path / name, order)
        sums.add(hashlib.sha512((tmp_path / name).read_bytes()).hexdigest())
    assert len(sums) == 1


def test_a_node_keeps_blocks_that_were_not_moved() -> None:
    holds, empty = host(pools={"BP-1": 7}), host(pools={"BP-1": 0})
    assert DATA.unmoved(EMPTY, "", "n3", FOLDER, True) == DATA.unmoved(empty, "", "n3", FOLDER, False) == ""
    assert DATA.unmoved(holds, "BP-1", "n3", FOLDER, True) == ""
    assert "hdfs_enabled: false" in DATA.unmoved(holds, "", "n3", FOLDER, False)
    not_live = DATA.unmoved(holds, "", "n3", FOLDER, True)
    assert "n3: 7 block(s) of BP-1" in not_live and "is not live" in not_live
    assert "not of this cluster's HDFS (BP-2)" in DATA.unmoved(holds, "BP-2", "n3", FOLDER, True)
