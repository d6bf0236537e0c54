"""The report: what it says follows from the records, whatever else is in their folder."""

import csv
import dataclasses
import io
import json
import math
import re
import resource
from pathlib import Path
from xml.etree import ElementTree

import kept
import pytest
from msgspec import structs

from regatta.errors import RecordError, UsageError
from regatta.records import calibration
from regatta.records.clocks import PHASES
from regatta.records.record import SCHEMA_VERSION, Framework, Overhead, Record, Series
from regatta.records.store import Store
from regatta.report import (
    charts,
    drawing,
    files,
    images,
    make,
    overhead,
    published,
    regressions,
    show,
    specs,
    tables,
    texts,
    timeline,
)
from regatta.report.cases import Configuration, cases, describe, inputs
from regatta.report.drawing import Drawer
from regatta.report.summary import summarise


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return kept.copy_to(tmp_path / "results")


def repeated(record: Record, name: str, times: list[float]) -> list[Record]:
    return [kept.again(record, f"{name}-{index}", times=factor) for index, factor in enumerate(times)]


def test_runs_are_in_the_case_of_their_parameters() -> None:
    found = cases(kept.records())
    assert [(case.workload, case.title) for case in found] == [
        ("digits", "generated, size=2000, epochs=3, batch=64"),
        ("stars", "generated, size=20000, epochs=4, batch=128"),
    ]
    assert [group.configuration.label for group in found[1].groups] == ["single/2", "torch × 2", "ray × 2"]
    assert [len(group.runs) for group in found[1].groups] == [3, 3, 3]
    other = structs.replace(kept.records()[0].cluster, name="elsewhere")
    assert len(cases([*kept.records(), structs.replace(kept.again(kept.records()[0], "x"), cluster=other)])) == 3


def test_a_size_that_an_option_says_is_said_once() -> None:
    words = {"workers": 2, "options": ["--below=20000", "--chunk=200"], "size": 20000}
    assert describe(words, "perfect") == "below=20000, chunk=200"
    words = {"data": "generated", "size": 500, "options": ["--epochs=50"]}
    assert describe(words, "digits") == "generated, size=500, epochs=50"
    assert describe({"size": None, "options": ["--calls=1000"]}, "pi") == "calls=1000"


@pytest.mark.parametrize(
    ("files", "said"), [("a", "a"), ("ab", "a, b"), ("abcd", "a and 3 more files"), ("", "-")], ids=str
)
def test_many_files_of_an_input_are_counted(files: str, said: str) -> None:
    assert describe({"data": dict.fromkeys(files, "0" * 64), "size": 5}, "digits") == f"{said}, size=5"


def test_packages_are_no_files_of_data() -> None:
    torch = kept.one("stars", "torch")
    parameters = {**torch.identity.parameters, "packages": {"pyzmq": "27", "dask": "2026"}, "data": {"a.csv": "0" * 64}}
    assert inputs([structs.replace(torch, identity=structs.replace(torch.identity, parameters=parameters))]) == {
        "a.csv": "0" * 64
    }
    assert describe({"packages": dict.fromkeys("abcd", "1")}, "stars") == "packages: a and 3 more"


def test_one_process_stands_beside_the_ranks_it_was_run_with() -> None:
    single = kept.one("stars", "single")
    alone = kept.again(single, "alone", series=Series("another", 1, 1))
    found = {
        group.configuration for case in cases([alone, single, kept.one("stars", "torch")]) for group in case.groups
    }
    assert found == {Configuration(1, "single"), Configuration(2, "single"), Configuration(2, "torch")}


def test_packages_that_a_framework_brings_make_no_other_case() -> None:
    def with_packages(record: Record, run_id: str, label: str, **packages: str) -> Record:
        made = kept.again(record, run_id, series=Series(label, 1, 6))
        parameters = {**made.identity.parameters, "packages": packages}
        return structs.replace(made, identity=structs.replace(made.identity, parameters=parameters))

    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    (case,) = cases([kept.again(single, "s", series=Series("a", 1, 6)), with_packages(torch, "t", "a", pyzmq="27")])
    assert len(case.groups) == 2 and "packages" not in case.parameters
    own = [with_packages(single, "s", "b", polars="1"), with_packages(torch, "t", "b", polars="1", pyzmq="27")]
    other = [with_packages(single, "s2", "c", polars="2"), with_packages(torch, "t2", "c", polars="2", pyzmq="27")]
    found = cases([*own, *other])
    assert [(case.parameters["packages"], len(case.groups)) for case in found] == [
        ({"polars": "1"}, 2),
        ({"polars": "2"}, 2),
    ]


def test_warm_ups_are_in_no_case() -> None:
    run = kept.records()[0]
    warm = kept.again(run, "warm", series=Series("bench", 1, 1, warm_up=True))
    (case,) = cases([run, warm])
    assert case.runs == (run,)


def test_a_single_run_is_not_timed_where_others_were_repeated() -> None:
    """A single try had no warm-up; it is shown if there is nothing else."""
    run = kept.one("stars", "torch")
    series, series_run = run.series, run.run_id
    assert series and series.total > 1
    tried = kept.again(run, "tried", times=9.0)
    tried = structs.replace(tried, series=structs.replace(series, label="tried", index=1, total=1))
    (case,) = cases([run, tried])
    assert [run.run_id for run in case.groups[0].runs] == [series_run]
    assert {run.run_id for run in case.runs} == {series_run, "tried"}
    (case,) = cases([tried])
    assert [run.run_id for run in case.groups[0].runs] == ["tried"]


def test_failed_runs_are_counted_and_not_timed() -> None:
    torch = kept.one("stars", "torch")
    (case,) = cases([torch, kept.failed(torch)])
    (group,) = case.groups
    assert (len(group.runs), len(group.others)) == (1, 1)
    assert group.seconds("total") == [torch.phases.total]


def test_clocks_are_shown_only_where_answers_are_equal() -> None:
    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    assert torch.answer is not None
    wrong = structs.replace(torch, answer=dict(torch.answer) | {"accuracy": 0.1})
    (summary,) = summarise(cases([single, wrong]))
    assert summary.times == summary.ratios == ()
    (table, *_) = tables.times([summary])
    assert table.rows[0][1:] == ("answers differ", "answers differ")
    assert charts.bars(summary) == charts.shares(summary) == []


def script(name: str, run_id: str) -> Record:
    """A run of a user's script, which prints no answer."""
    record = kept.again(kept.one("stars", "torch"), run_id, series=Series("own", 1, 1))
    identity = structs.replace(record.identity, workload=name, parameters={"workers": 2, "argv": [f"{name}.py"]})
    return structs.replace(record, identity=identity, answer=None, tolerance={}, series=None)


def test_runs_without_an_answer_show_their_time_in_one_table() -> None:
    own = [script("mine", "a"), script("mine", "b"), script("hers", "c")]
    found = summarise(cases([*own, *kept.records()]))
    (table,) = tables.alone(found)
    assert sorted(row[0] for row in table.rows) == ["hers", "mine"]
    mine = next(row for row in table.rows if row[0] == "mine")
    assert texts.seconds(own[0].phases.total) in mine[3] and mine[5] == "2"
    assert all(row[-1] == "no answer to compare" for row in table.rows)
    every = [*tables.times(found), *tables.ratios(found), *tables.phases(found), *tables.use(found)]
    assert not any("differ" in cell for one in every for row in one.rows for cell in row)
    assert {one.name.partition("-")[0] for one in every} == {"digits", "stars"}


def test_runs_in_no_comparison_stand_in_that_table_with_the_reason() -> None:
    single, torch, ray = (kept.one("stars", name) for name in ("single", "torch", "ray"))
    lone = kept.one("digits", "torch")
    found = summarise(cases([single, torch, structs.replace(ray, answer=None), lone]))
    assert {row[0]: row[-1] for row in next(tables.alone(found)).rows} == {
        "digits": "nothing to compare with",
        "stars": "no answer to compare",
    }
    assert {one.name.partition("-")[0] for one in tables.times(found)} == {"stars"}, "digits has no other time"
    assert torch.answer is not None
    wrong = structs.replace(torch, answer=dict(torch.answer) | {"accuracy": 0.1})
    (table,) = tables.alone(summarise(cases([single, wrong])))
    assert {row[-1] for row in table.rows} == {"answers differ"}
    assert not [*tables.alone(summarise(cases([single, torch, ray])))]


def test_only_answers_that_were_given_can_differ() -> None:
    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    silent = structs.replace(kept.one("stars", "ray"), answer=None)
    (summary,) = summarise(cases([single, torch, silent]))
    (table, *_) = tables.times([summary])
    one, two, three = table.rows[0][1:]
    assert one == texts.seconds(single.phases.total) and two == texts.seconds(torch.phases.total)
    assert three == f"{texts.seconds(silent.phases.total)} (no answer to compare)"
    assert {ratio.above.framework for ratio in summary.ratios} == {"torch"}
    (quiet,) = cases([torch, structs.replace(kept.again(torch, "quiet"), answer=None)])
    assert quiet.groups[0].seconds("total") == [torch.phases.total]


def test_charts_are_drawn_in_other_processes_whose_errors_are_shown() -> None:
    with Drawer() as drawer:
        wide = [{"mark": "bar", "data": {"values": []}, "width": width} for width in range(100, 110)]
        for width, svg in enumerate(map(drawer.svg, wide), 100):
            assert re.search(rf'<svg [^>]*width="{width + 10}"', svg.result())
        with pytest.raises(RecordError, match="a chart cannot be drawn"):
            drawer.svg({"mark": 3}).result()
        for process in drawer._processes:
            process.kill()
        assert "<svg" in drawer.svg(wide[0]).result()  # as it was drawn before
        with pytest.raises(RecordError, match="that draws charts has ended"):
            drawer.svg({**wide[0], "width": 200}).result()
    assert all(process.returncode is not None for process in drawer._processes)


def test_accuracy_has_a_picture_of_its_own() -> None:
    torch = kept.one("stars", "torch")
    progress = {"epochs": [[1.0, 1, 0.5], [3.0, 2, 0.4]], "accuracy": [[1.5, 1, 0.7], [3.5, 2, 0.8]]}
    first = structs.replace(torch.ranks[0], progress=progress)
    (summary,) = summarise(cases([structs.replace(torch, ranks=(first, *torch.ranks[1:]))]))
    assert [row["value"] for row in charts.accuracies(summary)] == [0.7, 0.8]
    assert [row["value"] for row in charts.progress(summary)] == [0.5, 0.4]
    (without,) = summarise(cases([torch]))
    assert charts.accuracies(without) == []


def test_seconds_of_an_iteration_are_those_of_the_slowest_rank() -> None:
    torch = kept.one("stars", "torch")
    quick, slow = torch.ranks
    quick = structs.replace(quick, progress={"iterations": [[9.0, 9, None]]}, phases={"load": 0.1, "compute": 1.0})
    points = [[1.5, 10, None], [2.5, 30, None], [2.5, 30, None], [4.5, 40, None]]
    slow = structs.replace(slow, progress={"iterations": points}, phases={"load": 0.5, "compute": 9.0})
    (summary,) = summarise(cases([structs.replace(torch, ranks=(quick, slow))]))
    assert [(row["iteration"], row["seconds"]) for row in charts.iterations(summary)] == [
        (10, pytest.approx(0.1)),
        (30, pytest.approx(0.05)),
        (40, pytest.approx(0.2)),
    ]
    (without,) = summarise(cases([torch]))
    assert charts.iterations(without) == []


@pytest.mark.parametrize(("value", "best"), [(0.9, [0.5, 0.9, 0.9]), (0.5, [0.5, 0.5, 0.5])])
def test_a_search_is_drawn_with_the_best_until_then(value: float, best: list[float], tmp_path: Path) -> None:
    """Whether the largest or the smallest is the best follows from the answer; a trial that failed has no point."""
    answer = {"metric": "accuracy", "value": value, "values": [0.5, None, 0.9, 0.7]}
    (summary,) = summarise(cases([structs.replace(kept.one("digits", "single"), answer=answer)]))
    rows = charts.search_rows(summary)
    assert [(row["trial"], row["value"]) for row in rows] == [(1, 0.5), (3, 0.9), (4, 0.7)]
    assert [row["best"] for row in rows] == best
    with Drawer() as drawer:
        drawn = drawer.svg(images.still(specs.SEARCH, rows))
        file, picture = images.write(tmp_path, {"search": drawn}, {"search": drawer.png(drawn)})
    assert "trial" in file.read_text() and '<rect width="100%" height="100%" fill="white"/>' in file.read_text()
    assert 'height="100%"' not in drawn.result() and picture.read_bytes()[:4] == b"\x89PNG"
    (without,) = summarise(cases([kept.one("digits", "single")]))
    assert charts.search_rows(without) == []


def of_paper(framework: Framework, *, size: int, series: Series | None = None) -> Record:
    """The run as if its input had had `size` rows, with the parameters of the plan `paper`."""
    record = kept.again(kept.one("stars", framework), f"paper-{framework}-{size}", series=series)
    parameters = {"workers": 2, "data": "hdfs:///x", "options": ["--epochs=3", "--batch=128"], "size": size}
    return structs.replace(record, identity=structs.replace(record.identity, parameters=parameters))


def test_published_times_stand_beside_runs_of_the_same_size() -> None:
    runs = [of_paper(framework, size=100_000) for framework in ("single", "torch", "ray")]
    table, _ = tables.published(summarise(cases([*runs, *kept.records()])))
    assert table.columns == ("case", "single/2", "torch × 2", "torch × 2, published", "ray × 2", "ray × 2, published")
    (row,) = table.rows
    assert row[0] == "stars, 100,000 rows, epochs=3, batch=128"
    assert (row[3], row[5]) == ("2'25''", "2'50''")
    assert row[2] == texts.seconds(runs[1].phases.total)
    assert [one.name for one in tables.published(summarise(cases([of_paper("torch", size=100_001)])))] == [
        "published-besides"
    ]


def test_a_scaled_run_is_labelled_so() -> None:
    series = Series("s", 1, 1, "mine", "s", "stars", published=5100.0, published_size=4_000_000)
    table, _ = tables.published(summarise(cases([of_paper("torch", size=400_000, series=series)])))
    (row,) = table.rows
    assert row[0].endswith(", scaled: published of 4,000,000")
    assert row[0].startswith("stars, 400,000 rows")
    assert row[-1] == "1:25'00''"


def test_published_accuracy_and_loss_stand_beside_ours() -> None:
    runs = [of_paper(framework, size=300_000) for framework in ("single", "torch", "ray")]
    right = [structs.replace(run, answer={"accuracy": 0.5, "test_loss": 0.25}) for run in runs]
    (table,) = tables.published(summarise(cases(right)))
    assert [row[1] for row in table.rows] == ["torch × 2", "ray × 2"]
    assert table.rows[0][2:6] == ("50.0 %", "93.7 %", "0.2500", "–")


def of_cube(framework: Framework, seconds: float, repeat: int) -> Record:
    """A run of the cube with four workers that took so long."""
    made = kept.again(kept.one("stars", framework), f"cube-{framework}-{repeat}", times=seconds, count=repeat)
    options = ["--edge=250", "--method=loop", "--chunk=1"]
    named = structs.replace(made.identity, workload="cube", parameters={"workers": 4, "options": options})
    return structs.replace(made, identity=named, answer={"sum": 1})


def test_a_published_speedup_stands_beside_ours_at_any_size() -> None:
    runs = [of_cube(framework, 1.0, repeat) for framework in ("single", "ray") for repeat in range(1, 4)]
    (table,) = tables.published(summarise(cases(runs)))
    assert table.name == "published-besides"
    (row,) = table.rows
    assert row[1] == "ray × 4" and row[-1] == "3.00" and row[-2] != "–"


def test_a_speedup_follows_from_published_times() -> None:
    options = ["--pictures=10"]
    run = kept.one("stars", "ray")
    named = structs.replace(run.identity, workload="render-words", parameters={"workers": 4, "options": options})
    (case,) = cases([structs.replace(run, identity=named)])
    found = published.besides(case)
    assert found[Configuration(4, "multiprocessing")].speedup == pytest.approx(40 / 11)
    assert Configuration(4, "single") not in found


def test_all_cases_are_in_one_chart_with_published_times_of_the_same_size() -> None:
    torch, digits = kept.one("stars", "torch"), kept.one("digits", "ray")
    same = kept.again(torch, "same", series=Series("beside", 1, 1, published=145.0, published_size=20_000))
    other = kept.again(digits, "other", series=Series("beside", 1, 1, published=278.0, published_size=100_000))
    rows = charts.overview(summarise(cases([same, other])))
    assert [(row["what"], row["framework"], row["whose"]) for row in rows] == [
        ("digits, 2,000 images, 2 ranks", "ray", "measured"),
        ("stars, 20,000 rows, 2 ranks", "torch", "measured"),
        ("stars, 20,000 rows, 2 ranks", "torch", "published"),
    ]
    assert [row["seconds"] for row in rows] == [other.phases.total, same.phases.total, 145.0]
    assert charts.overview(summarise(cases([same]))) == []
    alike = kept.again(same, "alike", count=3)
    assert len({row["what"] for row in charts.overview(summarise(cases([same, alike])))}) == 2


def test_speedup_is_the_ratio_the_other_way_round() -> None:
    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    runs = [*repeated(single, "s", [2, 2.1, 2.2, 2.3, 2.4, 2.2]), *repeated(torch, "t", [1, 1.1, 1.2, 1.3, 1.1, 1.2])]
    (summary,) = summarise(cases(runs))
    ratio = next(r for r in summary.ratios if r.clock == "compute")
    assert ratio.speedup.value == pytest.approx(1 / ratio.times.value)
    assert ratio.speedup.low == pytest.approx(1 / (ratio.times.high or math.nan))
    rows = [row for row in charts.speedups(summary) if row.get("clock") == "compute"]
    assert [row["efficiency"] for row in rows] == [pytest.approx(rows[0]["speedup"] / 2)]
    assert charts.efficiencies(summary) == []  # of one number of ranks
    assert torch.series
    four = structs.replace(torch.identity, parameters=dict(torch.identity.parameters) | {"workers": 4})
    wide = [structs.replace(torch, identity=four), single]
    label = structs.replace(torch.series, label="wide")
    wider = [kept.again(run, f"wide-{place}", times=1 + place / 10, series=label) for place, run in enumerate(wide * 6)]
    (summary,) = summarise(cases([*runs, *wider]))
    speedups = {(row["clock"], row["workers"]): row for row in charts.speedups(summary) if "clock" in row}
    for row in charts.efficiencies(summary):
        of = speedups.pop((row["clock"], row["workers"]))
        assert [row["low"], row["high"]] == [of["low"] / row["workers"], of["high"] / row["workers"]]
        assert row["low"] < row["efficiency"] < row["high"]
    assert not speedups


def test_a_ratio_names_the_side_that_is_faster() -> None:
    """Each row reads as a sentence, and a note is there once, however many tables have it."""
    runs = [run for run in kept.records() if run.identity.framework != "single"]
    found = tables.once(tables.ratios(summarise(cases(runs))))
    assert [bool(table.note) for table in found] == [True, False]
    assert all(row[1].endswith(" took") and row[2].endswith(" times as long as") for t in found for row in t.rows)
    runs = [*repeated(kept.one("stars", "ray"), "s", [2.0] * 6), *repeated(kept.one("stars", "torch"), "t", [1.0] * 6)]
    (table,) = tables.ratios(summarise(cases(runs)))
    assert table.rows[1][1:5] == ("torch × 2 took", "0.57 (0.57 to 0.57) times as long as", "ray × 2", "compute")
    assert table.rows[1][7] == "torch × 2 is faster"


def test_verdicts_of_a_page_are_also_taken_together() -> None:
    """Six pairs show a difference (1 in 32 comes by chance), and not if there are many verdicts."""
    single, torch = kept.one("stars", "single"), kept.one("stars", "torch")
    runs = [*repeated(single, "s", [2, 2.1, 2.2, 2.3, 2.4, 2.2]), *repeated(torch, "t", [1, 1.1, 1.2, 1.3, 1.1, 1.2])]
    (table,) = tables.ratios(summarise(cases(runs)))
    assert {row[-2:] for row in table.rows} == {("torch × 2 is faster", "no")}
    many = [factor + index / 100 for index, factor in enumerate([1.0, 1.1] * 6)]
    runs = [*repeated(single, "s", [2 * factor for factor in many]), *repeated(torch, "t", many)]
    (table,) = tables.ratios(summarise(cases(runs)))
    assert {row[-2:] for row in table.rows} == {("torch × 2 is faster", "yes")}
    (table,) = tables.ratios(summarise(cases(runs), at_least=2.0))
    assert {row[-2:] for row in table.rows} == {("equal", "–")}


@pytest.mark.parametrize("record", kept.records(), ids=lambda r: r.run_id)
def test_a_timeline_fits_the_clocks(record: Record) -> None:
    found = timeline.segments(record)
    assert {s.rank for s in found} == {rank.rank for rank in record.ranks}
    for rank in record.ranks:
        own = [s for s in found if s.rank == rank.rank]
        assert own[0].start == 0
        assert [s.end for s in own[:-1]] == [s.start for s in own[1:]]
        assert own[-1].end == pytest.approx(record.phases.total)
        spent = {s.name: s.seconds for s in own}
        for name in ("load", "compute"):
            assert spent.get(name, 0.0) == pytest.approx(rank.phases.get(name, 0.0))
    assert max(s.seconds for s in found if s.name == "collect") == pytest.approx(record.phases.collect)


def test_who_waits_for_whom_is_said() -> None:
    torch = kept.one("stars", "torch")
    quick, slow = torch.ranks
    slow = structs.replace(slow, phases=dict(slow.phases) | {"compute": 20.0, "load": 1.0, "rendezvous": 0.5})
    quick = structs.replace(quick, phases=dict(quick.phases) | {"compute": 12.5, "load": 0.5, "rendezvous": 2.0})
    record = structs.replace(torch, ranks=(quick, slow))
    assert timeline.words(record) == (
        "Rank 1 was the slowest (21.00 s of load and compute): the other waited 8.00 s for it.",
        "Rank 1 came last to the rendezvous; rank 0 had waited there for 1.50 s.",
    )
    waits = {s.rank: s.seconds for s in timeline.segments(record) if s.name == "wait"}
    assert waits == {0: pytest.approx(8.0)}


def test_a_run_whose_ranks_never_got_ready_has_no_timeline() -> None:
    torch = kept.failed(kept.one("stars", "torch"))
    record = structs.replace(torch, phases=structs.replace(torch.phases, launch=None, collect=None), ranks=())
    assert timeline.segments(record) == timeline.words(record) == ()


def test_a_regression_is_marked_only_where_the_interval_says_so() -> None:
    spread = [1.0, 1.02, 1.04, 1.06, 1.03, 1.05]
    torch, single = kept.one("stars", "torch"), kept.one("stars", "single")
    before = cases([*repeated(torch, "a", spread), *repeated(single, "b", spread)])
    now = cases([*repeated(torch, "c", [2 * s for s in spread]), *repeated(single, "d", spread)])
    found = regressions.changes(now, before)
    assert {(c.configuration.framework, c.verdict) for c in found} == {
        ("torch", "slower"),
        ("single", "no difference shown"),
    }
    assert found[0].verdict == "slower"
    assert found[0].times.value == pytest.approx(2.0)
    table = tables.changes(found, "before", summarise(now))
    assert [row[table.columns.index("all together")] for row in table.rows] == ["yes", "yes", "–", "–"]
    assert regressions.changes(now, cases(repeated(kept.one("digits", "torch"), "e", spread))) == ()
    few = regressions.changes(now, cases(repeated(torch, "f", [0.1, 0.1])))
    assert {c.verdict for c in few} == {"too few runs"}


def test_everything_is_written_and_agrees(store: Store, tmp_path: Path) -> None:
    report = make.report(store.root)
    written = files.write(tmp_path / "out", report, ("svg", "png"), 1)
    assert written.not_drawn == 1
    page = written.page.read_text()
    for record in store.list().records:
        assert f'href="#run={record.run_id}"' in page
    table = next(t for t in report.tables if t.name == "stars-total")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "out/tables/stars-total.csv").read_text()))
    assert tuple(row.values()) == table.rows[0]
    assert f"| {' | '.join(table.rows[0])} |" in (tmp_path / "out/tables.md").read_text()
    drawn = list((tmp_path / "out/charts").iterdir())
    assert {path.suffix for path in drawn} == {".svg", ".png"}
    for path in drawn:
        if path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


def test_every_chart_of_every_case_can_be_drawn() -> None:
    wanted = [
        charts.with_rows(chart.spec, chart.rows(summary))
        for summary in summarise(cases(kept.records()))
        for chart in charts.CHARTS
    ]
    rows = charts.timeline(kept.one("stars", "ray"))
    assert {row["rank"] for row in rows} == {"driver", "rank 0", "rank 1"}
    with Drawer() as drawer:
        for svg in map(drawer.svg, [*wanted, charts.with_rows(specs.TIMELINE, rows)]):
            assert svg.result().startswith("<svg")


def test_the_page_asks_nothing_of_a_network_and_runs_nothing_of_a_record(store: Store, tmp_path: Path) -> None:
    store.save(kept.failed(kept.one("stars", "torch")))
    page = files.write(tmp_path, make.report(store.root), (), 0).page.read_text()
    assert "default-src 'none'" in page
    assert "<script>alert(1)" not in page
    assert "src=" not in page.partition("<script id=")[0]


def test_files_that_are_no_records_are_named_and_hide_nothing(store: Store) -> None:
    (store.root / "short.json").write_text('{"schema_version": 1, "identity": {"run')
    (store.root / "bench.json").write_text('{"machine": "fast"}')
    (store.root / "future.json").write_text('{"schema_version": 99, "identity": {}}')
    report = make.report(store.root)
    assert len(report.records) == len(kept.records())
    said = "\n".join(report.broken)
    assert "short.json is truncated or not JSON" in said
    assert "bench.json is JSON, but no record of a run" in said
    assert f"future.json: schema version 99 is unknown, this Regatta reads 1 to {SCHEMA_VERSION}" in said


def test_records_of_the_first_schema_are_read(store: Store, tmp_path: Path) -> None:
    document = json.loads((kept.FOLDER / f"{kept.one('stars', 'torch').run_id}.json").read_text())
    document["schema_version"] = 1
    for rank in document["ranks"]:
        del rank["progress"]
    old = tmp_path / "old"
    old.mkdir()
    document["identity"]["run_id"] = "old-run"
    (old / "old-run.json").write_text(json.dumps(document))
    report = make.report(store.root, against=old)
    assert report.changes is not None
    assert {change.configuration.label for change in report.changes} == {"torch × 2"}


def test_nothing_to_report_is_said(tmp_path: Path, store: Store) -> None:
    with pytest.raises(RecordError, match=r"no records in .*none yet"):
        make.report(tmp_path / "none")
    with pytest.raises(RecordError, match=r"there are no records at .*nowhere"):
        make.report(store.root, against=tmp_path / "nowhere")
    with pytest.raises(RecordError, match="only records of the report itself"):
        make.report(store.root, against=store.root)
    with pytest.raises(RecordError, match="no record of a run 'x'"):
        make.report(store.root, run="x")


def test_only_an_experiment_is_reported_with_the_rate_of_its_cluster(store: Store) -> None:
    first = kept.one("stars", "single")
    for index in range(1, 13):
        same = Series("set/same", index, 12, calibration.PLAN, "set", "same")
        store.save(structs.replace(kept.again(first, f"same-{index}", times=index), series=same))
    wanted = structs.replace(
        kept.again(first, "wanted"), series=Series("one", 1, 1, "lengths", "one", "length-1-ms-400-w2")
    )
    store.save(wanted)
    report = make.report(store.root, only="length-1-ms")
    assert report.records == (wanted,) and [*report.rates] == [first.cluster.name]


def test_a_report_of_one_run(store: Store) -> None:
    record = kept.one("stars", "ray")
    report = make.report(store.root, run=record.run_id)
    assert report.records == (record,)
    assert report.title == f"Regatta run {record.run_id}"


def test_a_thousand_runs_fit(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for record in kept.many(1000):
        store.save(record)
    (store.root / "future.json").write_text('{"schema_version": 99, "identity": {}}')
    report = make.report(store.root)
    written = files.write(tmp_path / "out", report, (), 0)
    assert written.page.stat().st_size < 5_000_000
    assert len(report.records) == 1000 and len(report.broken) == 1, "one of another schema hides no other"
    assert "future.json: schema version 99 is unknown" in written.page.read_text()


def test_what_runs_take_is_a_table() -> None:
    torch = kept.one("stars", "torch")
    (table,) = tables.use(summarise(cases([kept.measured(torch), kept.one("stars", "ray")])))
    assert [row[1:] for row in table.rows] == [
        ("torch × 2", "3.00 s", texts.gigabytes(torch.peak_bytes), "9.0 MB", "not measured", "–")
    ]
    assert list(tables.use(summarise(cases(kept.records())))) == []


OVERHEAD = Overhead(
    "the log",
    jobs=3,
    stages=4,
    tasks=64,
    failed=1,
    wall={"session": 6.0, "tasks": 11.0, "program": 3.0},
    work={"scheduling": 0.5, "running": 19.5},
    within={"garbage collection": 1.5},
    own=("session", "scheduling"),
)


def test_what_a_framework_takes_for_itself_is_said_and_is_a_table() -> None:
    torch = structs.replace(kept.one("stars", "torch"), overhead=OVERHEAD)
    said = "\n".join(show.lines(torch))
    assert "By the log: 3 jobs, 4 stages, 64 tasks (1 of them failed)." in said
    assert "Of the driver's 20.0 s the framework's own are 30 %: session 6.00 s, tasks 11.0 s, program 3.00 s." in said
    assert "are 2 %" in said and "garbage collection 1.50 s" in said and "not read" not in said
    assert "not read to its end" in overhead.words(structs.replace(OVERHEAD, whole=False))[0]
    (table,) = overhead.tables(summarise(cases([torch, kept.again(torch, "again"), kept.one("stars", "ray")])))
    (row,) = table.rows
    assert row[1:6] == ("torch × 2", "3", "64", "30 %", "2 %")
    assert "session 6.00 s" in row[6] and "running 19.5 s" in row[7]
    assert list(overhead.tables(summarise(cases(kept.records())))) == []


def test_a_full_disk_leaves_the_earlier_report(store: Store, tmp_path: Path) -> None:
    report = make.report(store.root)
    page = files.write(tmp_path / "out", report, (), 0).page
    was = page.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(RecordError, match=r"the report cannot be written to .*File too large"):
            files.write(tmp_path / "out", dataclasses.replace(report, title="another"), (), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert page.read_bytes() == was
    assert not [path for path in (tmp_path / "out").iterdir() if path.suffix == ".new"]


def test_the_page_cannot_be_written(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="the report cannot be written to"):
        files.write(tmp_path / "file", make.report(store.root), (), 0)


@pytest.mark.parametrize(("text", "formats"), [("svg,png", ("svg", "png")), ("svg", ("svg",)), ("none", ())])
def test_formats_of_charts(text: str, formats: tuple[str, ...]) -> None:
    assert drawing.image_formats(text) == formats


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UsageError, match="--charts takes svg, png or none, not 'gif'"):
        drawing.image_formats("svg,gif")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00 s"),
        (9.99, "9.99 s"),
        (9.999, "10.0 s"),
        (99.94, "99.9 s"),
        (99.96, "1'40''"),
        (145, "2'25''"),
        (5100, "1:25'00''"),
        (59.99, "60.0 s"),
    ],
)
def test_seconds_as_text(value: float | None, text: str) -> None:
    assert texts.seconds(value) == text


def test_markdown_cells_cannot_break_a_table() -> None:
    table = tables.Table("t", "T", ("a", "b"), (("x|y", "1\n2"),))
    assert files.as_markdown(table).splitlines()[-1] == "| x\\|y | 1 2 |"


def test_phases_have_their_colour() -> None:
    from regatta.report import theme

    assert {*PHASES, "wait"} - {"total"} == set(theme.PHASES)


def test_a_workload_without_a_card_here_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regatta.report import cases as of_cases

    first = kept.records()[0]
    store.save(structs.replace(first, identity=structs.replace(first.identity, workload="mine", run_id="mine-1")))
    project = tmp_path / "project"
    project.mkdir()
    for card, named in (
        ("", True),
        ('[workloads.mine]\nabout = "x"\ncommand = "x.py"\nframeworks = ["torch"]\n', False),
    ):
        (project / "regatta.toml").write_text(card)
        monkeypatch.chdir(project)
        of_cases._cards.cache_clear()
        assert any("no card of mine:" in note for note in make.report(store.root).notes) is named
    of_cases._cards.cache_clear()
