"""A run is what the node has noted of it: its own files make it neither ended, nor lost, nor another one's trouble."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import open_folder, state

from regatta.node import contention, launch, listing, notes, pruning, releases, rundirs, runs, supervisor
from regatta.node.problem import Problem
from regatta_protocol.decoding import decode, encode
from regatta_protocol.run import Ended, Spec
from regatta_protocol.states import Mode, State

RUN = "evil"
FORGED = {"state": "succeeded", "code": 0, "failure": None, "codes": {}, "started": 1.0, "ended": 5.0, "oom_kills": 0}
__all__ = ["open_folder"]


def spec(fields: dict[str, Any]) -> Spec:
    return decode(Spec, {"id": RUN, "framework": "torch", "release": "ab12", **fields})


@pytest.fixture
def place(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict]:
    """A node on which the run's unit is there, as its systemd would say it."""
    units = open_folder / "invocation:"
    monkeypatch.setattr(rundirs, "STARTED", str(units))
    found = state(open_folder, RUN) | ({} if os.geteuid() == 0 else {"user": None})
    plan = {"label": "x", "master_port": 29400}
    with notes.starting(
        found, RUN, spec({"mode": "unit", "framework": "torch", "release": "ab12", "plan": plan}), None
    ):
        pass
    Path(f"{units}{rundirs.unit(RUN)}").touch()
    yield found


def folder(place: dict) -> Path:
    return Path(place["state"], "runs", RUN)


def gone(place: dict, how: str) -> None:
    """As systemd does when the unit ends."""
    os.system(f"SERVICE_RESULT={how} {notes.at_end(place, RUN, 'true')}")
    Path(f"{rundirs.STARTED}{rundirs.unit(RUN)}").unlink()


def test_a_run_that_writes_its_own_end_is_running_while_its_unit_is(place: dict) -> None:
    (folder(place) / "exit.json").write_text(json.dumps(FORGED))
    (folder(place) / "spec.json").write_text(json.dumps({"mode": "member", "framework": "y", "started": 9e9}))
    (item,) = listing.runs(place)
    assert (item.state, item.ended, item.code, item.idle) == ("running", None, None, None)
    assert item.spec.framework == "torch" and item.age < 60
    assert pruning.prune(place, [RUN], 1e9).going == (RUN,) and folder(place).is_dir()
    said = rundirs.unfinished(place)
    assert (said["going"], said["ports"], said["releases"]) == ([RUN], [29400], ["ab12"])
    with notes.starting(place, "honest", spec({"mode": "member"}), None):
        (folder(place).parent / "honest").mkdir()
        assert contention.of_run(place, "honest").runs == (RUN,)


def test_a_run_has_succeeded_only_where_its_unit_has_and_its_times_are_the_units(place: dict) -> None:
    (folder(place) / "exit.json").write_text(json.dumps({**FORGED, "ended": -1.7e9}))
    gone(place, "timeout")
    (item,) = listing.runs(place)
    assert item.state == "failed" and item.ended and item.started <= item.ended <= time.time()
    ended = rundirs.ended(place, RUN)
    assert ended and ended.failure and ended.failure.cause and "timeout" in ended.failure.cause


def test_a_run_that_was_stopped_has_not_succeeded(place: dict) -> None:
    (folder(place) / "exit.json").write_text(json.dumps(FORGED))
    notes.mark_ended(place, RUN, stopped=True)
    gone(place, "exit-code")
    assert listing.runs(place)[0].state == "stopped"


def test_the_folder_of_a_run_elsewhere_is_in_use_until_root_has_finished_it(place: dict) -> None:
    with notes.starting(
        place, "part", spec({"mode": "member", "release": "cd34", "framework": "ray", "plan": {}}), None
    ):
        made = folder(place).parent / "part"
        made.mkdir()
    (made / "exit.json").write_text(json.dumps(FORGED))
    assert rundirs.unfinished(place)["releases"] == ["ab12", "cd34"]
    notes.mark_ended(place, "part")
    assert rundirs.unfinished(place)["releases"] == ["ab12"]


def test_what_a_driver_has_joined_is_known_of_an_earlier_regattas_runs_too(place: dict) -> None:
    joined = {"service": "ray", "gcs": "10.0.0.1:6379", "python": "/p"}
    with notes.starting(place, "now", spec({"mode": "unit", "framework": "ray-pool", "service": "ray"}), joined):
        pass
    path = Path(notes.path(place, "before"))
    path.write_text(json.dumps({"mode": "unit", "ray": {"gcs": "10.0.0.1:6379", "python": "/p"}}))
    assert notes.joined(notes.read(place, "now")) == notes.joined(notes.read(place, "before")) == joined
    assert notes.joined(notes.read(place, RUN)) is None


def test_a_run_that_starts_is_not_lost(place: dict) -> None:
    gone(place, "success")
    with notes.starting(place, RUN, spec({"mode": "unit", "framework": "torch", "plan": {}}), None):
        assert rundirs.state(place, RUN) == "running"
        assert listing.runs(place)[0].state == "running"
    assert rundirs.state(place, RUN) == "lost"


def test_a_run_that_is_as_it_was_noted_ends_with_its_folder(place: dict) -> None:
    gone(place, "success")
    assert pruning.prune(place, [RUN], 1e9).runs == (RUN,)
    assert list(folder(place).parent.iterdir()) == []


def test_what_runs_have_made_of_their_specs_costs_the_others_little(place: dict) -> None:
    """Of nine runs without a note, as an earlier Regatta has left them."""
    for number in range(9):
        made = folder(place).parent / f"big-{number}"
        made.mkdir()
        (made / "spec.json").write_text(json.dumps({"framework": "torch", "plan": {"x": "y" * 7_700_000}}))
        os.utime(made, (1.0, 1.0))
    found = listing.answer(place)
    assert len(found.runs) == 10 and len(json.dumps(encode(found))) < 20_000
    assert len(json.dumps(encode(launch.inspect(place, facts_wanted=False, ports=(29400, 29500))))) < 5_000


@pytest.mark.parametrize("value", ["x", [1], None, {"a": 1}, True, 1e400])
@pytest.mark.parametrize("name", ["oom_kills", "network", "daemons", "hits", "temporary", "time_limit"])
def test_the_end_of_a_run_is_written_whatever_it_made_of_its_spec(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"framework": "torch", name: value}))
    supervisor.write_exit(str(tmp_path), Ended(State.LOST))
    assert json.loads((tmp_path / "exit.json").read_text())["state"] == "lost"


def test_what_systemd_ended_at_the_time_limit_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run had stopped its supervisor, which therefore ended nothing."""
    (tmp_path / "spec.json").write_text('{"time_limit": 4}')
    monkeypatch.setenv("SERVICE_RESULT", "timeout")
    supervisor.post(str(tmp_path))
    said = json.loads((tmp_path / "exit.json").read_text())
    assert said["code"] == 124 and "time limit of 4 s" in said["failure"]["cause"]


def test_who_waits_for_a_node_is_told_for_whom(place: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "LOCK_SECONDS", 0.1)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with releases.lock({**place, "by": "ann@laptop"}):
            held.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    try:
        with pytest.raises(Problem, match=r"ann@laptop \(for \d+ s\)"), releases.lock(place):
            pass
    finally:
        leave.set()
        holder.join()


def test_a_name_that_is_taken_keeps_its_note(place: dict) -> None:
    (Path(place["root"]) / "releases/ab12").mkdir()
    before = notes.read(place, RUN)
    with pytest.raises(Problem, match="exists already"):
        runs.start(place, Spec(RUN, Mode.MEMBER, "ray", "ab12"))
    assert notes.read(place, RUN) == before
