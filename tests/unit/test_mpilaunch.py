"""The start of MPI's ranks in the units of their nodes: who may ask for OpenMPI's daemon there, and gets what."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regatta.paths import PROJECT

PROGRAM = PROJECT / "regatta/frameworks/mpi/run/mpilaunch.py"
DAEMON = '#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\nexit 3\n'
ASKED = [
    "PRTE_PREFIX=/elsewhere;export PRTE_PREFIX;LD_LIBRARY_PATH=/elsewhere/lib:$LD_LIBRARY_PATH;/elsewhere/bin/prted",
    "--prtemca",
    "ess",
    '"env"',
    "--prtemca",
    "prte_hnp_uri",
    '"prterun-a-1@0.0;tcp://10.0.0.1:29500:24"',
    "--tree-spawn",
]


def port() -> int:
    """A free one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """The variables of the first rank of a node that is not that of rank 0, with a daemon that notes its arguments."""
    programs, scratch = tmp_path / "bin", tmp_path / "scratch"
    programs.mkdir()
    scratch.mkdir()
    for name in ("prted", "mpirun"):
        (programs / name).write_text(DAEMON.format(asked=tmp_path / "asked"))
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RANK": "1",
        "LOCAL_RANK": "0",
        "REGATTA_SCRATCH": str(scratch),
        "REGATTA_PG_TIMEOUT": "60",
        "REGATTA_MPI_TOKEN": "right",
        "REGATTA_MPI_PLACE": f"127.0.0.1:{port()}",
        "REGATTA_MPI_PORTS": "29500-29899",
    }


def begun(node: dict[str, str], *words: str, **more: str) -> "subprocess.Popen[str]":
    """The program with the variables of a node."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *words],
        env={**node, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_only_the_run_itself_starts_the_daemon_of_a_node(node: dict[str, str], tmp_path: Path) -> None:
    rank = begun(node, "rank", "program.py")
    try:
        wrong = begun(node, "agent", "127.0.0.1", *ASKED, REGATTA_MPI_TOKEN="wrong")
        said = wrong.communicate(timeout=60)[0]
        assert wrong.returncode == 1 and "does not know the run's token" in said
        place = ("127.0.0.1", int(node["REGATTA_MPI_PLACE"].split(":")[1]))
        for said_wrongly in (b"prted\n", "\u00e9 prted\n".encode(), b"\xff\x00 \xfe\n", b"\n"):
            with socket.create_connection(place) as stranger:
                stranger.sendall(said_wrongly)
                assert stranger.makefile("rb").read().count(b"\n") == 1, "a challenge, and nothing after it"
        assert rank.poll() is None
        assert not (tmp_path / "asked").exists()
        right = begun(node, "agent", "127.0.0.1", *ASKED)
        right.communicate(timeout=60)
        assert right.returncode == 3, "the exit code is the daemon's"
    finally:
        os.killpg(rank.pid, 9)
        rank.communicate()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["--prtemca", "ess", "env", "--prtemca", "prte_hnp_uri", ASKED[6].strip('"'), "--tree-spawn"]


def test_a_rank_that_openmpi_does_not_start_gives_up(node: dict[str, str]) -> None:
    rank = begun(node, "rank", "program.py", REGATTA_PG_TIMEOUT="1", LOCAL_RANK="1")
    said = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1 and "has not started rank 1 within 1 s" in said


def test_mpirun_that_fails_fails_its_rank(node: dict[str, str]) -> None:
    more = {"RANK": "0", "WORLD_SIZE": "2", "REGATTA_MPI_HOSTS": "127.0.0.1:2"}
    rank = begun(node, "rank", "program.py", **more)
    try:
        assert rank.wait(60) == 1
    finally:
        os.killpg(rank.pid, 9)
    assert "OpenMPI's process here has ended" in rank.communicate()[0]


def test_a_rank_that_has_ended_well_does_so_whatever_ends_its_daemon(node: dict[str, str], tmp_path: Path) -> None:
    """Where `mpirun` is gone before `prted` has ended by itself, the parent of both ends that one."""
    (tmp_path / "packages/mpi4py").mkdir(parents=True)
    (tmp_path / "packages/mpi4py/__init__.py").touch()
    (tmp_path / "packages/mpi4py/run.py").write_text("def run_command_line(program): print('works')\n")
    daemon = f"trap 'exit 1' TERM; {sys.executable} {PROGRAM} stand-in; touch {tmp_path}/ended; sleep 600 & wait"
    (tmp_path / "bin/prted").write_text(f"#!/bin/sh\n{daemon}\n")
    more = {"PYTHONPATH": str(tmp_path / "packages"), "OMPI_COMM_WORLD_RANK": "1"}
    rank = begun(node, "rank", "program.py", **more)
    agent = begun(node, "agent", "127.0.0.1", *ASKED)
    try:
        while not (tmp_path / "ended").exists():
            for one in (rank, agent):
                assert one.poll() is None, one.communicate()[0]
            time.sleep(0.05)
        agent.kill()
        said = rank.communicate(timeout=60)[0]
    finally:
        for one in (rank, agent):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 9)
            one.communicate()
    assert (rank.returncode, said) == (0, "works\n")
