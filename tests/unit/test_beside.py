"""Runs that are timed while others are on their nodes: reported, recorded, marked, and left out of verdicts."""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import kept
from msgspec import structs

from regatta import paths
from regatta.frameworks import plan
from regatta.hosts.remote import Remote
from regatta.node import contention
from regatta.options.declaration import RunOptions
from regatta.records import compare
from regatta.records.record import Beside, Record, Series
from regatta.records.store import Store
from regatta.report import show, tables
from regatta.report.cases import cases
from regatta.report.summary import summarise
from regatta.run import catalogue
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.terminal import comparison
from regatta.terminal.console import Console

SCRIPT = """\
import os, sys, time
print("begun", flush=True)
end = time.monotonic() + 60
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.05)
"""


class Heard(Console):
    """A console that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said.append(text)


def test_both_of_two_runs_on_one_node_are_marked(remote: Remote, source: Path, tmp_path: Path) -> None:
    (source / "train.py").write_text(SCRIPT)
    sign = tmp_path / "sign"

    def request(name: str, *args: str) -> Request:
        options = RunOptions(1, name, now=name == "second")
        return Request(plan.Program.script("train.py", args), "torch", source, options)

    with Heard() as console, Session(remote.cluster, console, paths.results_dir()) as session:
        alone = session.run(request("alone"))
        with Session(remote.cluster, Heard(), paths.results_dir()) as other:
            first = threading.Thread(target=other.run, args=(request("first", str(sign)),))
            first.start()
            end = time.monotonic() + 60
            while not any(info.run == "first" for info in catalogue.listing(remote)[0]):
                assert time.monotonic() < end
                time.sleep(0.05)
            assert not [text for text in console.said if "first" in text]
            second = session.run(request("second"))
            sign.touch()
            first.join()
        after = session.run(request("after"))
    assert any("first" in text for text in console.said), "the line comes before the run starts"
    assert (alone.others, second.others, after.others) == ((), ("first",), ())
    found = Store(paths.results_dir()).find("first")
    assert found.others == ("second",)
    assert [place.node for place in second.beside] == ["here"]
    assert any("first" in line for line in show.lines(second))


def test_what_others_use_is_measured(remote: Remote, tmp_path: Path) -> None:
    place = remote.place(remote.cluster.head)
    folder = Path(place["state"]) / "runs/r1"
    folder.mkdir(parents=True)
    spin = "import time\nprint(flush=True)\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    before = contention.strangers()
    (folder / "spec.json").write_text(f'{{"started": {time.time()}, "mode": "member"}}')
    with subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout and busy.stdout.readline() and busy.stdout.readline()
        began = float((folder / "spec.json").read_text().split()[1].rstrip(","))
        said = contention.of_run(place, "r1", before)
        assert said.runs == ()
        assert said.load is not None and said.load >= 0.4 / (time.time() - began)
        busy.kill()
    assert contention.of_run(place, "r1").load is None


def beside(record: Record, run_id: str, *, times: float = 1.0, series: Series | None = None) -> Record:
    made = kept.again(record, run_id, times=times, series=series)
    return structs.replace(made, beside=(Beside("localhost", ("somebodys",), 0.5),))


def series_of(record: Record, disturbed: Sequence[int], factor: float) -> list[Record]:
    found = []
    for index in range(1, 8):
        series = Series("s", index, 7)
        make = beside if index in disturbed else kept.again
        found.append(make(record, f"{record.identity.framework}-{index}", times=factor, series=series))
    return found


def test_disturbed_runs_are_left_out_of_verdicts_and_their_number_is_said() -> None:
    torch = series_of(kept.one("stars", "torch"), [], 1.0)
    ray = series_of(kept.one("stars", "ray"), [2, 5], 1.0)
    wrong = [structs.replace(r, phases=kept.again(r, "x", times=50.0).phases) if r.others else r for r in ray]
    assert compare.ratio(torch, wrong) == compare.ratio(torch, [*ray]), "what they took says nothing"
    ratio = compare.ratio(torch, wrong)
    assert ratio is not None and ratio.n == 5
    found = compare.compare({"torch": torch, "ray": wrong})
    assert found.beside == ("ray-2", "ray-5") and found.marked == ()
    assert found.spreads["total"]["ray"].n == 5 and found.spreads["total"]["ray"].high == ray[0].phases.total
    assert any("2 runs" in line and "somebodys" in line for line in found.words)


def test_where_all_were_disturbed_their_times_are_shown_and_marked() -> None:
    single, torch = kept.one("stars", "single"), beside(kept.one("stars", "torch"), "crowded")
    found = compare.compare({"single": [single], "torch": [torch]})
    assert found.marked == ("torch",)
    (total,) = (line for line in comparison.to_text(found).splitlines() if line.startswith("total "))
    assert total.endswith("*")
    assert not any("times as long" in line for line in found.words)


def test_the_report_marks_them_and_counts_them() -> None:
    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    (summary,) = summarise(cases([single, torch, beside(torch, "crowded", times=9.0)]))
    (table, *_) = tables.times([summary])
    assert "beside" not in table.rows[0][2]
    (phases,) = tables.phases([summary])
    column = phases.columns.index("with other runs")
    assert [row[column] for row in phases.rows] == ["0", "1"]
    assert summary.case.groups[1].seconds("total") == [torch.phases.total]
    (all_crowded,) = summarise(cases([single, beside(torch, "crowded")]))
    (table, *_) = tables.times([all_crowded])
    assert "with other runs" in table.rows[0][2]
    assert all_crowded.ratios == ()
    every = tables.runs([beside(torch, "crowded")])
    assert every.rows[0][every.columns.index("other runs")] == "somebodys"


def test_a_run_that_ended_before_is_not_beside(remote: Remote) -> None:
    place = remote.place(remote.cluster.head)
    base = Path(place["state"]) / "runs"
    spans = {"mine": (100, 200), "before": (50, 100), "across": (150, 400), "within": (120, 130), "after": (200, 300)}
    for name, (start, end) in spans.items():
        (base / name).mkdir(parents=True)
        (base / name / "spec.json").write_text(f'{{"started": {start}}}')
        (base / name / "exit.json").write_text(f'{{"ended": {end}}}')
    (base / "spoilt").mkdir()
    (base / "spoilt/spec.json").write_text('{"started": []}')
    (base / "spoilt/exit.json").write_text("{}")
    assert contention.of_run(place, "mine").runs == ("across", "within")
