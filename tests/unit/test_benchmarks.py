"""The benchmarks' computations and output; nothing is timed here."""

import json
import signal
import sys
from pathlib import Path

import pytest

from benchmarks import cluster, figures, machine, probes, report, shell, trees
from benchmarks.machine import Machine
from benchmarks.report import Figure, Measured, Report
from benchmarks.shell import BenchError
from regatta.release import tree

MACHINE = Machine(
    cpu="Some CPU",
    cores=2,
    ram_bytes=24 * 2**30,
    kernel="6.1",
    os="Debian",
    load=0.1,
    date="2026-11-21T04:12:32Z",
    commit="0123456789abcdef",
    dirty=False,
)
FIGURE = Figure("key", "group", "what it is", 1.0)
RECAP = """\
PLAY RECAP *********************************************************************
node1                      : ok=31   changed=0    unreachable=0    failed=0    skipped=9    rescued=0    ignored=0
node2                      : ok=30   changed=2    unreachable=0    failed=0    skipped=9    rescued=0    ignored=0
provision of bench: done after 12.3 s
"""


def a_report(*measured: Measured, machine: Machine = MACHINE) -> Report:
    return Report(machine, measured, {})


def row(text: str, word: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith("|") and word in line]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("samples", "median", "reached"),
    [((0.9, 5.0, 0.5), 0.9, True), ((1.0,), 1.0, True), ((1.0, 1.2), 1.1, False), ((), None, None)],
)
def test_the_median_decides(samples: tuple[float, ...], median: float | None, reached: bool | None) -> None:
    measured = Measured(FIGURE, samples)
    assert measured.median == (median if median is None else pytest.approx(median))
    assert measured.reached is reached


def test_without_a_target_nothing_is_reached() -> None:
    assert Measured(Figure("key", "group", "text"), (1.0,)).reached is None


def test_a_row_of_the_table() -> None:
    text = report.markdown(a_report(Measured(FIGURE, (0.5, 30.0, 2.0))))
    assert row(text, "what it is") == ["what it is", "2.00 s", "0.50 s to 30.0 s", "3", "1 s", "**no**"]


def test_a_figure_without_samples_is_not_measured_or_failed() -> None:
    missing = report.markdown(a_report(Measured(FIGURE)))
    failed = report.markdown(a_report(Measured(FIGURE, (0.5,), failed="no host answers")))
    assert row(missing, "what it is")[1:] == ["not measured", "-", "-", "1 s", "-"]
    assert row(failed, "what it is")[1:] == ["failed", "-", "-", "1 s", "-"]


def test_a_busy_machine_is_warned_of() -> None:
    busy = Machine(**{**MACHINE.__dict__, "load": 3.2, "dirty": True})
    assert "do not trust" not in report.markdown(a_report())
    text = report.markdown(a_report(machine=busy))
    assert "load 3.20" in text
    assert "do not trust" in text
    assert "not committed" in text


def test_phases_are_medians_by_framework() -> None:
    runs = [{"sync": value, "launch": 2.0, "collect": None} for value in (1.0, 3.0, 9.0)]
    text = report.markdown(Report(MACHINE, (), {"torch": runs, "ray": []}))
    assert row(text, "torch")[:3] == ["torch", "3.00 s", "2.00 s"]
    assert row(text, "torch")[-2] == "-"
    assert set(row(text, "ray")[1:]) == {"-"}


def test_json_keeps_every_sample() -> None:
    text = json.dumps(report.samples(a_report(Measured(FIGURE, (0.5, 2.0)), Measured(FIGURE))))
    first, second = json.loads(text)["figures"]
    assert (first["samples"], first["low"], first["high"], first["reached"]) == ([0.5, 2.0], 0.5, 2.0, False)
    assert (second["samples"], second["median"], second["low"]) == ([], None, None)


def test_only_what_is_between_the_markers_is_replaced() -> None:
    old = f"# Results\n\nBefore.\n\n{report.BEGIN}\nold\n{report.END}\n\nAfter.\n"
    new = report.replace_between(old, "| new |")
    assert new == f"# Results\n\nBefore.\n\n{report.BEGIN}\n\n| new |\n\n{report.END}\n\nAfter.\n"
    assert report.replace_between(new, "| new |") == new


def test_a_text_without_markers_gets_them() -> None:
    assert report.replace_between("# Results\n", "x") == f"# Results\n\n{report.BEGIN}\n\nx\n\n{report.END}\n"


def test_a_text_with_half_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="bench: end"):
        report.replace_between(f"{report.BEGIN}\n", "x")


def test_files_that_are_written(tmp_path: Path) -> None:
    made = a_report(Measured(FIGURE, (0.5,)))
    kept = machine.keep("cluster", made.machine.date, report.samples(made), tmp_path / "benchmarks")
    assert kept.name == "cluster-20261121T041232Z.json"
    assert json.loads(kept.read_text())["figures"][0]["samples"] == [0.5]
    report.write_results(tmp_path / "results.md", made)
    assert "what it is" in (tmp_path / "results.md").read_text()


def test_recap_counts_changes_by_host() -> None:
    assert figures.recap(RECAP) == {"node1": 0, "node2": 2}


@pytest.mark.parametrize("output", ["", RECAP.replace("failed=0", "failed=1"), RECAP.replace("ble=0", "ble=1")])
def test_a_recap_that_is_missing_or_tells_of_failures(output: str) -> None:
    with pytest.raises(BenchError):
        figures.recap(output)


def test_overhead_is_all_but_load_and_compute() -> None:
    phases = {"sync": 1.0, "launch": 2.0, "rendezvous": None, "load": 50.0, "compute": 60.0, "collect": 4.0}
    assert figures.overhead(phases) == 7.0


def test_every_figure_has_a_key_of_its_own() -> None:
    keys = [figure.key for figure in figures.FIGURES]
    assert len(set(keys)) == len(keys)


def test_an_edit_changes_one_line_and_the_release(tmp_path: Path) -> None:
    made = trees.Tree.make(tmp_path / "tree", 30)
    before = tree.read(made.root)
    made.edit()
    after = tree.read(made.root)
    assert len(before.entries) == 30
    assert before.release != after.release
    assert len(set(before.entries) ^ set(after.entries)) == 2


def test_a_command_says_what_it_printed_and_how_it_ended() -> None:
    done = shell.run([sys.executable, "-c", "print('said'); raise SystemExit(3)"], check=False)
    assert (done.code, done.output) == (3, "said\n")
    with pytest.raises(BenchError, match="ended with 3"):
        shell.run([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(BenchError, match="did not end"):
        shell.run([sys.executable, "-c", "import time; time.sleep(60)"], limit=0.5)


def test_a_signal_during_the_clean_up_waits_for_its_end() -> None:
    cleaned = False
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), shell.undisturbed():
        signal.raise_signal(signal.SIGTERM)
        cleaned = True
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("words", [["--only", "nonsense"], ["--only", "teardown", "--inventory", "x"]])
def test_options_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="bench: "):
        cluster.main(words)


def test_probes_go_on_from_those_that_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "probes-mine.jsonl"
    one = '{"date": "2026-11-27T04:00:00Z", "commit": null, "load": %s, "seconds": 20.0, "slow": %s}'
    named = [{"node": "n1", "what": "syncs", "part": 0.7}, {"node": "n2", "what": "syncs", "part": 0.6}]
    whole = [one % (1.0, "[]"), one % (9.0, json.dumps(named))]
    path.write_text("\n".join([*whole, whole[0][:40]]))
    assert probes.read(tmp_path / "none") == []
    said = "\n".join(probes.lines(probes.read(path)))
    assert "2 probes" in said and "1 named" in said and "50.0 % (1.3 to 98.7 %)" in said and "syncs 1" in said
