"""What a run took of energy, and what it cost."""

import shutil
import subprocess
import time
from pathlib import Path

import kept
import pytest
from msgspec import structs

from regatta.errors import InventoryError
from regatta.hosts import limits
from regatta.hosts.remote import Remote
from regatta.node import energy, gpus
from regatta.records.record import Beside, Gpu, Record
from regatta.report import show, tables
from regatta.report.cases import cases
from regatta.report.summary import summarise
from regatta_protocol.operations.runs import AskContention


def zone(root: Path, folder: str, name: str, microjoules: int, most: int = 262_143_328_850) -> None:
    (root / folder).mkdir(exist_ok=True)
    for file, text in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", most)):
        (root / folder / file).write_text(f"{text}\n")


def test_packages_and_memory_add_up_and_parts_of_them_do_not(tmp_path: Path) -> None:
    zones = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "psys"}
    for folder, name in zones.items():
        zone(tmp_path, folder, name, 5_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    before = energy.counters(str(tmp_path))
    assert set(before) == {"intel-rapl:0", "intel-rapl:0:1", "at"}
    for folder, name in zones.items():
        zone(tmp_path, folder, name, 7_500_000)
    assert energy.joules(before, str(tmp_path)) == 5.0


def test_a_counter_that_began_again_is_read_once_and_not_twice(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 99_999_999_000, most=99_999_999_999)
    before = energy.counters(str(tmp_path))
    zone(tmp_path, "intel-rapl:0", "package-0", 1_999_000, most=99_999_999_999)
    assert energy.joules(before, str(tmp_path)) == 2.0
    assert energy.joules({**before, "at": time.monotonic() - 101}, str(tmp_path)) is None


def test_a_host_that_shows_none_is_not_measured(tmp_path: Path) -> None:
    assert energy.counters(str(tmp_path / "none")) == {}
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("damaged")
    assert energy.counters(str(tmp_path)) == {}
    assert energy.joules({"intel-rapl:0": 1.0, "at": 0.0}, str(tmp_path)) is None


NVML = """
#include <stdio.h>
#include <string.h>
static int read_from(const char *name, unsigned index, unsigned long long *value) {
    char path[4096]; snprintf(path, sizeof path, "%s/%s%u", FOLDER, name, index);
    FILE *file = fopen(path, "r"); if (!file) return 3;
    int good = fscanf(file, "%llu", value) == 1; fclose(file); return good ? 0 : 3;
}
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) { *card = (void *)(unsigned long)(index + 1); return 0; }
int nvmlDeviceGetUUID(void *card, char *uuid, unsigned length) {
    return snprintf(uuid, length, "GPU-%lu", (unsigned long)card) >= (int)length;
}
int nvmlDeviceGetTotalEnergyConsumption(void *card, unsigned long long *energy) {
    return read_from("card", (unsigned)(unsigned long)card, energy);
}
"""
"""The functions of NVIDIA's library that are asked, for two cards whose counters are files."""


def test_cards_have_counters_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler is here that makes a library")
    (tmp_path / "nvml.c").write_text(f'#define FOLDER "{tmp_path}"\n{NVML}')
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "nvml.so", tmp_path / "nvml.c"], check=True)
    (tmp_path / "version").touch()
    monkeypatch.setattr(gpus, "LOADED", str(tmp_path / "version"))
    monkeypatch.setattr(energy, "LIBRARY", str(tmp_path / "nvml.so"))
    none = str(tmp_path / "none")
    assert energy.counters(none) == {}, "not one of two"
    for card in (1, 2):
        (tmp_path / f"card{card}").write_text(f"{card}000")
    before = energy.counters(none)
    assert set(before) == {"gpu:GPU-1", "gpu:GPU-2", "at"} and before["gpu:GPU-2"] == 2_000_000
    assert energy.joules(before, none) is None, "processors show nothing"
    (tmp_path / "card1").write_text("1500")
    (tmp_path / "card2").write_text("4000")
    assert energy.of_cards(before) == 2.5
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    both = energy.counters(str(tmp_path))
    zone(tmp_path, "intel-rapl:0", "package-0", 3_000_000)
    assert energy.joules(both, str(tmp_path)) == 3.0 and energy.of_cards(both) == 0.0
    (tmp_path / "card1").write_text("7")
    assert energy.of_cards(both) is None, "its driver was loaded again"
    monkeypatch.setattr(energy, "LIBRARY", none)
    assert energy.of_cards(both) is None and set(energy.counters(str(tmp_path))) == {"intel-rapl:0", "at"}


def test_energy_of_gpus_is_that_of_all_nodes_that_have_some() -> None:
    run = priced(1234.0, None)
    assert run.gpu_joules is None and "energy      1,334 J\n" in "\n".join(show.lines(run))
    node = run.cluster.nodes[0]
    cards = structs.replace(node, gpus=(Gpu("NVIDIA H200"),))
    with_card = structs.replace(
        run, cluster=structs.replace(run.cluster, nodes=(cards, structs.replace(node, name="x")))
    )
    assert "energy      1,334 J; GPUs not measured" in "\n".join(show.lines(with_card))
    told = tuple(structs.replace(place, gpu_joules=5e4) for place in run.beside if place.node == node.name)
    with_card = structs.replace(with_card, beside=(*told, *run.beside[len(told) :]))
    assert "energy      1,334 J; GPUs 50,000 J" in "\n".join(show.lines(with_card))
    (table,) = tables.use(summarise(cases([with_card])))
    assert table.rows[0][-2] == "1,334 J; GPUs 50,000 J"


def test_a_node_is_asked_with_its_counters(remote: Remote) -> None:
    said = remote.call(remote.cluster.head, AskContention("gone", None, {"intel-rapl:77": 1.0, "at": 0.0}))
    assert said.joules is None


def priced(joules: float | None, price: float | None) -> Record:
    run = kept.measured(kept.one("stars", "torch"))
    nodes = (Beside("localhost", (), None, 100.0), Beside("node2", (), None, joules))
    return structs.replace(run, beside=nodes, cluster=structs.replace(run.cluster, price_per_hour=price))


def test_cost_and_energy_are_shown() -> None:
    run = priced(1234.0, 7.2)
    assert run.phases.total is not None
    text = "\n".join(show.lines(run))
    assert "energy      1,334 J" in text and f"cost        {run.phases.total / 500:.3g} at 7.2 an hour" in text
    (table,) = tables.use(summarise(cases([run])))
    assert table.columns[-2:] == ("energy", "cost") and table.rows[0][-2:] == (
        "1,334 J",
        f"{run.phases.total / 500:.3g}",
    )
    silent = priced(None, None)
    assert silent.joules is None and silent.cost is None, "one node of two has not told"
    assert "energy      not measured" in (text := "\n".join(show.lines(silent))) and "cost" not in text
    (table,) = tables.use(summarise(cases([silent])))
    assert table.rows[0][-2:] == ("not measured", "–")


def test_the_price_of_a_host() -> None:
    assert limits.price("here", {}) is None and limits.price("here", {"price_per_hour": "0.35"}) == 0.35
    for wrong in (-1, "much", True, float("nan")):
        with pytest.raises(InventoryError, match=r"here: price_per_hour is .* must be a number from 0"):
            limits.price("here", {"price_per_hour": wrong})
