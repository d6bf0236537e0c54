import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regatta.errors import UsageError
from regatta.frameworks import plan, registry
from regatta.frameworks.ray import adapter as ray_adapter
from regatta.hosts.cluster import Cluster, Node
from regatta.options.declaration import RunOptions
from regatta.run import naming, placement
from regatta_protocol.decoding import encode


def node(number: int) -> Node:
    return Node(
        name=f"n{number}",
        host=f"10.0.0.{number}",
        cluster_address=f"10.0.0.{number}",
        local=False,
        port=None,
        user="ubuntu",
        key_file=None,
        ssh_args=(),
        root="/opt/regatta",
        state="/var/lib/regatta",
        python="/opt/regatta/env/bin/python",
    )


def made(workers: int, cores: dict[str, int], **changes: object) -> plan.Plan:
    nodes = [node(int(name[1:])) for name in cores]
    ranks = placement.spread(workers, nodes, cores)
    base = plan.Plan(
        run="r1",
        framework="torch",
        program=plan.Program.script("train.py", ["--epochs", "3 4", "$(x)"]),
        release="abc",
        ranks=ranks,
        threads=placement.threads(ranks, cores),
        launcher="env",
        master_port=29400,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def specs(chosen: plan.Plan, head: int = 1) -> dict[str, dict[str, Any]]:
    """Return what each node starts; its head is a node of that number."""
    nodes = tuple({other.name: other for other in (node(head), *chosen.nodes)}.values())
    found = registry.find(chosen.framework)
    found.check(chosen)
    made = found.specs(chosen, Cluster("three", Path(), nodes, chosen.nodes, node(head)))
    return {name: encode(spec) for name, spec in made.items()}


def places(workers: int, cores: dict[str, int]) -> list[str]:
    return [rank.node.name for rank in placement.spread(workers, [node(int(n[1:])) for n in cores], cores)]


def test_ranks_follow_cores() -> None:
    assert places(4, {"n1": 2, "n2": 2, "n3": 2}) == ["n1", "n1", "n2", "n3"]
    assert places(6, {"n1": 4, "n2": 2}) == ["n1"] * 4 + ["n2"] * 2
    assert places(1, {"n1": 2, "n2": 8}) == ["n2"]


@given(st.integers(1, 60), st.lists(st.integers(1, 64), min_size=1, max_size=9))
def test_every_rank_has_one_place(workers: int, cores: list[int]) -> None:
    known = {f"n{i}": c for i, c in enumerate(cores, 1)}
    ranks = placement.spread(workers, [node(i) for i in range(1, len(cores) + 1)], known)
    assert [rank.rank for rank in ranks] == list(range(workers))
    for name, own_cores in known.items():
        own = [rank for rank in ranks if rank.node.name == name]
        assert [rank.local for rank in own] == list(range(len(own)))
        for other, other_cores in known.items():
            there = sum(rank.node.name == other for rank in ranks)
            assert len(own) * other_cores <= (there + 1) * own_cores, "elsewhere a rank would have more of a core"


def test_zero_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        places(0, {"n1": 2})


def test_more_ranks_than_cores_are_allowed_and_said() -> None:
    cores = {"n1": 2, "n2": 2}
    ranks = placement.spread(6, [node(1), node(2)], cores)
    assert placement.threads(ranks, cores) == 1
    assert placement.crowded(ranks, cores) == [
        "n1 runs 3 ranks on 2 core(s): they take turns, which lengthens times",
        "n2 runs 3 ranks on 2 core(s): they take turns, which lengthens times",
    ]


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "../x", "a b", "x" * 61, "a;b"])
def test_names_that_cannot_be_runs(name: str) -> None:
    with pytest.raises(UsageError):
        naming.check_run_name(name)


def test_made_names_are_valid() -> None:
    assert naming.check_run_name(naming.new_run_name("ppr", "torch"))


def test_environment_of_a_torch_rank() -> None:
    spec = specs(made(3, {"n1": 4, "n2": 2}))["n2"]
    (rank,) = spec["ranks"]
    assert rank["argv"] == ["/opt/regatta/env/bin/python", "train.py", "--epochs", "3 4", "$(x)"]
    env = rank["env"]
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("2", "0", "3", "1")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.1", "29400")
    assert spec["env"]["REGATTA_RANK_MAP"] == '["10.0.0.1", "10.0.0.1", "10.0.0.2"]'
    assert spec["interface_variables"][0] == "GLOO_SOCKET_IFNAME"


def test_what_a_rayrun_script_gives_its_runtime_env_wins() -> None:
    cores = {"n1": 2, "n2": 2}
    every = ray_adapter.environment(made(2, cores), node(1))
    assert every["RAY_OVERRIDE_JOB_RUNTIME_ENV"] == "1"


def test_torch_and_ray_ranks_get_the_same_threads() -> None:
    torch = made(4, {"n1": 8, "n2": 8})
    ray = replace(torch, framework="ray")
    torch_env = specs(torch)["n1"]["env"]
    ray_env = ray_adapter.job_config(ray, node(1))["runtime_env"]["env_vars"]
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        assert torch_env[name] == ray_env[name] == "4"


def test_each_process_knows_its_framework() -> None:
    torch = made(4, {"n1": 8, "n2": 8})
    ray = replace(torch, framework="ray")
    assert specs(torch)["n1"]["env"]["REGATTA_FRAMEWORK"] == "torch"
    assert specs(replace(torch, framework="single"))["n2"]["env"]["REGATTA_FRAMEWORK"] == "single"
    assert specs(ray)["n1"]["env"]["REGATTA_FRAMEWORK"] == "ray"
    assert ray_adapter.job_config(ray, node(1))["runtime_env"]["env_vars"]["REGATTA_FRAMEWORK"] == "ray"


@pytest.mark.parametrize("launcher", ["static", "c10d"])
def test_torchrun_program(launcher: str) -> None:
    spec = specs(made(3, {"n1": 4, "n2": 2}, launcher=launcher))["n2"]
    (start,) = spec["ranks"]
    assert start["argv"][1:3] == ["-m", "torch.distributed.run"]
    assert "--nproc-per-node=1" in start["argv"]
    assert "--local-addr=10.0.0.2" in start["argv"]
    assert start["argv"][-4:] == ["train.py", "--epochs", "3 4", "$(x)"]


def test_only_c10d_starts_ranks_again() -> None:
    with pytest.raises(UsageError, match="--restarts needs --launcher c10d"):
        specs(made(1, {"n1": 1}, options=RunOptions(restarts=2)))
    (start,) = specs(made(1, {"n1": 1}, launcher="c10d", options=RunOptions(restarts=2)))["n1"]["ranks"]
    assert "--max-restarts=2" in start["argv"]


def test_unknown_launcher() -> None:
    with pytest.raises(UsageError, match="env, static, c10d"):
        specs(made(1, {"n1": 1}, launcher="mpi"))


def test_ray_driver_keeps_arguments_and_uploads_nothing() -> None:
    ray = made(2, {"n1": 2}, framework="ray")
    found = specs(replace(ray, ranks=(plan.Rank(0, 0, node(2)),)))
    (driver,) = found["n1"]["ranks"]
    assert driver["argv"][1:] == ["train.py", "--epochs", "3 4", "$(x)"]
    config = json.loads(found["n1"]["env"]["RAY_JOB_CONFIG_JSON_ENV_VAR"])
    assert "working_dir" not in config["runtime_env"] and config["metadata"]["regatta_run"] == "r1"
    assert (found["n1"]["mode"], found["n2"]["mode"], found["n2"]["ranks"]) == ("unit", "member", [])


@pytest.mark.parametrize(("name", "variable"), [("zeromq", "REGATTA_QUEUE"), ("dask", "REGATTA_SCHEDULER")])
def test_what_ranks_share_has_keys_of_the_run_which_no_spec_has(name: str, variable: str) -> None:
    chosen = made(3, {"n1": 2, "n2": 2}, framework=name)
    framework = registry.find(name)
    keys = framework.secrets(chosen)
    assert len({*keys.values(), *framework.secrets(chosen).values()}) == 4
    found = specs(chosen)
    assert not [key for key in keys.values() if key in repr(found)]
    ranks = [rank for name in ("n1", "n2") for rank in found[name]["ranks"]]
    assert [rank["env"]["RANK"] for rank in ranks] == ["0", "1", "2"]
    (place,) = {rank["env"][variable] for rank in ranks}
    assert place.partition(":")[2] == f"//10.0.0.1:{chosen.master_port}"


def test_ranks_of_mpi_are_started_by_their_nodes_with_a_token_which_no_spec_has() -> None:
    chosen = made(3, {"n1": 2, "n2": 1}, framework="mpi")
    (token,) = registry.find("mpi").secrets(chosen).values()
    found = specs(chosen)
    assert token not in repr(found) and token not in registry.find("mpi").secrets(chosen).values()
    first, _, last = [rank for name in ("n1", "n2") for rank in found[name]["ranks"]]
    assert first["argv"][1:3] == ["/var/lib/regatta/runs/r1/mpilaunch.py", "rank"]
    assert first["argv"][3:] == ["train.py", "--epochs", "3 4", "$(x)"]
    assert {rank["env"]["REGATTA_MPI_HOSTS"] for rank in (first, last)} == {"10.0.0.1:2,10.0.0.2:1"}
    assert last["env"]["REGATTA_MPI_PLACE"] == f"10.0.0.2:{chosen.master_port}"
    assert (last["env"]["RANK"], last["env"]["LOCAL_RANK"], last["env"]["LOCAL_WORLD_SIZE"]) == ("2", "0", "1")
    assert "def rank" in found["n2"]["files"]["mpilaunch.py"]
    assert found["n1"]["interface_variables"] == ["OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include"]
    own = replace(chosen, variables={"OMPI_MCA_pml": "ucx"})
    assert specs(own)["n1"]["env"]["OMPI_MCA_pml"] == "ucx", "a person's own word counts more"


def test_ranks_of_tensorflow_know_where_the_servers_of_all_are() -> None:
    chosen = made(3, {"n1": 2, "n2": 1}, framework="tensorflow", ports={"n1": (29401, 29407), "n2": (29401,)})
    found = specs(chosen)
    ranks = [rank for name in ("n1", "n2") for rank in found[name]["ranks"]]
    configs = [json.loads(rank["env"]["TF_CONFIG"]) for rank in ranks]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": index} for index in range(3)]
    (workers,) = {tuple(config["cluster"]["worker"]) for config in configs}
    assert workers == ("10.0.0.1:29401", "10.0.0.1:29407", "10.0.0.2:29401")
    assert [rank["env"]["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0"]
    assert plan.describe(chosen).ports == (29401, 29407)


def test_processes_of_one_host_have_a_driver_on_the_head() -> None:
    chosen = made(2, {"n1": 2}, framework="multiprocessing")
    (rank,) = specs(chosen)["n1"]["ranks"]
    assert rank["rank"] == -1


def test_a_program_of_items_brings_what_its_tree_lacks() -> None:
    own = plan.Program.of_items("squares", ["--chunk=2"], library=True)
    files = specs(replace(made(2, {"n1": 2}, framework="multiprocessing"), program=own))["n1"]["files"]
    assert "def spread" in files["boot/workloads/common/frameworks/multiprocessing.py"]
    ray = specs(replace(made(2, {"n1": 1, "n2": 1}, framework="ray"), program=own))
    assert all("boot/workloads/common/items/function.py" in ray[name]["files"] for name in ("n1", "n2"))
    ours = plan.Program.of_items("squares", [], library=False)
    other = specs(replace(made(2, {"n1": 2}, framework="multiprocessing"), program=ours))["n1"]["files"]
    assert not [path for path in other if "workloads" in path]
