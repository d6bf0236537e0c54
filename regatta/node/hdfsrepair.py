"""Damaged copies of blocks: found by reading what a host holds, put aside so that HDFS makes new ones in their place.

HDFS replaces a damaged copy by itself only where another DataNode is free to take the new one.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Callable, Iterator, Sequence

from regatta.node import hdfs, rights
from regatta.node.problem import Problem
from regatta_protocol.operations.hdfs import Aside, BytesRead, Damaged, DamagedCopy

if TYPE_CHECKING:
    from regatta_protocol.place import Place

UNIT = "regatta-hdfs-datanode.service"
PIECE_BYTES = 1 << 20
EMIT_SECONDS = 1.0
MOVE_SECONDS = 120.0
_FILE = re.compile(r"(/.*) \d+ bytes, ")
_BLOCK = re.compile(r"(blk_\d+)_\d+ .*Live_repl=(\d+)")
_COPY = re.compile(r"DatanodeInfoWithStorage\[([^,\]]+):\d+,[^\]]*\]\(([A-Z_]+)\)")


def read_own(place: Place, emit: Callable[[BytesRead], None], path: str, address: str) -> BytesRead:
    """Read this DataNode's copies of all that is below a path; it tells the NameNode of those that are damaged.

    Emits every second how many bytes were read so far.
    """
    read, said = 0, time.monotonic()
    for url in list(_own_blocks(path, address)):
        with hdfs.answer(url, seconds=60) as answer:
            while piece := answer.read(PIECE_BYTES):
                read += len(piece)
                if time.monotonic() - said > EMIT_SECONDS:
                    said = time.monotonic()
                    emit(BytesRead(read))
    return BytesRead(read)


def damaged(place: Place, path: str, blocks: Sequence[str]) -> Damaged:
    """The NameNode's knowledge of the copies of all that is below a path, and of the `blocks` asked for."""
    query = {"ugi": "hdfs", "path": path, "files": 1, "blocks": 1, "replicadetails": 1}
    found, live, file, asked = [], {}, path, set(blocks)
    with hdfs.answer(hdfs.url("/fsck", query), seconds=600) as lines:
        for line in lines:
            text = line.decode("utf-8", "replace")
            if named := _FILE.match(text):
                file = named[1]
            block = _BLOCK.search(text)
            if block is None:
                continue
            if block[1] in asked:
                live[block[1]] = int(block[2])
            for address, state in _COPY.findall(text):
                if state == "CORRUPT":
                    found.append(DamagedCopy(file, block[1], address, int(block[2])))
    return Damaged(tuple(found), live)


def put_aside(place: Place, blocks: Sequence[str]) -> Aside:
    """Move this host's copies of blocks out of its DataNode's folder, while the DataNode is stopped."""
    data = hdfs.setting("hdfs-site.xml", "dfs.datanode.data.dir").partition("://")[2]
    aside = os.path.join(os.path.dirname(data), "damaged")
    wanted = re.compile("(" + "|".join(map(re.escape, blocks)) + r")(_\d+\.meta)?")
    _systemctl("stop")
    try:
        rights.call("hdfs", lambda: _move(data, aside, wanted), MOVE_SECONDS)
    finally:
        _systemctl("start")
    return Aside(aside)


def _move(data: str, aside: str, wanted: re.Pattern[str]) -> None:
    os.makedirs(aside, mode=0o700, exist_ok=True)
    for folder, _, names in os.walk(os.path.join(data, "current")):
        for name in filter(wanted.fullmatch, names):
            os.rename(os.path.join(folder, name), os.path.join(aside, name))


def report(place: Place) -> None:
    """Have this host's DataNode say what it holds.

    Its report at the start only adds to what the NameNode believes of it; the next one comes after hours.
    """
    hdfs.dfsadmin("datanode", "-triggerBlockReport", hdfs.setting("hdfs-site.xml", "dfs.datanode.ipc.address"))


def _own_blocks(path: str, address: str) -> Iterator[str]:
    """Yield where this host's DataNode gives each of its blocks."""
    web = hdfs.setting("hdfs-site.xml", "dfs.datanode.http.address")
    namenode = hdfs.setting("core-site.xml", "fs.defaultFS").partition("://")[2]
    for file, entry in hdfs.files(path):
        if not entry["length"]:
            continue
        located = hdfs.webhdfs("GET_BLOCK_LOCATIONS", file)["LocatedBlocks"]["locatedBlocks"]
        for block in located:
            if address in [copy["ipAddr"] for copy in block["locations"]]:
                span = {"offset": block["startOffset"], "length": block["block"]["numBytes"]}
                query = {"op": "OPEN", "user.name": "hdfs", "namenoderpcaddress": namenode, **span}
                yield hdfs.url(f"/webhdfs/v1{file}", query, f"http://{web}")


def _systemctl(action: str) -> None:
    done = subprocess.run(["systemctl", action, UNIT], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Problem(f"systemctl {action} {UNIT} failed: see 'journalctl -u {UNIT}' there ({done.stderr.strip()})")
