"""The sentences that say who won."""

import re

import kept
import pytest
from msgspec import structs

from regatta.bench import order
from regatta.experiments.plan_file import load
from regatta.experiments.plans import expand
from regatta.records.record import Beside, Record, RunIdentity, Series
from regatta.report import answers, tables, texts
from regatta.report.cases import cases
from regatta.report.summary import summarise

STEPS = [1.0, 1.02, 1.04, 1.06, 1.03, 1.05]
SINGLE, TORCH, RAY = (kept.one("stars", name) for name in ("single", "torch", "ray"))


def runs(record: Record, times: float, steps: list[float] = STEPS) -> list[Record]:
    """Runs whose whole takes so many times 10 s, more or less."""
    made = [kept.again(record, f"{record.identity.framework}-{index}") for index in range(len(steps))]
    total = [structs.replace(run.phases, total=10 * times * step) for run, step in zip(made, steps, strict=True)]
    return [structs.replace(run, phases=phases) for run, phases in zip(made, total, strict=True)]


def said(*some: list[Record]) -> answers.Answer:
    (summary,) = summarise(cases([run for own in some for run in own]))
    return answers.answer(summary)


@pytest.mark.parametrize(
    ("ray", "torch", "sentence"),
    [
        (1.5, 1.2, "Ray took 1.25 times as long as torch (1.25 to 1.25, 6 pairs); neither beat one process."),
        (0.6, 0.5, "Ray took 1.20 times as long as torch (1.20 to 1.20, 6 pairs); both beat one process."),
        (
            1.5,
            0.5,
            "Ray took 3.00 times as long as torch (3.00 to 3.00, 6 pairs); torch beat one process, Ray did not.",
        ),
        (0.501, 0.5, "Ray took as long as torch (1.00 to 1.00, 6 pairs); both beat one process."),
    ],
)
def test_who_won_and_by_how_much(ray: float, torch: float, sentence: str) -> None:
    found = said(runs(SINGLE, 1.0), runs(TORCH, torch), runs(RAY, ray))
    assert found.sentences == (sentence,)
    assert found.about == "Training to tell stars from galaxies" and found.title.startswith("stars: generated")
    assert found.marks == ()


def test_the_plan_of_one_experiment_gives_the_title() -> None:
    series = Series("one", 1, 6, about="Does Ray cost more than torch?")
    assert said([structs.replace(run, series=series) for run in runs(TORCH, 1.0)]).about == series.about
    claim, smoke = (load(name) for name in ("ray-train-claim", "smoke"))
    told = [order.ordered(plan, expand(plan, 4))[0].series(plan, "set").about for plan in (claim, smoke)]
    assert told == [claim.about, None], "of several experiments it is no title"


def test_what_is_not_shown_is_said() -> None:
    mixed = said(runs(TORCH, 1.0), runs(RAY, 1.0, [1.2, 0.9, 1.3, 0.8, 1.1, 1.0]))
    assert mixed.sentences[0].startswith("No difference between ") and mixed.sentences[0].endswith(", 6 pairs).")
    few = said(runs(SINGLE, 1.0)[:2], runs(TORCH, 1.2)[:2], runs(RAY, 1.5)[:2])
    assert few.sentences == (
        "Ray took 1.25 times as long as torch (2 pairs: no verdict, 6 are needed); "
        "torch took 1.20, Ray 1.50 times as long as one process (2 pairs: no verdict, 6 are needed).",
    )
    assert said(runs(TORCH, 1.0)).sentences == ("torch × 2 took 10.35 s (median of 6 runs); nothing to compare with.",)


def test_what_is_alike_of_many_frameworks_is_said_once() -> None:
    def under(name: str, times: float, steps: list[float] = STEPS) -> list[Record]:
        return runs(structs.replace(RAY, identity=structs.replace(RAY.identity, framework=name)), times, steps)

    few = said(runs(TORCH, 1.0)[:1], under("ray", 1.1)[:1], under("zeromq", 1.2)[:1], under("mpi", 1.3)[:1])
    pair = "1 pair: no verdict, 6 are needed"
    assert few.sentences == (f"Ray took 1.10, ZeroMQ 1.20, MPI (OpenMPI) 1.30 times as long as torch ({pair}).",)
    wide = [1.4, 0.9, 1.3, 0.9, 1.1, 1.2]
    every = [
        runs(TORCH, 1.0),
        *(under(name, 1.001) for name in ("multiprocessing", "processes")),
        *(under(name, 1.0, wide) for name in ("dask", "joblib-loky")),
        *(under(name, times) for name, times in {"ray": 1.5, "zeromq": 1.6}.items()),
    ]
    many = said(*every)
    assert re.sub(r"(?<=dask|loky) \([^)]*\)", "", many.sentences[0]) == (
        "Multiprocessing (1.00 to 1.00) and processes (1.00 to 1.00) took as long as torch (6 pairs); "
        "no difference to torch is shown for joblib-loky and dask (6 pairs); "
        "Ray took 1.50 (1.50 to 1.50), ZeroMQ 1.60 (1.60 to 1.60) times as long as torch (6 pairs)."
    )
    (table,) = tables.ratios(summarise(cases([run for own in every for run in own])))
    assert len(table.rows) == 2 * (len(every) - 1)
    assert all("torch × 2" in f"{row[1]} {row[3]}" for row in table.rows), "each with the fastest"


def test_cases_of_a_bench_are_in_the_order_of_their_sizes() -> None:
    def of(size: float, started: str, name: str) -> Record:
        parameters = {"options": [f"--size={size}"], "size": size}
        identity = structs.replace(TORCH.identity, run_id=f"r{size}-{name}", started=started, parameters=parameters)
        return structs.replace(TORCH, identity=identity, series=Series("p", 1, 1, "plan", name, "p"))

    mixed = [of(size, f"2026-01-02T0{hour}:00:00Z", "new") for hour, size in enumerate((100, 0.5, 2000, 8))]
    old = [of(size, f"2026-01-01T0{hour}:00:00Z", "old") for hour, size in enumerate((70, 3))]
    assert [case.parameters["size"] for case in cases([*mixed, *old])] == [0.5, 8, 100, 2000, 3, 70]


def test_no_answer_no_comparison() -> None:
    wrong = [structs.replace(run, answer=dict(run.answer or {}) | {"accuracy": 0.1}) for run in runs(RAY, 1.0)]
    assert said(runs(TORCH, 1.0), wrong).sentences == ("No comparison: the answers of the runs are not equal.",)
    silent = [structs.replace(run, answer=None) for run in runs(RAY, 1.0)]
    assert said(silent).sentences == ("No comparison: the runs gave no answer.",)
    assert said([kept.failed(TORCH)]).sentences == ("No run succeeded.",)


def test_what_a_reader_has_to_know_is_marked() -> None:
    slow_start = runs(TORCH, 1.0, [2.0, *STEPS])
    found = said(slow_start, [kept.failed(RAY)])
    assert found.marks == ("1 run failed", "the first repeat of torch × 2 took 1.9 times as long: warm-up")


def test_runs_that_do_not_count_are_marked() -> None:
    torch, ray = runs(TORCH, 1.0), runs(RAY, 1.0)
    silent = structs.replace(torch[0], answer=None)
    beside = structs.replace(torch[1], beside=(Beside("localhost", ("another",)),))
    marks = said([silent, beside, *torch[2:]], ray).marks
    assert "1 run gave no answer" in marks and "1 run timed beside other runs" in marks
    shares = tuple(structs.replace(node, shares=("another",)) for node in TORCH.cluster.nodes)
    shared = structs.replace(TORCH, cluster=structs.replace(TORCH.cluster, nodes=shares))
    assert "ranks share cores" in said(runs(shared, 1.0)).marks


def test_repeats_that_warm_up_or_are_never_steady_are_marked() -> None:
    series = Series("one", 1, 9)

    def of(record: Record, steps: list[float]) -> list[Record]:
        return [structs.replace(run, series=series) for run in runs(record, 1.0, steps)]

    falling, steady = [1.08, 1.07, 1.06, 1.05, 1.04, 1.03], [1.0, 1.02, 0.99, 1.01, 0.98, 1.0]
    found = said(of(TORCH, falling), of(RAY, steady))
    assert "the times of torch × 2 fell to the end: never steady" in found.marks
    assert not any("times of ray" in mark for mark in found.marks)
    (summary,) = summarise(cases([*of(TORCH, falling), *of(RAY, falling[::-1])]))
    assert "the ratio of torch × 2 to ray × 2 fell to the end: never steady" in answers.answer(summary).marks
    verdicts = [row[-2] for table in tables.ratios([summary]) for row in table.rows]
    assert verdicts[0].endswith("; the ratio fell to the end: never steady")


@pytest.mark.parametrize(("days", "said_of"), [(1, ""), (3, " of 3 days"), (6, "; over 6 days 1.25 to 1.25")])
def test_runs_of_several_days_have_an_interval_over_days_beside(days: int, said_of: str) -> None:
    def of(record: Record, times: float) -> list[Record]:
        return [
            structs.replace(run, identity=structs.replace(run.identity, started=f"2026-11-0{1 + at % days}T10:00:00Z"))
            for at, run in enumerate(runs(record, times))
        ]

    made = [*of(TORCH, 1.0), *of(RAY, 1.25)]
    assert said(made).sentences == (f"Ray took 1.25 times as long as torch (1.25 to 1.25, 6 pairs{said_of}).",)
    (table,) = tables.ratios(summarise(cases(made)))
    assert (table.columns[-1] == "over days") == (days > 1)
    assert days == 1 or table.rows[0][-1].endswith(f", {days} days")


@pytest.mark.parametrize(
    ("orders", "said_of"),
    [(1, ""), (2, " of 2 orders of hosts"), (6, "; over 6 orders of hosts 1.25 to 1.25"), (12, "")],
)
def test_shuffled_hosts_have_an_interval_over_their_orders_beside(orders: int, said_of: str) -> None:
    """Where each pair has an order of its own, the interval of the pairs is one over orders already."""

    def of(record: Record, times: float, *, shuffled: bool) -> list[Record]:
        made = []
        for at, run in enumerate(runs(record, times, STEPS * 2)):
            nodes = tuple(structs.replace(node, name=f"{node.name}-{at % orders}") for node in run.cluster.nodes)
            cluster = structs.replace(run.cluster, nodes=nodes)
            made.append(structs.replace(run, cluster=cluster, series=Series("one", at + 1, 12, shuffled=shuffled)))
        return made

    found = [*of(TORCH, 1.0, shuffled=True), *of(RAY, 1.25, shuffled=True)]
    assert said(found).sentences == (f"Ray took 1.25 times as long as torch (1.25 to 1.25, 12 pairs{said_of}).",)
    (table,) = tables.ratios(summarise(cases(found)))
    assert (table.columns[-1] == "over orders of hosts") == bool(said_of)
    assert not said_of or table.rows[0][-1].endswith(f", {orders} orders of hosts")
    chosen = said([*of(TORCH, 1.0, shuffled=False), *of(RAY, 1.25, shuffled=False)])
    assert chosen.sentences[0].endswith("(1.25 to 1.25, 12 pairs)."), "only an order that was asked for"


def test_a_duet_is_named() -> None:
    duet = [
        structs.replace(
            run,
            identity=structs.replace(run.identity, parameters={**run.identity.parameters, "duet": True}),
            series=Series("one", int(run.run_id[-1]) + 1, 6, partner=f"{other}-{run.run_id[-1]}", half=1),
            beside=(Beside("localhost", (f"{other}-{run.run_id[-1]}",)),),
        )
        for record, other in ((TORCH, "ray"), (RAY, "torch"))
        for run in runs(record, 1.0 if record is TORCH else 1.5)
    ]
    found = said(duet[:6], duet[:5:-1])
    assert found.sentences == ("Ray took 1.50 times as long as torch (1.50 to 1.50, 6 pairs).",), "whatever the order"
    assert found.title.endswith(", duet")
    assert found.marks == ("duet: both ran at the same moment, each on half of the cores",)


def test_from_which_number_of_ranks_one_process_is_beaten() -> None:
    def ranks(record: Record, workers: int, times: float) -> list[Record]:
        def identity(run: Record) -> RunIdentity:
            parameters = {**run.identity.parameters, "workers": workers}
            return structs.replace(run.identity, run_id=f"{run.run_id}-{workers}", parameters=parameters)

        return [
            structs.replace(
                run,
                identity=identity(run),
                series=structs.replace(run.series, label=f"w{workers}", index=index) if run.series else None,
            )
            for index, run in enumerate(runs(record, times), 1)
        ]

    every = [
        run
        for workers, torch, ray in ((2, 1.1, 2.0), (4, 0.7, 1.3))
        for own in (ranks(SINGLE, workers, 1.0), ranks(TORCH, workers, torch), ranks(RAY, workers, ray))
        for run in own
    ]
    first, last = said(every).sentences
    assert first.startswith("With 4 ranks Ray took 1.86 times as long as torch")
    assert last == "torch first beats one process with 4 ranks; Ray never up to 4."
    alone = [structs.replace(run, speed=structs.replace(run.speed, threads=1)) for run in every]
    assert said(alone).sentences[-1] == last.replace(".", " (one process of one thread).")
    few = [run for run in every if run.series and run.series.index < 3]
    assert said(few).sentences[-1] == "torch: not shown up to 4; Ray: not shown up to 4."


def test_the_rate_of_false_verdicts_stands_beside_a_verdict() -> None:
    (summary,) = summarise(cases([*runs(SINGLE, 1.0), *runs(TORCH, 0.5)]))
    cluster = TORCH.cluster.name
    assert answers.false_verdicts(summary, {cluster: "As measured."}) == "As measured."
    assert "not measured" in answers.false_verdicts(summary, {"another": "As measured."})
    *_, last = answers.lines([summary], {cluster: "As measured."})
    assert last == "  As measured."
    (none,) = summarise(cases(runs(TORCH, 0.5)))
    assert not answers.false_verdicts(none, {cluster: "As measured."}), "there is no verdict"


def test_lines_for_a_terminal() -> None:
    summaries = summarise(cases([*runs(SINGLE, 1.0), *runs(TORCH, 0.5), kept.failed(TORCH)]))
    assert list(answers.lines(summaries)) == [
        f"{answers.answer(summaries[0]).title} on {TORCH.cluster.name}",
        "  Torch beat one process (0.50 times its time, 0.50 to 0.50, 6 pairs).",
        "  (1 run failed)",
    ]


def test_a_workload_from_elsewhere_names_no_file_outside_of_the_report() -> None:
    assert texts.file_name("ppr-total") == "ppr-total"
    for name in ("../../x", "</script>", "w" * 300, ".hidden", "\u202eabc", "a\0b", "..", "a/b"):
        made = texts.file_name(name)
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,90}", made), made
    assert texts.file_name("a/b") != texts.file_name("a:b")
