"""GPUs by recorded facts (`gpus/`): what a node tells of them, and which a run's ranks get."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from test_plan import made, node, specs

from regatta.cards import discovery
from regatta.errors import UsageError
from regatta.experiments import job
from regatta.frameworks import registry
from regatta.frameworks.plan import Cards, Program
from regatta.frameworks.ray.adapter import environment
from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.node import gpus as of_node
from regatta.node import metrics, notes, releases, rundirs, runs
from regatta.node.problem import Problem
from regatta.options.declaration import RunOptions
from regatta.run import gpus, placement, recording
from regatta.run.session import Session
from regatta.tasks import services
from regatta.terminal import top
from regatta.terminal.console import Console
from regatta_protocol.operations.launch import Inspected
from regatta_protocol.run import Spec
from regatta_protocol.states import Mode

TRAINING = Program.module("workloads.digits", (), "digits")
FACTS = Path(__file__).parent / "gpus"
CUDA, CPU, PYPI = {"torch": "2.13.0+cu126"}, {"torch": "2.13.0+cpu"}, {"torch": "2.13.0", "nvidia-cuda-runtime": "13"}
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:01:00 UTC 2025\n"
OPEN_VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"


def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smi: str, loaded: str = VERSION) -> dict[str, Any]:
    """The report of a node on which the driver is loaded, and nvidia-smi is this script."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{smi}\n")
    program.chmod(0o755)
    (tmp_path / "version").write_text(loaded)
    monkeypatch.setattr(of_node, "LOADED", str(tmp_path / "version"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return of_node.look()


def metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smi: str) -> list[dict[str, Any]]:
    """The figures of a meter once its nvidia-smi, this script, has answered."""
    driver(tmp_path, monkeypatch, smi)
    meter = of_node.Meter(3600)
    assert meter.look() == []
    assert meter._reader
    meter._reader.join()
    return meter.look()


def cards(name: str, listed: str = "") -> list[dict[str, Any]]:
    return of_node.with_parts(of_node.parse((FACTS / f"{name}.xml").read_text()), listed)


def test_a_node_tells_cards_driver_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = driver(tmp_path, monkeypatch, f"cat {FACTS}/two.xml")
    assert told["driver"] == "580.65.06" and told["problem"] is None
    assert [(card["visible"], card["bytes"] >> 30) for card in told["cards"]] == [("0", 40), ("1", 40)]
    assert services._gpus_text(told) == "2 x NVIDIA A100-SXM4-40GB 40 GiB, driver 580.65.06"


def test_a_real_card_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = driver(tmp_path, monkeypatch, f"cat {FACTS}/h200.xml", OPEN_VERSION)
    assert services._gpus_text(told) == "NVIDIA H200 140 GiB, driver 580.159.04"


def test_a_node_without_the_driver_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_node, "LOADED", str(tmp_path / "none"))
    monkeypatch.setattr(of_node, "_smi", lambda *_: pytest.fail("nvidia-smi was started"))
    assert of_node.look() == {} and services._gpus_text({}) == "none"
    assert of_node.Meter(0).look() == []


@pytest.mark.parametrize(
    ("smi", "said"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "restart the host"),
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("echo '<nvidia_smi_log>'", "cannot be read"),
        ("echo; exit 9", "exit code 9"),
    ],
)
def test_a_driver_that_tells_of_no_cards_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smi: str, said: str
) -> None:
    told = driver(tmp_path, monkeypatch, smi)
    assert told["cards"] == [] and said in told["problem"]
    assert services._gpus_text(told).startswith("UNUSABLE")


ROWS = """\
0, GPU-97b9, NVIDIA H200, 25, 1024, 143771, 38, 80.69
1, GPU-0c11, NVIDIA GB10, [N/A], [N/A], [N/A], 41, [Not Supported]
a line of another kind
"""
"""As one NVIDIA H200 (driver 580.159.04) has printed it, but its uuid; and a card that shares the host's memory."""


def test_figures_of_cards_reach_prometheus_and_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Remote
) -> None:
    (tmp_path / "rows").write_text(ROWS)
    told = metered(tmp_path, monkeypatch, f"case $1 in --query-gpu=index,uuid,name,*) cat {tmp_path}/rows;; esac")
    said = metrics.exposition(metrics.of_gpus(told))
    labels = 'gpu="0",uuid="GPU-97b9",name="NVIDIA H200"'
    assert f"regatta_gpu_utilization_ratio{{{labels}}} 0.25\n" in said
    assert f"regatta_gpu_memory_used_bytes{{{labels}}} {float(1 << 30)!r}\n" in said
    assert f"regatta_gpu_power_watts{{{labels}}} 80.69\n" in said
    assert [line.partition("{")[0] for line in said.splitlines() if "GB10" in line] == [
        "regatta_gpu_temperature_celsius"
    ]
    head = remote.cluster.head
    seen = [top.Seen(head, {"gpus": told}), top.Seen(head, {}), top.Seen(head)]
    assert top.gpu_rows(seen, 0)[1:] == [
        (head.name, "0", "25 %", "1 % of 150.8 GB", "38 °C", "81 W", "NVIDIA H200"),
        (head.name, "1", "-", "-", "41 °C", "-", "NVIDIA GB10"),
    ]


def test_a_driver_that_fails_or_hangs_has_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert metered(tmp_path, monkeypatch, "echo 'No devices were found'; exit 6") == []
    driver(tmp_path, monkeypatch, f"while [ -e {tmp_path}/go ]; do sleep 0.01; done")
    (tmp_path / "go").touch()
    meter = of_node.Meter(0)
    assert meter.look() == []
    reader = meter._reader
    assert meter.look() == [] and meter._reader is reader, "one at a time is asked"
    (tmp_path / "go").unlink()
    assert reader
    reader.join()


def test_figures_that_are_old_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch, "echo 0, GPU-97b9, NVIDIA H200, 25, 1024, 143771, 38, 80.69")
    meter = of_node.Meter(3600)
    meter._take()
    assert meter.look() != []
    monkeypatch.setattr(of_node, "STALE_SECONDS", 0.0)
    assert meter.look() == []


def test_memory_that_a_card_shares_with_its_host_is_not_known() -> None:
    (card,) = cards("unified")
    assert card["bytes"] is None and card["name"] == "NVIDIA GB10"
    told = {"driver": "580.95.05", "cards": [card], "problem": None}
    assert services._gpus_text(told) == "NVIDIA GB10, driver 580.95.05"


def test_parts_of_a_card_are_told_by_their_uuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = f"if [ $1 = -L ]; then cat {FACTS}/mig.list; else cat {FACTS}/mig.xml; fi"
    told = driver(tmp_path, monkeypatch, smi)
    assert [card["visible"][:4] for card in told["cards"]] == ["MIG-", "MIG-", "1"]
    assert [card["bytes"] >> 20 for card in told["cards"]] == [4864, 4864, 40960]


def test_a_record_names_the_cards_of_a_node() -> None:
    told = {"driver": "580.65.06", "cards": cards("mixed"), "problem": None}
    facts = recording._node_facts("n1", "10.0.0.1", {0: "n1"}, {"gpus": told}, ())
    assert facts.gpu_driver == "580.65.06"
    assert [(gpu.name, gpu.bytes) for gpu in facts.gpus] == [
        ("NVIDIA GeForce RTX 3090", 24 << 30),
        ("NVIDIA GeForce GT 1030", 2 << 30),
    ]
    assert recording._node_facts("n1", "10.0.0.1", {}, {}, ()).gpus == ()


JOURNAL = """\
NVRM: Xid (PCI:0000:01:00): 48, pid=1311, name=python, Double Bit ECC Error
NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
NVRM: Xid (PCI:0000:41:00): 31, pid=2077, name=python, Ch 00000008, intr 00000000. MMU Fault
"""


@pytest.mark.parametrize(
    ("journal", "said"),
    [
        (JOURNAL, "Xid 79 of PCI:0000:41:00, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        (JOURNAL.splitlines()[2], None),
        ("NVRM: Xid (PCI:0000:41:00): 119\n", "Xid 119 of PCI:0000:41:00"),
        ("-- No entries --\n", None),
        ("", None),
    ],
)
def test_an_error_of_a_card_is_told_and_one_of_a_program_is_not(journal: str, said: str | None) -> None:
    assert of_node.last_error(journal) == said


def test_a_node_reads_its_journal_since_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal").write_text(JOURNAL)
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *--boot*'NVRM: Xid'*) cat {tmp_path}/journal ;; esac\n")
    program.chmod(0o755)
    told = driver(tmp_path, monkeypatch, f"cat {FACTS}/two.xml")
    assert "fallen off the bus" in told["sick"] and "SICK: Xid 79" in services._gpus_text(told)


def test_a_host_with_a_sick_gpu_gets_no_ranks_under_any_framework() -> None:
    nodes = (node(1), node(2))
    sick = {"driver": "580.65.06", "cards": cards("two"), "problem": None, "sick": "Xid 79 of PCI:0000:41:00"}
    answers = {"n1": Inspected(facts={"cores": 8, "gpus": sick}), "n2": Inspected(facts={"cores": 8, "gpus": {}})}
    cluster = Cluster("lab", Path(), nodes, nodes, nodes[0])
    for name in ("torch", "mpi"):
        framework = registry.find(name)
        well, (line,) = gpus.well(framework, cluster, answers)
        assert well == {"n2"} and "n1 gets no ranks: Xid 79" in line
        ranks = placement.placed(framework, 4, cluster, dict.fromkeys(well, 8))
        assert {rank.node.name for rank in ranks} == {"n2"}
    with pytest.raises(UsageError, match="n1 gets no ranks"):
        gpus.well(registry.find("single"), cluster, answers)


def choose(
    *found: list[dict[str, Any]],
    packages: dict[str, str] = CUDA,
    taken: tuple[str, ...] = (),
    framework: str = "torch",
    program: Program = TRAINING,
    **options: Any,
) -> gpus.Choice:
    """The choice of a run on nodes with these cards."""
    nodes = tuple(node(number) for number in range(1, len(found) + 1))
    told = [{"driver": "580.65.06", "cards": own, "problem": None} if own else {} for own in found]
    answers = {
        one.name: Inspected(facts={"cores": 8, "gpus": said}, gpus_taken=taken)
        for one, said in zip(nodes, told, strict=True)
    }
    cluster = Cluster("lab", Path(), nodes, nodes, nodes[0])
    return gpus.choose(registry.find(framework), program, RunOptions(**options), cluster, answers, packages)


def places(choice: gpus.Choice) -> list[str]:
    assert choice.ranks is not None
    return [rank.node.name for rank in choice.ranks]


def test_ranks_are_one_a_gpu_and_see_only_those() -> None:
    choice = choose(cards("two"), [], cards("unified"))
    assert places(choice) == ["n1", "n1", "n3"]
    assert choice.cards["n1"].visible == ("0", "1") and choice.cards["n3"].visible == ("0",)
    assert "one GPU a rank: 2 on n1 (NVIDIA A100-SXM4-40GB)" in choice.lines[0] and "differ" in choice.lines[1]
    assert places(choose(cards("two"), cards("two"), workers=3)) == ["n1", "n1", "n2"]
    assert places(choose(cards("two"), packages=PYPI)) == ["n1", "n1"]


def test_without_gpus_or_cuda_cores_decide_and_a_line_says_why() -> None:
    assert choose([], []) == gpus.Choice()
    choice = choose(cards("two"), packages=CPU)
    assert choice.ranks is None and choice.cards == {}
    assert "2 GPU(s)" in choice.lines[0] and "2.13.0+cpu has no CUDA" in choice.lines[0]
    more = choose(cards("two"), workers=5)
    assert more.ranks is None and "share GPUs" in more.lines[0]


def test_gpus_of_other_runs_are_never_given_again() -> None:
    first, second = (card["uuid"] for card in cards("two"))
    choice = choose(cards("two"), taken=(first,))
    assert choice.cards["n1"].uuids == (second,) and choice.cards["n1"].visible == ("1",)
    with pytest.raises(UsageError, match="2 belong to other runs"):
        choose(cards("two"), taken=(first, second))
    with pytest.raises(UsageError, match=r"2 rank\(s\) of 1 GPU\(s\) do not fit: 1 of 2"):
        choose(cards("two"), taken=(first,), workers=2)


def test_a_training_under_ray_has_as_many_ranks_and_gpus_as_under_torch() -> None:
    first, second = (card["uuid"] for card in cards("two"))
    ray, torch = choose(cards("two"), [], framework="ray"), choose(cards("two"), [])
    assert ray == torch and places(ray) == ["n1", "n1"]
    one = choose(cards("two"), framework="ray", workers=1)
    assert one.cards["n1"].uuids == (first, second), "Ray chooses among all cards of a host"
    with pytest.raises(UsageError, match="belong to other runs"):
        choose(cards("two"), framework="ray", taken=(first,))
    listed = (FACTS / "mig.list").read_text()
    parts = choose(cards("mig", listed), framework="ray")
    assert parts.ranks is None and parts.cards == {"n1": Cards()} and "no rank a part of a card" in parts.lines[0]
    for each, made_of in (("1", Cards(("0", "1"), (first, second))), ("0", Cards())):
        plan = made(2, {"n1": 2}, framework="ray", cards={"n1": made_of})
        assert environment(plan, plan.nodes[0])["REGATTA_RANK_GPUS"] == each
    assert recording._backend(registry.find("ray"), plan) == "ray"


@pytest.mark.parametrize("framework", ["torch", "ray"])
def test_what_computes_on_processors_has_a_rank_a_core(framework: str) -> None:
    pagerank = Program.module("workloads.ppr", (), "ppr")
    assert choose(cards("two"), framework=framework, program=replace(pagerank, gpus=False)) == gpus.Choice()
    with pytest.raises(UsageError, match=f"--gpus 1: ppr uses none under {framework}; --gpus 0"):
        choose(cards("two"), framework=framework, program=replace(pagerank, gpus=False), gpus=1)
    assert choose(cards("two"), framework="ray", program=Program.script("a.py", ())) == gpus.Choice()


class Told(Remote):
    """Two hosts of eight cores each; the second one has two cards."""

    def everywhere(self, nodes: Any, asked: Any, **_: Any) -> dict[str, Any]:
        found = {"n1": {}, "n2": {"driver": "580.65.06", "cards": cards("two"), "problem": None}}
        taken = tuple(card["uuid"] for card in cards("two"))
        return {
            one.name: Inspected(facts={"cores": 8, "gpus": found[one.name]}, packages=CUDA, gpus_taken=taken)
            for one in nodes
        }


def test_programs_that_are_compared_have_as_many_ranks_as_there_are_gpus(tmp_path: Path) -> None:
    nodes = (node(1), node(2))
    cluster = Cluster("lab", tmp_path, nodes, nodes, nodes[0])
    with Session(cluster, Console(io.StringIO(), io.StringIO()), tmp_path, Told(cluster)) as session:
        every = dict.fromkeys(("single", "torch", "ray", "spark"), TRAINING)
        assert session.ranks(every, RunOptions()) == (2, True)
        assert session.ranks(every, RunOptions(gpus=0)) == (16, False)
        assert session.ranks(dict.fromkeys(every, replace(TRAINING, gpus=False)), RunOptions()) == (16, False)


def test_a_single_process_has_one_gpu_of_the_head() -> None:
    choice = choose(cards("two"), framework="single", workers=4)
    assert places(choice) == ["n1"] and choice.cards["n1"].visible == ("0",)
    assert choose([], cards("two"), framework="single") == gpus.Choice(), "the head has none"


def test_a_card_says_whether_its_ranks_compute_on_gpus() -> None:
    ours = discovery.ours()
    assert job._program(ours["digits"], "ray", ()).gpus and not job._program(ours["ppr"], "torch", ()).gpus
    own = structs.replace(ours["ppr"], own=True)
    assert job._program(own, "torch", ()).gpus, "a person's program may compute on them, whatever its card says"


def test_several_gpus_a_rank() -> None:
    choice = choose(cards("two"), cards("two"), gpus=2)
    assert places(choice) == ["n1", "n2"] and "2 GPUs a rank" in choice.lines[0]
    four = [{**card, "visible": str(number), "uuid": f"GPU-{number}"} for number, card in enumerate(cards("two") * 2)]
    own = choose(four, gpus=2).cards["n1"]
    assert own.visible == ("0", "2", "1", "3") and (own.of(0), own.of(1)) == ((0, 2), (1, 3))
    with pytest.raises(UsageError, match=r"4 of 4 GPU.*one host"):
        choose(cards("two"), cards("two"), gpus=3)


@pytest.mark.parametrize(
    ("found", "options", "packages", "said"),
    [
        ("two", {"gpus": 1}, CPU, "no CUDA"),
        (None, {"gpus": 1}, CUDA, "no host of this run has a GPU"),
        ("mig", {"gpus": 2}, CUDA, "only one part"),
    ],
)
def test_gpus_that_a_run_cannot_have_are_refused(
    found: str | None, options: dict[str, int], packages: dict[str, str], said: str
) -> None:
    listed = (FACTS / "mig.list").read_text()
    with pytest.raises(UsageError, match=said):
        choose(cards(found, listed) if found else [], packages=packages, **options)


def test_no_gpus_by_wish() -> None:
    choice = choose(cards("two"), [], gpus=0)
    assert choice.ranks is None and choice.cards == {"n1": Cards()}
    plan = made(2, {"n1": 2}, cards={"n1": Cards()})
    assert specs(plan)["n1"]["env"]["CUDA_VISIBLE_DEVICES"] == "" and specs(plan)["n1"]["gpus"] == []


def test_local_rank_is_the_number_of_a_ranks_own_gpu() -> None:
    own = Cards(("1", "3"), ("GPU-1", "GPU-3"))
    spec = specs(made(2, {"n1": 2}, cards={"n1": own}))["n1"]
    assert spec["env"]["CUDA_VISIBLE_DEVICES"] == "1,3" and spec["env"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert [one["env"]["REGATTA_GPUS"] for one in spec["ranks"]] == ["0", "1"] and spec["gpus"] == ["GPU-1", "GPU-3"]
    parts = Cards(("MIG-a", "MIG-b"), ("MIG-a", "MIG-b"))
    spec = specs(made(2, {"n1": 2}, cards={"n1": parts}))["n1"]
    assert [one["env"]["CUDA_VISIBLE_DEVICES"] for one in spec["ranks"]] == ["MIG-a", "MIG-b"]
    plain = specs(made(2, {"n1": 2}))["n1"]
    assert "CUDA_VISIBLE_DEVICES" not in plain["env"]
    mine = made(1, {"n1": 2}, cards={"n1": own}, variables={"CUDA_VISIBLE_DEVICES": "7"})
    assert specs(mine)["n1"]["env"]["CUDA_VISIBLE_DEVICES"] == "7"


def test_a_record_names_the_protocol_of_gpus() -> None:
    torch = registry.find("torch")
    on_gpus = made(1, {"n1": 2}, cards={"n1": Cards(("0",), ("GPU-0",))})
    assert recording._backend(torch, on_gpus) == "nccl"
    assert recording._backend(torch, made(1, {"n1": 2}, cards={"n1": Cards()})) == "gloo"


def test_a_node_refuses_a_gpu_that_another_run_has(tmp_path: Path) -> None:
    place = {"state": str(tmp_path), "root": str(tmp_path), "python": "/x/bin/python", "cluster_address": "127.0.0.1"}
    (tmp_path / "runs/first").mkdir(parents=True)
    Path(releases.folder(place, "abc")).mkdir(parents=True)
    first = Spec(id="first", mode=Mode.SESSION, framework="torch", release="abc", gpus=("GPU-1",))
    with notes.starting(place, "first", first, None):
        assert json.loads(Path(notes.path(place, "first")).read_text())["gpus"] == ["GPU-1"]
        assert rundirs.unfinished(place)["gpus"] == ["GPU-1"]
        with pytest.raises(Problem, match="same GPUs"):
            runs._claim(place, first.changed(id="second"), rundirs.path(place, "second"))
        runs._claim(place, first.changed(id="second", gpus=("GPU-2",)), rundirs.path(place, "second"))
