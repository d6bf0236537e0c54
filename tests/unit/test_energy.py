"""What a run took of energy, and what it cost."""

import time
from pathlib import Path

import kept
import pytest
from msgspec import structs

from regatta.errors import InventoryError
from regatta.hosts import limits
from regatta.hosts.remote import Remote
from regatta.node import energy
from regatta.records.record import Beside, Record
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
