"""`python -m benchmarks.fleet`: sync, status, run and cancel over a hundred hosts, one of which dies in the end.

The hosts are a lab's own, bare but for rsync, a user for runs and its folders, so that their ranks are plain Python.
"""

import argparse
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import labs, rows, shell
from benchmarks.figures import sync_command, sync_library
from benchmarks.rows import Row, within
from benchmarks.shell import BenchError
from benchmarks.trees import Tree
from lab.handle import read_lab
from regatta.hosts import inventories
from regatta.hosts.remote import Remote

PROGRAMS = Path(sys.executable).parent
SYNC_TARGET, STATUS_TARGET, START_TARGET, MEMORY_TARGET = 12.0, 6.0, 20.0, 400e6
ONE, TWO = "a command with its SSH", "two commands, a run that is followed and its cancel"
RANK = "hello.py"
WAITING = "wait.py"
_SCRIPTS = {
    RANK: """import json, os, time
print("@regatta", json.dumps({"event": "ready", "rank": int(os.environ["RANK"]), "t": time.time()}), flush=True)
""",
    WAITING: "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n",
}
_ACCOUNT = (
    "useradd --system --home-dir /var/lib/regatta --no-create-home --shell /usr/sbin/nologin regatta && "
    "cd /var/lib && install -d -g regatta -m 750 regatta regatta/runs && install -d -o regatta -g regatta regatta/home"
)


class Bench:
    """Measures on one lab; `peaks`: bytes of all our commands with their SSH, most so far, by how many there are."""

    def __init__(self, inventory: Path, root: Path, repeats: int) -> None:
        self.inventory, self.repeats, self.peaks = inventory, repeats, {ONE: 0, TWO: 0}
        self.tree = Tree.make(root / "tree", 500)
        for name, text in _SCRIPTS.items():
            (self.tree.root / name).write_text(text)
        self.results = {"REGATTA_RESULTS": str(root / "results")}
        self.nodes = len(inventories.load(str(inventory)).nodes)

    def sync(self) -> list[Row]:
        """The whole tree, one line, nothing."""
        first = self._timed("sync", "--path", str(self.tree.root))
        library, command, same = [], [], []
        for _ in range(self.repeats):
            self.tree.edit()
            library.append(sync_library(self.inventory, self.tree.root, changed=self.nodes))
            self.tree.edit()
            command.append(sync_command(self.inventory, self.tree.root, self.nodes, changed=True))
            same.append(sync_command(self.inventory, self.tree.root, self.nodes, changed=False))
        return [
            Row(self._text("500 files, by rsync"), [first.seconds], (), "-", True),
            within(self._text("sync of one changed line, in the library"), library, SYNC_TARGET),
            within(self._text("the same as a command, `fab sync`"), command, SYNC_TARGET),
            Row(self._text("`fab sync`, nothing changed"), same, (), "-", True),
        ]

    def status(self) -> list[Row]:
        """`fab status`, with SSH connections open and with none."""
        cold, warm = [], []
        for _ in range(self.repeats):
            Remote(inventories.load(str(self.inventory))).close()
            cold.append(self._status())
            warm.append(self._status())
        return [
            within(self._text("`fab status`"), warm, STATUS_TARGET),
            Row(self._text("`fab status`, no SSH connection open yet"), cold, (), "-", True),
        ]

    def run(self) -> list[Row]:
        """A rank on each host: until all have started, and until all is over; and a run that is cancelled."""
        started, whole, cancelled = [], [], []
        for _ in range(self.repeats):
            name = f"fleet-{secrets.token_hex(3)}"
            whole.append(self._torchrun(RANK, name).seconds)
            path = Path(self.results["REGATTA_RESULTS"]) / f"{name}.json"
            record = json.loads(path.read_text())
            if record["exit"]["state"] != "succeeded" or len(record["cluster"]["rank_map"]) != self.nodes:
                raise BenchError(f"{name}: not {self.nodes} ranks that succeeded")
            started.append(record["phases"]["sync"] + record["phases"]["launch"])
        for _ in range(self.repeats):
            cancelled.append(self._cancelled(f"fleet-{secrets.token_hex(3)}"))
        return [
            within(self._text("a run of as many ranks: sync and launch"), started, START_TARGET),
            Row(self._text("the same, as a person waits"), whole, (), "-", True),
            Row(self._text("`fab cancel` of such a run"), cancelled, (), "-", True),
        ]

    def dead(self) -> list[Row]:
        """One host loses power: the others are reported, and it is named."""
        lab = read_lab(self.inventory.name)
        victim = lab.nodes[-1]
        lab.off(victim)
        try:
            done = self._timed("status", check=False)
        finally:
            lab.on(victim)
        if not any(victim in line and "answer" in line for line in done.output.splitlines()):
            raise BenchError(f"`fab status` does not name {victim}:\n{shell.last_lines(done.output)}")
        return [Row(self._text("`fab status`, one host without power"), [done.seconds], (), "-", True)]

    def memory(self) -> list[Row]:
        """The most that commands and their SSH have had."""
        one, two = (self._text(f"{what}, most memory: {most / 1e6:.0f} MB") for what, most in self.peaks.items())
        return [
            Row(one, [], (), f"{MEMORY_TARGET / 1e6:.0f} MB", self.peaks[ONE] <= MEMORY_TARGET),
            Row(two, [], (), "-", True),
        ]

    def _status(self) -> float:
        done = self._timed("status", check=False)  # it ends with 1: there is no Ray
        if done.output.count("not provisioned") != self.nodes:
            raise BenchError(f"`fab status` does not show {self.nodes} nodes:\n{shell.last_lines(done.output)}")
        return done.seconds

    def _torchrun(self, script: str, name: str) -> shell.Done:
        words = ["torchrun", "--workers", str(self.nodes), "--name", name, "--inventory", str(self.inventory), script]
        with self._watched():
            return shell.run([PROGRAMS / "regatta", *words], cwd=self.tree.root, env=self.results)

    def _cancelled(self, name: str) -> float:
        words = ["torchrun", "--workers", str(self.nodes), "--name", name, "--inventory", str(self.inventory), WAITING]
        with subprocess.Popen(
            [str(PROGRAMS / "regatta"), *words],
            cwd=self.tree.root,
            env={**os.environ, **self.results},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            try:
                waiting = 0
                for line in process.stdout:
                    waiting += "waiting" in line
                    if waiting == self.nodes:
                        break
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return self._timed("cancel", name, commands=TWO).seconds
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)

    def _timed(self, *words: str, check: bool = True, commands: str = ONE) -> shell.Done:
        with self._watched(commands):
            command: list[str | Path] = [PROGRAMS / "fab", *words, "--inventory", self.inventory]
            return shell.run(command, env=self.results, check=check)

    @contextlib.contextmanager
    def _watched(self, commands: str = ONE) -> Iterator[None]:
        """Look at the memory of our children, ten times a second."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.1):
                self.peaks[commands] = max(self.peaks[commands], memory_of_children(str(self.inventory)))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _text(self, what: str) -> str:
        return f"{self.nodes} hosts: {what}"


def memory_of_children(mark: str) -> int:
    """Bytes of the processes that have `mark` in their command, or are kept SSH connections; shared pages in shares."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            if mark.encode() in command or command.startswith(b"ssh: "):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if Path(f"/proc/{parent}/cmdline").read_bytes() == command:
                    continue  # a child that is about to become another program: its memory is its parent's
                text = (folder / "smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


def prepare(inventory: Path) -> None:
    """Install what a bare host lacks to receive a release and run plain Python."""
    chosen = inventories.load(str(inventory))
    labs.give_rsync(chosen)
    remote = Remote(chosen)
    _done, failed = remote.gather(chosen.nodes, lambda node: labs.as_root(remote, node, _ACCOUNT))
    if failed:
        raise BenchError("; ".join(f"{name}: {error}" for name, error in failed.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description="A hundred hosts.")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="status,sync,run,dead,memory")
    given = parser.parse_args(arguments)
    shell.interruptible()
    taken: list[Row] = []
    code = 0
    try:
        began = time.monotonic()
        with (
            labs.lab("bench-fleet", given.nodes) as inventory,
            tempfile.TemporaryDirectory(prefix="regatta-bench-", dir="/var/tmp") as folder,
        ):
            taken.append(Row(f"a lab of {given.nodes} hosts", [time.monotonic() - began], (), "-", True))
            (inventory / "group_vars").mkdir(exist_ok=True)
            (inventory / "group_vars" / "all.yml").write_text("regatta_python: /usr/bin/python3\n")
            prepare(inventory)
            bench = Bench(inventory, Path(folder), given.repeats)
            for name in given.only.split(","):
                taken += getattr(bench, name)()
                print(f"bench: {name} done, {time.monotonic() - began:.0f} s so far", file=sys.stderr, flush=True)
    except (BenchError, OSError) as error:
        print(f"fleet FAILED: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("bench: interrupted, nothing was written", file=sys.stderr)
        return 130
    rows.publish("fleet", taken)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
