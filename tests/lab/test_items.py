"""Items on three hosts: the same answer under every framework of items, and nothing left of what is cancelled."""

import json
import re
import secrets
import shutil
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, record, wait_for

from regatta.paths import PROJECT

pytestmark = pytest.mark.lab

MPI = """
import os, sys, time
from mpi4py import MPI

comm = MPI.COMM_WORLD
print("rank", comm.rank, "of", comm.allreduce(1), "works", flush=True)
if sys.argv[1:] == ["--how=killed"] and comm.rank == comm.size - 1:
    os.kill(os.getpid(), 9)
if sys.argv[1:] == ["--how=raises"] and comm.rank == comm.size - 1:
    raise ValueError("the last rank")
if sys.argv[1:]:
    comm.recv()
"""
MPI_CARD = """
[workloads.solve]
about = "A program of MPI"
command = "solve.py"
frameworks = ["mpi"]
[workloads.solve.options.how]
"""
SESSION = secrets.token_hex(2)
IN_RAY = ("ray", "ray-actors", "ray-pool", "joblib-ray")
WHOLE = ("ray", "mpi")
EVERY = ("single", "multiprocessing", "processes", "joblib-loky", *IN_RAY)


@pytest.mark.whole
def test_perfect_numbers_under_every_framework_with_equal_answers(cluster: Cluster, tmp_path: Path) -> None:
    words = [f"--framework={','.join(EVERY)}", "--below=3000", "--chunk=20", "--workers=3"]
    said = cluster.fab("run-perfect", *words, results=tmp_path).stdout
    assert f"answers of {len(EVERY)} runs are equal" in said
    used = set()
    for name in IN_RAY:
        found = record(tmp_path, f"perfect-{name}-")
        assert found["answer"] == {"below": 3000, "perfect": [6, 28, 496]}
        used |= {rank["node"] for rank in found["ranks"] if rank["rank"] >= 0 and rank["cpu_seconds"] is not None}
    assert len(used) > 1, "one of these runs may be done by the host that is ready first, not all of them by the same"
    assert {rank["node"] for rank in record(tmp_path, "perfect-multiprocessing-")["ranks"]} == {"node1"}


@pytest.mark.parametrize(
    "name", ["multiprocessing", "ray-pool", *(pytest.param(one, marks=pytest.mark.whole) for one in WHOLE)]
)
def test_a_cancelled_run_leaves_nothing(cluster: Cluster, name: str) -> None:
    run = f"cubes-{name}-{SESSION}"
    process = cluster.fab_background("run-cube", "--edge=3000", f"--framework={name}", "--workers=3", f"--name={run}")
    read_until(process, run)
    wait_for(lambda: "items" in cluster.fab("logs", run, check=False).stdout, 240)
    cluster.fab("cancel", run)
    finish(process)
    assert process.returncode == 143
    wait_for(lambda: cluster.nothing_runs(run))


@pytest.mark.whole
@pytest.mark.parametrize("name", ["ray-pool", "joblib-ray"])
def test_a_pool_of_ray_stays_on_the_nodes_of_the_run(cluster: Cluster, tmp_path: Path, name: str) -> None:
    for nodes in ("node1", "node1,node3"):
        words = [f"--framework={name}", f"--nodes={nodes}", "--below=1000", "--chunk=20", "--workers=2"]
        cluster.fab("run-perfect", *words, results=tmp_path)
        ranks = record(tmp_path, f"perfect-{name}-")["ranks"]
        assert {rank["node"] for rank in ranks if rank["cpu_seconds"] is not None} <= {*nodes.split(",")}


def test_a_function_of_a_project_over_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "map"
    shutil.copytree(PROJECT / "examples/map", folder)
    said = cluster.regatta(folder, "run", "primes", "--framework=single,ray,ray-actors", "--workers=3").stdout
    assert "answers of 3 runs are equal" in said
    files = [path for path in (tmp_path / "results").glob("**/results.jsonl") if "ray-actors" in str(path)]
    (first, *_, last) = files[0].read_text().splitlines()
    assert json.loads(first) == {"item": 10000, "result": 1229} and json.loads(last)["item"] == 59000


@pytest.mark.whole
def test_items_over_ranks_of_mpi(cluster: Cluster, tmp_path: Path) -> None:
    words = ["--framework=single,mpi", "--below=3000", "--chunk=20", "--workers=4"]
    assert "answers of 2 runs are equal" in cluster.fab("run-perfect", *words, results=tmp_path).stdout
    found = record(tmp_path, "perfect-mpi-")
    assert {rank["node"] for rank in found["ranks"] if rank["cpu_seconds"]} == {"node1", "node2", "node3"}
    assert found["ranks"][0]["progress"]


@pytest.mark.whole
def test_a_program_of_mpi_over_three_hosts(cluster: Cluster, tmp_path: Path) -> None:
    """Ranks print and end as under any framework; nothing is left of OpenMPI."""
    folder = tmp_path / "solve"
    folder.mkdir()
    (folder / "solve.py").write_text(MPI)
    (folder / "regatta.toml").write_text(MPI_CARD)
    run = f"solve-{SESSION}"
    cluster.regatta(folder, "run", "solve", "--workers=5", f"--name={run}")
    log = cluster.fab("logs", run).stdout
    assert {int(rank) for rank in re.findall(r"rank (\d) of 5 works", log)} == {*range(5)}
    killed = cluster.regatta(folder, "run", "solve", "--workers=3", "--how=killed", f"--name={run}-k", check=False)
    assert "rank 2 on node3" in killed.stdout and "SIGKILL" in killed.stdout, killed.stdout
    raised = cluster.regatta(folder, "run", "solve", "--workers=3", "--how=raises", f"--name={run}-r", check=False)
    assert "rank 2 on node3: exited with code 1" in raised.stdout, raised.stdout
    late = cluster.regatta(folder, "run", "solve", "--how=hangs", "--time-limit=8", f"--name={run}-t", check=False)
    assert "time limit of 8 s" in late.stdout, late.stdout
    for name in (run, f"{run}-k", f"{run}-r", f"{run}-t"):
        wait_for(lambda name=name: cluster.nothing_runs(name))
    assert not cluster.lab.ssh("node2", "ls /dev/shm /tmp | grep -iE 'ompi|pmix|sm_segment' || true").stdout.strip()


@pytest.mark.whole  # brings a renderer of 225 MB to three hosts
def test_a_film_is_the_same_under_all_frameworks_and_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    words = [
        "--framework=single,multiprocessing,ray,ray-actors",
        "--frames=6",
        "--width=64",
        "--height=48",
        "--samples=4",
    ]
    said = cluster.fab("run-render", *words, "--workers=3", "--fetch=*.gif,*.mp4", results=tmp_path).stdout
    assert "answers of 4 runs are equal" in said
    found = record(tmp_path, "render-ray-actors-")
    assert found["answer"]["files"] == ["film.gif", "film.mp4"]
    assert len({rank["node"] for rank in found["ranks"] if rank["rank"] >= 0 and rank["cpu_seconds"]}) > 1
    films = [path.name for path in tmp_path.glob("**/film.*") if "ray-actors" in str(path)]
    assert sorted(films) == ["film.gif", "film.mp4"]


@pytest.mark.whole  # the same, and 14 units of time
def test_the_film_of_words(cluster: Cluster, tmp_path: Path) -> None:
    words = ["--framework=single,multiprocessing,ray", "--seconds=0.5", "--workers=4"]
    assert "answers of 3 runs are equal" in cluster.fab("run-render-words", *words, results=tmp_path).stdout


@pytest.mark.whole  # each trial's process of Ray takes seconds to start; and it brings optuna
def test_a_search_over_three_hosts(cluster: Cluster, tmp_path: Path) -> None:
    """Equal metrics wherever a trial has run; the table and what the best trial has kept come back."""
    words = ["--workers=3", "--epochs=2", "--size=300", "--fetch=trials.jsonl,best*"]
    frameworks = "--framework=single,multiprocessing,ray-tune"
    said = cluster.fab("run-tune", frameworks, "--trials=6", *words, results=tmp_path).stdout
    assert "answers of 3 runs are equal" in said
    tables = [*tmp_path.glob("**/trials.jsonl")]
    (tuned,) = [path for path in tables if "ray-tune" in str(path)]
    rows = [json.loads(line) for line in tuned.read_text().splitlines()]
    assert len(tables) == 3 and len(rows) == 6 and len({row["host"] for row in rows}) > 1
    assert all((path.parent / "best" / "state.pt").is_file() for path in tables)
    for kind in ("pbt", "optuna"):
        more = ["--framework=ray-tune", f"--search={kind}", "--trials=3", f"--name={kind}-{SESSION}"]
        cluster.fab("run-tune", *words, *more, results=tmp_path)
        assert record(tmp_path, f"{kind}-{SESSION}")["answer"]["trials"] == 3
        assert len([*(tmp_path / f"{kind}-{SESSION}").glob("**/best/state.pt")]) == 1
