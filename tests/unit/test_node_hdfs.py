"""HDFS as a node asks it: trees of any depth, and when blocks may move away; a server here answers as the NameNode."""

import inspect
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from regatta.node import hdfs
from regatta.node.problem import Problem
from regatta_protocol.operations.hdfs import Moved

DEEP = 200


class NameNode(BaseHTTPRequestHandler):
    """One folder in the other, with a file of three copies at the bottom; `info` is what it says of itself."""

    info: ClassVar[dict[str, Any]] = {}
    lowered: ClassVar[list[str]] = []
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/jmx":
            self.answer({"beans": [self.info]})
            return
        folder = asked.path.removeprefix("/webhdfs/v1").rstrip("/")
        below = {"pathSuffix": "d", "type": "DIRECTORY", "replication": 0, "length": 0}
        file = {"pathSuffix": "f", "type": "FILE", "replication": 3, "length": 5}
        self.answer({"FileStatuses": {"FileStatus": [below if folder.count("/d") < DEEP else file]}})

    def do_PUT(self) -> None:
        asked = urlsplit(self.path)
        assert parse_qs(asked.query)["replication"] == ["2"]
        self.lowered.append(asked.path)
        self.answer({"boolean": True})

    def answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def namenode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[NameNode]]:
    """It answers at the address that this node's settings name."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), NameNode)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    web = f"<name>dfs.namenode.http-address</name><value>127.0.0.1:{server.server_port}</value>"
    (tmp_path / "hdfs-site.xml").write_text(f"<property>{web}</property>")
    monkeypatch.setattr(hdfs, "CONF", str(tmp_path))
    NameNode.lowered.clear()
    yield NameNode
    server.shutdown()
    server.server_close()


@pytest.fixture
def few_calls() -> Iterator[None]:
    """Functions may call each other less deeply than the tree is."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + DEEP - 50)
    yield
    sys.setrecursionlimit(before)


def test_a_tree_of_any_depth_is_walked(namenode: type[NameNode], few_calls: None) -> None:
    bottom = "/d" * DEEP + "/f"
    assert hdfs._lower_replication(2, "/") == 1
    assert namenode.lowered == [f"/webhdfs/v1{bottom}"]


def leave() -> Moved:
    return hdfs.decommission({}, lambda _: None, "10.0.0.3", "n3", 1)


def test_nothing_leaves_in_safe_mode(namenode: type[NameNode]) -> None:
    namenode.info = {"Safemode": "Safe mode is ON", "LiveNodes": "{}", "BlockPoolId": "BP-1"}
    with pytest.raises(Problem, match="safe mode"):
        leave()


def test_of_a_datanode_that_is_not_live_nothing_has_moved(namenode: type[NameNode]) -> None:
    namenode.info = {"Safemode": "", "LiveNodes": "{}", "BlockPoolId": "BP-1"}
    assert leave() == Moved("")
