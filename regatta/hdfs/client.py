"""HDFS of a cluster from the controller, which reaches none of its DataNodes: everything goes through the head.

A request starts `workloads.common.storage.serve` there, as the user `regatta` in the nodes' Python environment; its
source is sent with the request. Frames go both ways over the SSH connection (`workloads.common.storage.frames`).
"""

import contextlib
import fcntl
import json
import struct
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

from regatta import paths
from regatta.errors import DataError, RemoteError, UsageError
from regatta.hosts import sources
from regatta.hosts.remote import Remote, explain
from regatta.program import about_hosts, retold
from regatta_protocol import sent

CONF_DIR = "/etc/regatta/hadoop"
LARGEST = 16 << 20
PIPE_BYTES = 1 << 20
UNIT = "regatta-hdfs-namenode.service"
LEAVE_SECONDS = 5.0

_HEAD = struct.Struct(">cI")
_PROGRAM = (
    "events",
    "ranks",
    "threads",
    "storage",
    "storage.errors",
    "storage.calls",
    "storage.places",
    "storage.hdfs",
    "storage.webhdfs",
)
_MODULES = ("workloads", "workloads.common", *(f"workloads.common.{name}" for name in _PROGRAM))
_MODULES = (
    *_MODULES,
    "regatta_protocol.decoding",
    "regatta_protocol.events",
    "regatta_protocol.log",
    "regatta_protocol.value",
    "workloads.common.storage.frames",
    "workloads.common.storage.swap",
    "workloads.common.storage.serve",
)


class HdfsError(DataError):
    """HDFS refused or failed. `passing`: sending all of it again can help."""

    exit_code = 1

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def is_address(path: str) -> bool:
    """Whether a path leads to HDFS."""
    return path.lower().startswith("hdfs:")


def address(path: str) -> str:
    """An HDFS address as a person types it: `hdfs:///x`, or `/x` in HDFS. UsageError for anything else."""
    if is_address(path):
        return path
    if path.startswith("/"):
        return f"hdfs://{path}"
    raise UsageError(f"'{path}' is no path in HDFS: write hdfs:///folder/file or /folder/file")


def require(remote: Remote) -> None:
    """DataError where the cluster cannot have an HDFS."""
    if remote.cluster.local:
        raise DataError(
            "inventory/local has no HDFS: it is this machine only, and its runs read plain files. "
            "Choose a cluster with --inventory inventory/NAME"
        )


class Exchange:
    """One request to the head, as frames; leaving it ends the request."""

    def __init__(self, remote: Remote, op: str, url: str, **args: Any) -> None:
        require(remote)
        node = self._node = remote.cluster.head
        request = json.dumps({"op": op, "args": {"url": url, **args}, "unit": UNIT})
        serve = f"import json\nfrom workloads.common.storage import serve\nserve.main(**json.loads({request!r}))\n"
        payload = sent.program(_sources(), serve)
        words = ["env", f"HADOOP_CONF_DIR={CONF_DIR}", node.python, "-Iuc", sources.BOOT, str(len(payload))]
        remote_command, first = remote.as_root(node, words, ["-H", "-u", "regatta"])
        self._process = subprocess.Popen(
            [*remote.ssh(node), "--", remote.destination(node), remote_command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out = self._process.stdin, self._process.stdout
        for pipe in (self._in, self._out):
            with contextlib.suppress(OSError, AttributeError):  # Linux only
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._said: list[bytes] = []
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        with contextlib.suppress(BrokenPipeError):
            self._in.write(first + payload)
            self._in.flush()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._in.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.join(1)

    def send(self, kind: bytes, content: bytes | memoryview) -> None:
        """Send a frame; where the other side has given up, its reason is raised."""
        try:
            self._in.write(_HEAD.pack(kind, len(content)))
            self._in.write(content)
            if kind == b"J":
                self._in.flush()
        except OSError:
            for _ in self.frames():
                pass
            raise self._explain() from None

    def send_json(self, **fields: Any) -> None:
        """Send a JSON frame."""
        self.send(b"J", json.dumps(fields).encode())

    def frames(self) -> Iterator[dict[str, Any] | bytes]:
        """Yield what comes: objects and pieces of a file, up to and including {"done"}. HdfsError, RemoteError."""
        while True:
            head = self._out.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise self._explain()
            kind, length = _HEAD.unpack(head)
            if length > LARGEST:
                raise RemoteError(
                    self._node.name, f"unexpected output: {head!r}; what does its shell print at a login?"
                )
            content = self._out.read(length)
            if len(content) < length:
                raise self._explain()
            if kind == b"D":
                yield content
                continue
            found = dict(json.loads(content))
            if "error" in found:
                raise HdfsError(retold(str(found["error"])), bool(found.get("passing")))
            yield found
            if "done" in found:
                return

    def next(self, field: str) -> Any:
        """The next object, which has this field."""
        for found in self.frames():
            if isinstance(found, dict) and field in found:
                return found[field]
            raise RemoteError(self._node.name, f"unexpected answer: {str(found)[:200]}; sync, then try again")
        raise self._explain()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            del self._said[:-50]

    def _explain(self) -> RemoteError:
        try:
            code = self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._errors.join(1)
        text = b"".join(self._said).decode("utf-8", "replace").strip()
        missing = ("No such file or directory", "command not found")
        if "unknown user" in text or (self._node.python in text and any(words in text for words in missing)):
            return RemoteError(self._node.name, f"is not provisioned: run '{about_hosts('provision')}'")
        return explain(self._node, code, text)


def ask(remote: Remote, op: str, url: str, **args: Any) -> dict[str, Any]:
    """A request without files: `status`, `list`, `remove`."""
    with Exchange(remote, op, url, **args) as exchange:
        return dict(exchange.next("done"))


def _sources() -> dict[str, str]:
    found = {}
    for name in _MODULES:
        path = paths.PROJECT.joinpath(*name.split("."))
        found[name] = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    return found
