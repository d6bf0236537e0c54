"""Spark's own share by its event log: a real one, whole, cut off, in other forms; and of a run here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from regatta_protocol.log import PREFIX
from workloads.common.spark import eventlog, overhead
from workloads.common.spark.eventlog import EventLog, Unreadable
from workloads.common.spark.overhead import Driver, Seen

FOLDER = Path(__file__).with_name("eventlogs")
APPLICATION = "app-20261125023742-0000"
DRIVER = Driver(1795574191.7, 1795574283.5, 1795574468.9, 1795574473.7)


def log(folder: Path) -> EventLog:
    return EventLog(f"file://{folder}", APPLICATION, DRIVER.asked, DRIVER.ready)


def text() -> bytes:
    (packed,) = FOLDER.glob("*/events_1*")
    return bytes(pyarrow.CompressedInputStream(pyarrow.OSFile(str(packed)), "zstd").read())


def test_a_real_log_is_read_as_spark_writes_it() -> None:
    told = log(FOLDER).account(DRIVER)
    assert (told["whole"], told["jobs"], told["stages"], told["tasks"], told["failed"]) == (True, 2, 2, 100, 0)
    assert sum(told["wall"].values()) == pytest.approx(DRIVER.gone - DRIVER.asked, abs=0.01)
    ends = [one for one in map(json.loads, text().splitlines()) if one["Event"] == "SparkListenerTaskEnd"]
    spans = [one["Task Info"]["Finish Time"] - one["Task Info"]["Launch Time"] for one in ends]
    assert sum(told["work"].values()) == pytest.approx(sum(spans) / 1000, abs=0.01)
    running = sum(one["Task Metrics"]["Executor Run Time"] for one in ends) / 1000
    assert told["work"]["running"] == pytest.approx(running, abs=0.01)
    assert 0 < told["work"]["deserialising"] < running
    assert min(told["wall"].values()) >= 0 and told["wall"]["tasks"] > 0


@pytest.mark.parametrize("name", [APPLICATION, f"{APPLICATION}.inprogress", f"{APPLICATION}.zstd"])
def test_a_log_in_one_file(name: str, tmp_path: Path) -> None:
    (packed,) = FOLDER.glob("*/events_1*")
    (tmp_path / name).write_bytes(packed.read_bytes() if name.endswith(".zstd") else text())
    told = log(tmp_path).account(DRIVER)
    assert told["tasks"] == 100 and told["whole"] is not name.endswith(".inprogress")


def test_a_log_in_several_files(tmp_path: Path) -> None:
    rolled = tmp_path / f"eventlog_v2_{APPLICATION}"
    rolled.mkdir()
    lines = text().splitlines(keepends=True)
    for number, first in enumerate(range(0, len(lines), 12), 1):
        (rolled / f"events_{number}_{APPLICATION}").write_bytes(b"".join(lines[first : first + 12]))
    (rolled / f".events_1_{APPLICATION}.crc").write_bytes(b"crc")
    assert len([*rolled.glob("events_*")]) > 10
    assert log(tmp_path).account(DRIVER) == log(FOLDER).account(DRIVER)
    (rolled / f"events_1_{APPLICATION}").unlink()
    assert log(tmp_path).account(DRIVER)["whole"] is False


@pytest.mark.parametrize("packed", [True, False])
def test_of_a_log_that_is_cut_off_what_is_there_counts(packed: bool, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.glob("*/events_1*")
    if packed:
        file.write_bytes(file.read_bytes()[:-700])
    else:
        file.unlink()
        file.with_name(f"events_1_{APPLICATION}").write_bytes(text()[:90_000])
    told = log(tmp_path).account(DRIVER)
    assert told["whole"] is False and (packed or 0 < told["tasks"] < 100)
    assert sum(told["wall"].values()) == pytest.approx(DRIVER.gone - DRIVER.asked, abs=0.01)


def test_no_more_is_read_than_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "MOST_BYTES", 60_000)
    monkeypatch.setattr(eventlog, "_CHUNK_BYTES", 10_000)
    told = log(FOLDER).account(DRIVER)
    assert told["whole"] is False and 0 < told["tasks"] < 100


def test_what_cannot_be_read_fails_no_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unreadable, match=f"no event log of {APPLICATION}"):
        log(tmp_path).account(DRIVER)
    (tmp_path / f"{APPLICATION}.lz4").write_bytes(b"x")
    with pytest.raises(Unreadable, match=r"compressed by lz4: leave spark\.eventLog\.compression\.codec"):
        log(tmp_path).account(DRIVER)
    (tmp_path / APPLICATION).write_text('{"Event":"SparkListenerTaskEnd"}\n')
    log(tmp_path).tell(DRIVER.leaving)
    EventLog(None, APPLICATION, 0.0, 0.0).tell(0.0)
    (line,) = capfd.readouterr().out.splitlines()
    said = json.loads(line.removeprefix(PREFIX))
    assert said["event"] == "warning" and "is no event log (KeyError" in said["message"]


def task(began: float, ended: float, *, failed: bool = False, **metrics: float) -> bytes:
    info = {"Launch Time": 1000 * began, "Finish Time": 1000 * ended, "Getting Result Time": 0, "Failed": failed}
    event = {"Event": "SparkListenerTaskEnd", "Task Info": info, "Task Metrics": metrics}
    return json.dumps(event, separators=(",", ":")).encode()


def event(name: str, **fields: Any) -> bytes:
    told = {name.replace("_", " "): value for name, value in fields.items()}
    return json.dumps({"Event": f"SparkListener{name}", **told}, separators=(",", ":")).encode()


def test_the_driver_s_time_is_shared_out() -> None:
    seen = Seen()
    seen.take(
        [
            event("ApplicationStart", Timestamp=13_000),
            event("ExecutorAdded", Timestamp=21_000),
            event("JobStart", Job_ID=0, Submission_Time=20_500),
            task(
                22,
                24,
                **{"Executor Run Time": 1500, "Executor Deserialize Time": 200, "Result Serialization Time": 100},
            ),
            task(23, 26, failed=True),
            event("JobEnd", Job_ID=0, Completion_Time=27_000),
            event("ExecutorAdded", Timestamp=29_500),
            event("JobStart", Job_ID=1, Submission_Time=30_000),
            task(30, 30.5),
        ]
    )
    told = seen.account(Driver(10, 20, 32, 33), whole=True)
    assert told["wall"] == {
        "JVM start": 3,
        "session": 7,
        "executors": 1,
        "scheduling": 1 + 1 + 1.5,
        "tasks": 4 + 0.5,
        "program": 3,
        "stop": 1,
    }
    assert (told["jobs"], told["tasks"], told["failed"], told["whole"]) == (2, 3, 1, False)
    assert told["work"] == {
        "scheduling": 0.2,
        "deserialising": 0.2,
        "running": 1.5,
        "serialising results": 0.1,
        "fetching": 0.0,
    }


def test_time_is_covered_once() -> None:
    assert overhead.covered([(0, 2), (1, 3), (5, 9), (6, 7)], 0.5, 8) == 2.5 + 3
    assert overhead.covered([], 0, 1) == 0
