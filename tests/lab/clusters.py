"""A provisioned lab, used as a person uses it: through `fab`, `regatta` and what `make` calls."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typed_json

from lab.handle import LabHandle
from lab.model import PROJECT

BIN = Path(sys.executable).parent
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Cluster:
    """A lab and the commands that work on it; all output in one text, errors included."""

    lab: LabHandle

    def environment(self, results: Path | None = None) -> dict[str, str]:
        """The environment of a person whose inventory this lab is."""
        env = os.environ | {"REGATTA_INVENTORY": str(self.lab.inventory), "CONFIRM": "yes"}
        env["PATH"] = f"{BIN}:{env['PATH']}"
        return env | ({"REGATTA_RESULTS": str(results)} if results else {})

    def make(self, word: str, *words: str, check: bool = True) -> Done:
        """`python -m regatta.provisioning.commands WORD`, what `make WORD` calls."""
        command = ["env", "REGATTA_TYPED=make", "python", "-m", "regatta.provisioning.commands", word, *words]
        return self._run(command, PROJECT, None, check)

    def fab(self, *words: str, results: Path | None = None, check: bool = True) -> Done:
        """`fab WORDS` in the checkout."""
        return self._run(["fab", *words], PROJECT, results, check)

    def regatta(self, folder: Path, *words: str, check: bool = True) -> Done:
        """`regatta WORDS` in a folder of the user's own."""
        return self._run(["regatta", *words], folder, folder.parent / "results", check)

    def background(self, folder: Path, *words: str) -> "subprocess.Popen[str]":
        """`regatta WORDS` in the background, in its own process group."""
        return self._begin(["regatta", *words], folder, folder.parent / "results")

    def fab_background(self, *words: str, results: Path | None = None) -> "subprocess.Popen[str]":
        """`fab WORDS` in the checkout, likewise."""
        return self._begin(["fab", *words], PROJECT, results)

    def _begin(self, command: list[str], folder: Path, results: Path | None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=folder,
            env=self.environment(results),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _run(self, command: list[str], folder: Path, results: Path | None, check: bool) -> Done:
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environment(results),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done

    def processes(self, node: str, mark: str) -> list[str]:
        """Processes of a node whose environment contains a mark (a run's id)."""
        command = f"sudo sh -c 'grep -lzxF {mark} /proc/[0-9]*/environ 2>/dev/null'"
        return self.lab.ssh(node, command, check=False).stdout.split()

    def nothing_runs(self, run: str) -> bool:
        """Whether no node has a process or a unit of a run."""
        for node in self.lab.nodes:
            units = self.lab.ssh(node, f"systemctl list-units --all --plain --no-legend 'regatta-run-{run}*'").stdout
            if units.strip() or self.processes(node, f"REGATTA_RUN_ID={run}"):
                return False
        return True


def known(cluster: Cluster, folder: Path, *words: str) -> list[dict[str, Any]]:
    """Runs as `regatta runs --json` has them, the latest last; lines before that are about others."""
    said = cluster.regatta(folder, "runs", "--json", *words).stdout
    return [vars(one) for one in typed_json.read("runs", said[said.index("{\n") :]).runs]


def latest(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """The latest run."""
    return known(cluster, folder)[-1]


def own_package(folder: Path, name: str, script: str) -> Path:
    """A project whose own package `plums` 1.5 is below `src/`, with a script."""
    (folder / "src/plums").mkdir(parents=True)
    (folder / "src/plums/__init__.py").touch()
    build = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    (folder / "pyproject.toml").write_text(f'[project]\nname = "plums"\nversion = "1.5"\n{build}')
    (folder / name).write_text(script)
    return folder


def traffic(lab: LabHandle, node: str, way: str) -> int:
    """Bytes that have come to a host (`rx`) or gone (`tx`) by its first interface: a private head's outer one."""
    return int(lab.ssh(node, f"cat /sys/class/net/host0/statistics/{way}_bytes").stdout)


def sums(lab: LabHandle, path: str) -> set[str]:
    """SHA-256 of a file as every node has it."""
    return {lab.ssh(node, f"sudo sha256sum {path}").stdout.split()[0] for node in lab.nodes}


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Output of a background command up to and including the first line that contains a text."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"'{text}' never came:\n{seen}")


def finish(process: "subprocess.Popen[str]", seconds: float = 90) -> str:
    """The rest of a background command's output; its exit code is then in `returncode`."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"still running after {seconds} s:\n{process.communicate()[0]}") from None


def wait_for(condition: Any, seconds: float = 30) -> None:
    """Wait until a condition holds; an assertion fails where it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.2)


def record(results: Path, beginning: str) -> dict[str, Any]:
    """The newest record whose run id begins so."""
    found = sorted(results.glob(f"{beginning}*.json"), key=lambda path: path.stat().st_mtime)
    assert found, f"no record {beginning}* in {results}"
    return dict(json.loads(found[-1].read_text()))
