"""Files to a node and from it by rsync, over the same SSH connection as everything else."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from regatta.errors import DataError, RemoteError
from regatta.hosts import openssh, sudo
from regatta.hosts.cluster import Node
from regatta.hosts.remote import Remote, explain
from regatta.program import about_hosts
from regatta_protocol.operations.hosts import GATE, SEND

AS_OWNER = [
    "sh",
    "-c",
    'own=$(stat --format=%U -- "$0") && [ "$own" != root ] || exit 1; '
    'exec setpriv --reuid="$own" --regid="$own" --init-groups --no-new-privs rsync "$@"',
]
"""rsync on a node without root's rights: as the account of runs that owns the folder which comes behind it."""
PARTIAL = ".regatta-partial"
"""Next to files that have not come whole: the part of them that has, for the next time."""
_GONE = {23, 24}
"""rsync's exit codes where some files could not be read, or had gone."""
_SO_FAR = re.compile(rb"\s*(\d+)\s+\d+%")


def rsync(
    remote: Remote, node: Node, source: Path, paths: Iterable[str], target: str, *, link_dest: Iterable[str] = ()
) -> None:
    """Copy `paths` below `source` into the folder `target` of a node, unchanged files linked from `link_dest`.

    Raises RemoteError with rsync's own words (disk full, connection lost). This machine as a node needs no rsync.
    """
    if node.local and shutil.which("rsync") is None:
        _copy(node, source, paths, Path(target))
        return
    command = ["rsync", "-rlpt", "--chmod=D755,Fa=rX", "--files-from=-", "--from0", "--timeout=60"]
    command += [f"--link-dest={folder}" for folder in link_dest]
    if node.local:
        destination = f"{target}/"
    else:
        command += over_ssh(remote, node)
        destination = f"{openssh.for_rsync(node)}:{target}/"
    names = b"\0".join(os.fsencode(path) for path in paths)
    done = subprocess.run(
        [*command, f"{source}/", destination],
        input=names,
        env=environment(node),
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    if done.returncode:
        raise _failure(remote, node, done.returncode, done.stderr.decode("utf-8", "replace").strip())


class Fetch:
    """Fetches files of a node that a run owns. `so_far` gets all bytes so far now and then, from the fetching thread.

    `run`, `part`: whose they are, as `regatta_protocol.operations.outputs.AskSums` has it, for the gate of members.
    Nothing that the node sends leaves `target`, and only plain files are made there.
    """

    def __init__(
        self, remote: Remote, node: Node, so_far: Callable[[int], None], run: str = "", part: str | None = None
    ) -> None:
        self._remote, self._node, self._so_far = remote, node, so_far
        self._of = {"run": run, "part": part}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._stopped = threading.Lock(), False

    def run(self, source: str, paths: Sequence[str], target: Path, *, again: bool = False) -> None:
        """Bring `paths` below the node's folder `source` to the same paths below `target`, links as what they lead to.

        Files here of the same size and time are kept, unless all are to be fetched again; an interrupted transfer
        continues. Files that are gone are left out. RemoteError, DataError with rsync's own words.
        """
        if self._node.local and shutil.which("rsync") is None:
            _fetch_here(source, paths, target)
            return
        with tempfile.NamedTemporaryFile("w") as asked:
            if self._node.member:
                json.dump({**self._of, "paths": list(paths), **self._remote.place(self._node)}, asked)
                asked.flush()
            self._run(source, paths, target, again, asked.name)

    def _run(self, source: str, paths: Sequence[str], target: Path, again: bool, asked: str) -> None:
        names = "-" if not self._node.member else ":the gate's"
        command = ["rsync", "-tL", f"--files-from={names}", "--from0", "--no-implied-dirs"]
        command += ["--chmod=Du+rwx,Fu+rw,F-s"]
        command += [f"--partial-dir={PARTIAL}", "--info=progress2", "--no-human-readable", "--outbuf=L", "--timeout=60"]
        command += ["--ignore-times"] if again else []
        own = environment(self._node)
        if self._node.local:
            begin = f"{source}/"
        else:
            if self._node.member:
                command += ["-e", " ".join(map(_quote, sudo.own(self._remote.ssh(self._node)))), "--no-protect-args"]
                command.append(f"--rsync-path={shlex.join(['sudo', '-n', GATE, SEND])}")
                own = {**os.environ, sudo.OF_GATE: asked}
            else:
                owned = Path(source).parents[1 if self._of["part"] else 0]
                command += over_ssh(self._remote, self._node, [*AS_OWNER, str(owned)])
            begin = f"{openssh.for_rsync(self._node)}:{source}/"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command += [begin, f"{target}/"]
        with self._lock:
            if self._stopped:
                return
            process = subprocess.Popen(command, env=own, start_new_session=True, **pipes)  # type: ignore[call-overload]
            self._process = process
        said: list[bytes] = []
        others = [
            threading.Thread(target=_give, args=(process, b"\0".join(map(os.fsencode, paths)))),
            threading.Thread(target=lambda: said.append(process.stderr.read())),
        ]
        for one in others:
            one.start()
        for line in _parts(process.stdout):
            if found := _SO_FAR.match(line):
                self._so_far(int(found[1]))
        code = process.wait()
        for one in others:
            one.join()
        process.stdout.close()
        process.stderr.close()
        if code and code not in _GONE and not self._stopped:
            message = b"".join(said).decode("utf-8", "replace").strip()
            if "No space left" in message or "Disk quota" in message:
                raise DataError(f"the disk of this machine is full: {target}; free some space, then fetch again")
            raise _failure(self._remote, self._node, code, message)

    def stop(self) -> None:
        """End it from another thread; what has come of a file is kept for the next time."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _give(process: "subprocess.Popen[bytes]", names: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(names)
    with contextlib.suppress(OSError):
        process.stdin.close()


def _parts(stream: "IO[bytes]") -> Iterator[bytes]:
    """Yield what a program writes over with carriage returns, one after the other."""
    rest = b""
    while block := stream.read1(1 << 12):  # type: ignore[attr-defined]
        *parts, rest = (rest + block).replace(b"\n", b"\r").split(b"\r")
        yield from parts
    yield rest


def _fetch_here(source: str, paths: Sequence[str], target: Path) -> None:
    for path in paths:
        copy = target / path
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            part = copy.with_name(f"{copy.name[:100]}{PARTIAL}")
            shutil.copyfile(os.path.join(source, path), part)
            shutil.copystat(os.path.join(source, path), part)
            part.replace(copy)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(
                f"{error.filename} cannot be replaced ({error.strerror}): move it away and fetch again"
            ) from None


def _failure(remote: Remote, node: Node, code: int, message: str) -> RemoteError:
    if code == 255 or "Host key verification" in message or "Permission denied (" in message:
        return explain(node, 255, message, None if node.local else remote.config)
    if "rsync: command not found" in message or "rsync: not found" in message:
        return RemoteError(node.name, f"rsync is not installed there: run '{about_hosts('provision')}'")
    return RemoteError(node.name, f"rsync: {_first(message)}")


def over_ssh(remote: Remote, node: Node, program: Sequence[str] = ("rsync",)) -> list[str]:
    """Options of rsync to or from a node, where it is started as `program` by sudo; see also `environment`.

    A member's writes as the member, in the folder that the gate has made for it.
    """
    shell = " ".join(_quote(word) for word in sudo.through(node, remote.ssh(node)))
    there = "rsync" if node.member and program == ("rsync",) else remote.as_root(node, program)[0]
    return ["-e", shell, f"--rsync-path={there}", "--protect-args"]


def environment(node: Node) -> dict[str, str] | None:
    """The environment of such an rsync; None where it is ours."""
    return None if node.local else sudo.of_rsync(node)


def _copy(node: Node, source: Path, paths: Iterable[str], target: Path) -> None:
    try:
        for path in paths:
            copy = target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / path, copy, follow_symlinks=False)
            if not copy.is_symlink():
                copy.chmod(0o555 if copy.stat().st_mode & 0o111 else 0o444)
    except OSError as error:
        raise RemoteError(
            node.name, f"{error.filename} cannot be written here ({error.strerror}): name another folder"
        ) from None


def _quote(word: str) -> str:
    """Quote a word of rsync's `-e` option, which knows quotes but no backslashes."""
    if not any(char in word for char in " '\"\t"):
        return word
    return '"' + word.replace('"', '""') + '"' if "'" in word else f"'{word}'"


def _first(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if "No space left" in line or "failed:" in line or "error" in line]
    return (telling or lines or ["failed without a message"])[0]
