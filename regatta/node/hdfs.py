"""HDFS as the head sees it: who is live, and a DataNode that leaves once its blocks have moved away."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator

from regatta.node import disk
from regatta.node.problem import Problem
from regatta_protocol.operations.hdfs import HdfsState, Moved, Moving

if TYPE_CHECKING:
    from regatta_protocol.place import Place

CONF = "/etc/regatta/hadoop"
INCLUDE, EXCLUDE = f"{CONF}/include", f"{CONF}/exclude"
INFO = "Hadoop:service=NameNode,name=NameNodeInfo"
POLL_SECONDS = 1.0

Emit = Callable[[Moving], None]


def state(place: Place) -> HdfsState:
    """The state of HDFS: never fails for one that is down."""
    expected = tuple(_read_list(INCLUDE))
    if not expected:
        return HdfsState(installed=False)
    try:
        info = _bean(INFO)
        return HdfsState(True, expected, tuple(sorted(_live(info))), info["Safemode"])
    except OSError as error:
        return HdfsState(True, expected, problem=f"the NameNode does not answer: {error}")


def decommission(place: Place, emit: Emit, address: str, name: str, stall: float) -> Moved:
    """Move all blocks of a DataNode to the others; it is in use again where that makes no progress for `stall` seconds.

    To stop watching does not stop the move; calling again continues it.
    """
    info = _bean(INFO)
    if info["Safemode"]:
        raise Problem(
            "the NameNode is in safe mode, in which nothing moves and it does not know yet what is missing: "
            "wait until 'regatta hdfs-status' shows that it has ended, then try again"
        )
    live = _live(info)
    if address not in live:
        return Moved("")
    others = [node for where, node in live.items() if where != address]
    if not others:
        raise Problem(f"{name} has the only live DataNode: start another one first ('regatta up')")
    used, free = live[address]["usedSpace"], sum(node["remaining"] for node in others)
    if used > free:
        raise Problem(
            f"{name} holds {used >> 20} MiB, and the others have only {free >> 20} MiB free: remove files from HDFS, "
            "or add a node"
        )
    _exclude([address])
    # Only now: asked for fewer copies before, HDFS might delete one that is not on the node that leaves.
    if lowered := _lower_replication(len(others), "/"):
        emit(Moving(f"{lowered} file(s) now have {len(others)} copies, as so many DataNodes remain"))
    _wait_until_moved(emit, address, name, stall)
    return Moved(info["BlockPoolId"])


def forget(place: Place, address: str) -> None:
    """Strike a DataNode, whose blocks have moved away, from the lists."""
    _write(INCLUDE, [other for other in _read_list(INCLUDE) if other != address])
    _exclude([])


def _wait_until_moved(emit: Emit, address: str, name: str, stall: float) -> None:
    said, best, since = "", None, time.monotonic()
    while True:
        info = _bean(INFO)
        node = _live(info).get(address)
        if node is None:
            _exclude([])
            raise Problem(
                f"the DataNode of {name} went down while its blocks were moving; it stays a member: start it "
                "('regatta up') and try again"
            )
        if node["adminState"] == "Decommissioned":
            return
        moving = next((v for k, v in json.loads(info["DecomNodes"]).items() if k == node["name"]), None)
        left = int(moving["underReplicatedBlocks"]) if moving else None
        text = f"{left} of {node['numBlocks']} block(s) still to be copied" if left is not None else "looking at blocks"
        if text != said:
            emit(Moving(text))
            said = text
        if left is not None and (best is None or left < best):
            best, since = left, time.monotonic()
        if time.monotonic() - since > stall:
            _exclude([])
            open_files = int(moving["underReplicateInOpenFiles"]) if moving else 0
            why = f" ({open_files} of them in files that are being written)" if open_files else ""
            raise Problem(
                f"no block of {name} has moved for {stall:g} s, {left} are left{why}: it stays a member. Have the "
                "other DataNodes space, and are there enough of them? See 'regatta hdfs-status'"
            )
        time.sleep(POLL_SECONDS)


def _lower_replication(most: int, folder: str) -> int:
    """Ask no more copies of any file than there will be DataNodes; returns how many files that concerned."""
    count = 0
    for path, entry in files(folder):
        if entry["replication"] > most:
            webhdfs("SETREPLICATION", path, "PUT", replication=most)
            count += 1
    return count


def files(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of a tree in HDFS of any depth, or the file that `path` is: where each is, what WebHDFS says of it."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        for entry in webhdfs("LISTSTATUS", folder)["FileStatuses"]["FileStatus"]:
            inside = f"{folder.rstrip('/')}/{entry['pathSuffix']}" if entry["pathSuffix"] else folder
            if entry["type"] == "DIRECTORY":
                waiting.append(inside)
            else:
                yield inside, entry


def _exclude(addresses: list[str]) -> None:
    _write(EXCLUDE, addresses)
    dfsadmin("namenode", "-refreshNodes")


def dfsadmin(daemon: str, *words: str) -> None:
    """`hdfs dfsadmin WORDS` as HDFS's superuser, by the Hadoop of a daemon of this host. Problem with its words."""
    with open(f"/etc/systemd/system/regatta-hdfs-{daemon}.service") as file:
        found = re.search(r"HADOOP_HOME=(\S+)", file.read())
    if not found:
        raise Problem(f"the unit of the {daemon} does not say where Hadoop is: run 'regatta provision'")
    env = {"HADOOP_CONF_DIR": CONF, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
    command = ["runuser", "--user=hdfs", "--", f"{found.group(1)}/bin/hdfs", "dfsadmin", *words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, cwd="/", check=False)
    if done.returncode:
        raise Problem(f"'hdfs dfsadmin {words[0]}' failed: see 'regatta hdfs-status' ({done.stderr.strip()[-300:]})")


def _read_list(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


def _write(path: str, addresses: list[str]) -> None:
    disk.store(path, "".join(f"{address}\n" for address in addresses))


def setting(file: str, name: str) -> str:
    """One of Hadoop's settings. Problem where there is none."""
    with open(f"{CONF}/{file}") as opened:
        found = re.search(rf"<name>{re.escape(name)}</name>\s*<value>([^<]+)<", opened.read())
    if not found:
        raise Problem(f"{CONF}/{file} has no {name}: run 'regatta provision'")
    return found.group(1)


def url(path: str, query: dict[str, Any], web: str = "") -> str:
    """An address at the NameNode's web server, or at another."""
    from urllib.parse import quote, urlencode

    web = web or f"http://{setting('hdfs-site.xml', 'dfs.namenode.http-address')}"
    return f"{web}{quote(path)}?{urlencode(query)}"


def answer(address: str, method: str = "GET", seconds: float = 10) -> Any:
    """Return what one of HDFS's web servers answers, to read from and close. Problem with its words where it
    refuses.
    """
    # Every request to a node loads this module, and these cost more than all the rest of it.
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return opener.open(urllib.request.Request(address, method=method), timeout=seconds)
    except urllib.error.HTTPError as error:
        said = error.read(300).decode("utf-8", "replace")
        raise Problem(f"HDFS answers {error.code} to {address}: see 'regatta hdfs-status' ({said})") from None


def _fetch(path: str, query: dict[str, Any], method: str = "GET") -> Any:
    with answer(url(path, query), method) as found:
        return json.loads(found.read() or b"{}")


def _bean(name: str) -> dict[str, Any]:
    beans = _fetch("/jmx", {"qry": name}).get("beans")
    if not beans:
        raise ConnectionError("it is starting")
    return dict(beans[0])


def webhdfs(operation: str, path: str, method: str = "GET", **options: Any) -> Any:
    """A request to WebHDFS as its superuser."""
    return _fetch(f"/webhdfs/v1{path}", {"op": operation, "user.name": "hdfs", **options}, method)


def _live(info: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Live DataNodes by address."""
    found = {}
    for key, node in json.loads(info["LiveNodes"]).items():
        found[node["xferaddr"].rpartition(":")[0]] = {**node, "name": key}
    return found
