"""Comparison: equal answers compare equal, every other answer is found, and times are compared only then."""

import copy
import io
import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typed_json
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from regatta.errors import CompareError
from regatta.records import stats
from regatta.records.answers import ABSENT, differences
from regatta.records.clocks import Phases
from regatta.records.compare import compare, ratio
from regatta.records.record import (
    ClusterFacts,
    ExitInfo,
    Failure,
    Framework,
    NodeFacts,
    Record,
    RunIdentity,
    Series,
    Speed,
)
from regatta.tasks import shown
from regatta.terminal.comparison import check, show, to_text, write_json
from regatta.terminal.console import Console

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
keys = st.text(alphabet="abc.", min_size=1, max_size=3)
answers = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)
Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> list[Path_]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [p for index, item in enumerate(value) for p in leaves(item, (*path, index))]
    return [path]


def at(value: Any, path: Path_) -> Any:
    for step in path:
        value = value[step]
    return value


def changed(value: Any, path: Path_, new: Any) -> Any:
    value = copy.deepcopy(value)
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def written(path: Path_) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).removeprefix(".") or "answer"


def name_of(path: Path_) -> str:
    return ".".join(p for p in path if isinstance(p, str))


@settings(deadline=None)
@given(answers, st.dictionaries(keys, st.floats(0, 1)))
def test_equal_answers_compare_equal(answer: Any, tolerance: dict[str, float]) -> None:
    assert differences(answer, copy.deepcopy(answer), tolerance) == []
    through_json = json.loads(json.dumps(answer))
    assert differences(answer, through_json, tolerance) == []


def same_number(a: Any, b: Any) -> bool:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (a, b))
    both_nan = all(isinstance(v, float) and math.isnan(v) for v in (a, b))
    return both_nan or (numbers and a == b) or (type(a) is type(b) and a == b)


@settings(deadline=None)
@given(answers, scalars, st.data())
def test_any_perturbed_leaf_is_found(answer: Any, new: Any, data: st.DataObject) -> None:
    where = leaves(answer)
    if not where:
        return
    path = data.draw(st.sampled_from(where))
    old = at(answer, path)
    if same_number(old, new):
        return
    for one, other in ((answer, changed(answer, path, new)), (changed(answer, path, new), answer)):
        found = differences(one, other, {})
        assert [d.path for d in found] == [written(path)]
        assert found[0].tolerance is None
    found = differences(answer, changed(answer, path, new), {})
    assert found[0].a is old
    assert found[0].b is new


@settings(deadline=None)
@given(answers, st.floats(1e-12, 1e3), st.data())
def test_tolerance_holds_for_its_name_only(answer: Any, tolerance: float, data: st.DataObject) -> None:
    where = [p for p in leaves(answer) if type(at(answer, p)) is float and abs(at(answer, p)) < 1e3]
    if not where:
        return
    path = data.draw(st.sampled_from(where))
    within = changed(answer, path, at(answer, path) + 0.9 * tolerance)
    beyond = changed(answer, path, at(answer, path) + 1.1 * tolerance + 1e-9)
    named = {name_of(path): tolerance}
    assert differences(answer, within, named) == []
    assert [d.path for d in differences(answer, beyond, named)] == [written(path)]
    assert [d.path for d in differences(answer, beyond, {name_of(path) + "x": 1e9})] == [written(path)]


@settings(deadline=None)
@given(st.dictionaries(keys, scalars, min_size=1), st.data())
def test_a_missing_name_is_found_on_both_sides(answer: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(answer)))
    less = {k: v for k, v in answer.items() if k != key}
    assert [(d.path, d.b) for d in differences(answer, less, {key: 1e9})] == [(key, ABSENT)]
    assert [(d.path, d.a) for d in differences(less, answer, {key: 1e9})] == [(key, ABSENT)]


def test_lists_are_traversed_by_names() -> None:
    a = {"sources": [{"sum": 1.0, "top": [[0.5, 0.25]]}, {"sum": 2.0, "top": []}]}
    b = {"sources": [{"sum": 1.1, "top": [[0.5, 0.26]]}, {"sum": 2.3, "top": []}]}
    paths = [d.path for d in differences(a, b, {"sources.sum": 0.2, "sources.top": 0.1})]
    assert paths == ["sources[1].sum"]
    assert [d.path for d in differences(a, b, {"sources": 9.0})] == [
        "sources[0].sum",
        "sources[0].top[0][1]",
        "sources[1].sum",
    ]


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        (1, 1.0, False),
        (True, 1, True),
        (False, 0.0, True),
        (None, 0, True),
        ("1", 1, True),
        (math.nan, math.nan, False),
        (math.nan, 1.0, True),
        (math.inf, math.inf, False),
        (math.inf, -math.inf, True),
        (math.inf, 1e308, True),
        (10**400, 1.5, True),
        (10**400, 10**400 + 5, False),
        (10**400, 10**400 + 50, True),
        (2**60, 2**60 + 11, True),
        ({}, [], True),
        ({}, None, True),
        ([], [1], True),
    ],
)
def test_values_at_the_edge_with_a_tolerance_of_ten(a: Any, b: Any, differ: bool) -> None:
    assert bool(differences({"x": a}, {"x": b}, {"x": 10.0})) == differ
    assert bool(differences({"x": b}, {"x": a}, {"x": 10.0})) == differ


def test_lengths_are_named() -> None:
    found = differences({"top": [1, 2]}, {"top": [1, 2, 3]}, {})
    assert [(d.path, d.a, d.b) for d in found] == [("top (number of elements)", 2, 3)]


def made(
    framework: Framework, run: str, total: float = 4.0, *, answer: Any = None, tolerance: Any = None, **changes: Any
) -> Record:
    record = Record(
        RunIdentity(run, "ppr", framework, "2026-01-31T10:00:00Z", {"alpha": 0.15}, release="abc"),
        ClusterFacts("lab", (NodeFacts("node1", "10.0.0.1", (0,)),)),
        Speed(threads=2),
        Phases(0.25, 0.5, 0.125, 0.5, total - 2.0, 0.625, total, 0.0),
        (),
        ExitInfo("succeeded", 0),
        answer={"sum": 1.0, "names": ["a"]} if answer is None else answer,
        tolerance={"sum": 0.01} if tolerance is None else tolerance,
    )
    return structs.replace(record, **changes)


def three() -> dict[str, list[Record]]:
    return {
        "torch": [made("torch", "t1", 3.0), made("torch", "t2", 3.5), made("torch", "t3", 5.0)],
        "ray": [
            made("ray", "r1", 6.0),
            made("ray", "r2", 7.5, answer={"sum": 1.001, "names": ["a"]}),
            made("ray", "r3", 8.0),
        ],
        "single": [made("single", "s1", 4.0)],
    }


def one_each(**totals: float) -> Mapping[str, list[Record]]:
    return {label: [made(label, f"{label}-1", total)] for label, total in totals.items()}  # type: ignore[arg-type]


def test_medians_and_ranges_side_by_side() -> None:
    result = compare(three())
    assert result.comparable
    check(result)
    assert list(result.runs) == ["single", "torch", "ray"]
    assert list(result.spreads) == ["sync", "launch", "rendezvous", "load", "compute", "collect", "total"]
    total = result.spreads["total"]
    assert (total["torch"].median, total["torch"].low, total["torch"].high, total["torch"].n) == (3.5, 3.0, 5.0, 3)
    assert total["single"].n == 1
    assert to_text(result).splitlines() == [
        "ppr",
        "seconds     single                 torch                   ray",
        "sync         0.250  0.250 (0.250..0.250)  0.250 (0.250..0.250)",
        "launch       0.500  0.500 (0.500..0.500)  0.500 (0.500..0.500)",
        "rendezvous   0.125  0.125 (0.125..0.125)  0.125 (0.125..0.125)",
        "load         0.500  0.500 (0.500..0.500)  0.500 (0.500..0.500)",
        "compute      2.000  1.500 (1.000..3.000)  5.500 (4.000..6.000)",
        "collect      0.625  0.625 (0.625..0.625)  0.625 (0.625..0.625)",
        "total        4.000  3.500 (3.000..5.000)  7.500 (6.000..8.000)",
        "runs             1                     3                     3",
        "",
        "The answers of 7 runs are equal within the workload's tolerance.",
        "In total ray took 1.90 times as long as torch (medians 7.50 s, 3.50 s); too few runs (3 pairs, 6 are needed).",
        "In compute it took 3.08 times as long as torch; too few runs (3 pairs, 6 are needed).",
        "In total torch took 0.88 times as long as one process (3.50 s, 4.00 s); the cluster beat one process.",
        "In total ray took 1.88 times as long as one process (7.50 s, 4.00 s); the cluster did not beat one process.",
        "Median (least..greatest) of 1 single, 3 torch, 3 ray runs.",
        "One run of single: no statement about its spread.",
    ]


def test_one_run_each_says_nothing_about_spread() -> None:
    result = compare(one_each(single=4.0, torch=3.0, ray=2.5))
    assert "One run each: no statement about spread." in result.words
    assert result.words[1] == "In total torch took 1.20 times as long as ray (3.00 s, 2.50 s)."
    assert "(" not in to_text(result).split("\n\n")[0]


def test_many_frameworks_are_compared_with_the_fastest() -> None:
    seconds = {"torch": 3.0, "ray": 2.5, "mpi": 2.8, "dask": 4.0}
    words = [word for word in compare(one_each(**seconds)).words if word.startswith("In total")]
    assert [word.partition(" took")[0] for word in words] == [f"In total {name}" for name in ("mpi", "torch", "dask")]
    assert all(" ray (" in word for word in words)


def six(
    framework: Framework, factor: float, noise: tuple[float, ...] = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)
) -> list[Record]:
    """Six repeats of a series that drifts from 10 s to 20 s."""
    return [
        made(framework, f"{framework}-{i}", factor * (8.0 + 2.0 * i) * noise[i - 1], series=Series("s", i, 6))
        for i in range(1, 7)
    ]


def test_six_pairs_get_an_interval_and_a_verdict() -> None:
    runs = {"torch": six("torch", 1.0), "ray": six("ray", 1.1, (1.0,) * 6), "single": six("single", 2.0, (1.0,) * 6)}
    words = [w for w in compare(runs).words if w.startswith("In total")]
    assert [w.rpartition("; at ")[2] for w in words] == [
        "95 % 1.08 to 1.12 times: slower.",
        "95 % 0.49 to 0.51 times: faster; the cluster beat one process.",
        "95 % 0.55 to 0.55 times: faster; the cluster beat one process.",
    ]
    assert words[0].startswith("In total ray took 1.10 times as long as torch (medians 16.50 s, 15.09 s)")


def test_repeats_are_paired_by_their_number_not_by_their_order() -> None:
    torch, ray = six("torch", 1.0), six("ray", 1.0)
    assert ratio(torch, ray[::-1]) == stats.Ratio(1.0, 6, 1.0, 1.0, 1.0)
    assert ratio(torch[1:], ray[:-1]) == stats.Ratio(pytest.approx(1.0), 4)
    assert ratio(torch, []) is None


def test_a_difference_that_repeats_do_not_bear_out_is_not_shown() -> None:
    runs = {"torch": six("torch", 1.0), "single": six("single", 1.0, (1.03, 0.97, 1.01, 0.99, 1.0, 1.0))}
    words = [w for w in compare(runs).words if w.startswith("In total")]
    assert len(words) == 1
    assert words[0].endswith(": no difference shown.")
    assert "beat" not in words[0]


def test_two_to_five_pairs_are_too_few() -> None:
    runs = {
        "torch": [made("torch", "t1", 3.0), made("torch", "t2", 5.0)],
        "ray": [made("ray", "r1", 4.0), made("ray", "r2", 6.0)],
        "single": [made("single", "s1", 4.5), made("single", "s2", 4.6)],
    }
    words = [w for w in compare(runs).words if w.startswith("In ")]
    assert len(words) == 6
    assert all(w.endswith("; too few runs (2 pairs, 6 are needed).") for w in words)


def test_as_long_as() -> None:
    words = compare(one_each(single=4.0, torch=4.001, ray=4.0)).words
    assert words[1] == "In total torch took as long as ray (4.00 s, 4.00 s)."
    assert words[2].endswith("the cluster did not beat one process.")


@pytest.mark.parametrize("labels", [("torch",), ("ray",), ("single", "ray"), ("torch", "ray")])
def test_any_choice_of_frameworks(labels: tuple[Framework, ...]) -> None:
    result = compare(
        {label: [made(label, f"{label}-1")] if label in labels else [] for label in ("single", "torch", "ray")}
    )
    assert tuple(result.runs) == labels
    assert to_text(result).splitlines()[1].split() == ["seconds", *labels]


def test_unknown_phases_are_dashes() -> None:
    runs = {"torch": [made("torch", "t1", phases=Phases(sync=1.0, total=3.0))], "ray": [made("ray", "r1")]}
    text = to_text(compare(runs))
    assert "launch          -  0.500" in text
    assert "In total ray took 1.33" in text


def test_overlap_of_phases_is_said() -> None:
    phases = Phases(0.0, 1.0, 0.0, 10.0, 14.0, 2.0, 18.0, 9.0)
    words = compare({"torch": [made("torch", "t1", phases=phases)]}).words
    assert any("phases of torch add up to 9.00 s more than its total" in w for w in words)
    assert not any("add up" in w for w in compare(one_each(torch=4.0)).words)


def test_different_answers_forbid_clocks() -> None:
    runs = three()
    runs["ray"][1] = made("ray", "r2", 7.5, answer={"sum": 1.02, "names": ["b"]})
    result = compare(runs)
    assert not result.comparable
    assert result.spreads == {}
    assert {d.path for d in result.differences} == {"sum", "names[0]"}
    text = to_text(result)
    assert "ppr: times are not compared:" in text
    assert "the answers differ in 2 places" in text
    assert "  sum: torch run t1 1.0, ray run r2 1.02 (tolerance 0.01)" in text
    assert '  names[0]: torch run t1 "a", ray run r2 "b" (must be equal)' in text
    assert "7.5" not in text
    assert "7.5" not in shown.text(shown.comparison(result))
    with pytest.raises(CompareError, match=r"ray run r2 1\.02"):
        check(result)
    with pytest.raises(CompareError, match=r"ray run r2 1\.02"):
        show(result, Console(io.StringIO(), io.StringIO()))


@pytest.mark.parametrize("label", ["single", "torch", "ray"])
@pytest.mark.parametrize("repeat", [0, 1])
def test_one_odd_answer_among_repeats_is_found(label: Framework, repeat: int) -> None:
    runs = {name: [made(name, f"{name}-{i}") for i in range(2)] for name in ("single", "torch", "ray")}  # type: ignore[arg-type]
    runs[label][repeat] = made(label, "odd", answer={"sum": 2.0, "names": ["a"]})
    result = compare(runs)
    assert not result.comparable
    assert all("odd" in str(d) for d in result.differences)


def test_each_two_runs_are_compared_not_only_with_the_first() -> None:
    runs = {
        "single": [made("single", "s", answer={"sum": 1.0})],
        "torch": [made("torch", "t", answer={"sum": 1.008})],
        "ray": [made("ray", "r", answer={"sum": 0.992})],
    }
    assert [str(d) for d in compare(runs).differences] == ["sum: torch run t 1.008, ray run r 0.992 (tolerance 0.01)"]


def test_the_stricter_tolerance_counts() -> None:
    near = {"sum": 1.005}
    assert compare({"torch": [made("torch", "t")], "ray": [made("ray", "r", answer=near)]}).reasons == (
        "the answers differ in 1 place",
    )
    close = {"sum": 1.005, "names": ["a"]}
    for tolerance in ({"sum": 0.001}, {}):
        strict = {"torch": [made("torch", "t")], "ray": [made("ray", "r", answer=close, tolerance=tolerance)]}
        assert not compare(strict).comparable


@pytest.mark.parametrize(
    ("state", "verb"), [("failed", "failed"), ("cancelled", "was cancelled"), ("lost", "was lost")]
)
def test_runs_that_did_not_succeed_forbid_clocks(state: Any, verb: str) -> None:
    runs = three()
    failure = Failure("killed by \x1b[31mSIGKILL", "node2", 3)
    runs["torch"][1] = made("torch", "t2", exit=ExitInfo(state, -9, failure))
    assert compare(runs).reasons == (f"torch run t2 {verb} on node2, rank 3: killed by SIGKILL",)
    runs["torch"][1] = made("torch", "t2", exit=ExitInfo(state, 1))
    assert compare(runs).reasons == (f"torch run t2 {verb}",)


def test_no_answer_forbids_clocks() -> None:
    runs = {"torch": [structs.replace(made("torch", "t"), answer=None)], "ray": [made("ray", "r")]}
    assert compare(runs).reasons == (
        "torch run t printed no answer, so nothing shows that it did the same as the others",
    )


def test_different_workloads_forbid_clocks() -> None:
    other = made("ray", "r", identity=RunIdentity("r", "stars", "ray", "2026-01-31T10:00:00Z"))
    assert compare({"torch": [made("torch", "t")], "ray": [other]}).reasons == (
        "the runs are of different workloads: ppr, stars",
    )


def test_nothing_to_compare() -> None:
    with pytest.raises(CompareError, match="no runs"):
        compare({"torch": []})


def test_what_was_not_the_same_is_said() -> None:
    identity = structs.replace(made("ray", "r").identity, parameters={"alpha": 0.2}, release="def")
    runs = {"torch": [made("torch", "t")], "ray": [made("ray", "r", identity=identity, speed=Speed(threads=4))]}
    said = [w for w in compare(runs).words if w.startswith("Not the same")]
    assert said == [
        "Not the same in all runs: parameter alpha: torch 0.15; ray 0.2",
        'Not the same in all runs: release: torch "abc"; ray "def"',
        "Not the same in all runs: threads a rank: torch 2; ray 4",
    ]
    said = list(compare(runs | {"mpi": [made("mpi", "m")]}).words)
    assert "Not the same in all runs: threads a rank: torch, mpi 2; ray 4" in said


@pytest.mark.parametrize(
    ("ray", "said"), [(2, []), (4, ["Not the same in all runs: parameter workers: torch 2; ray 4"])]
)
def test_that_one_process_is_one_worker_is_not_said(ray: int, said: list[str]) -> None:
    def of(framework: Framework, workers: int) -> list[Record]:
        run = made(framework, framework)
        parameters = {**run.identity.parameters, "workers": workers}
        return [structs.replace(run, identity=structs.replace(run.identity, parameters=parameters))]

    groups = {"single": of("single", 1), "torch": of("torch", 2), "ray": of("ray", ray)}
    assert [word for word in compare(groups).words if word.startswith("Not the same")] == said


def test_a_tolerance_for_nothing_is_said() -> None:
    words = compare({"torch": [made("torch", "t", tolerance={"summ": 1.0, "names": 0.0})]}).words
    assert [w for w in words if "names nothing" in w] == ["The tolerance of summ names nothing in the answer."]


def test_text_of_an_answer_does_nothing_to_a_terminal() -> None:
    one = {"torch": [made("torch", "t", answer={"\x1b[2Jx": "\x1b]0;title\x07"})]}
    text = to_text(compare(one | {"ray": [made("ray", "r", answer={"\x1b[2Jx": "[red]"})]}))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert '"[red]"' in text


def test_long_lists_of_differences_are_cut() -> None:
    runs = {
        "torch": [made("torch", "t", answer={"v": list(range(100))})],
        "ray": [made("ray", "r", answer={"v": list(range(1, 101))})],
    }
    lines = to_text(compare(runs)).splitlines()
    assert len(lines) == 23
    assert lines[-1] == "  and 80 more"


@pytest.mark.parametrize("differ", [False, True])
def test_json_has_the_same_facts(tmp_path: Path, differ: bool) -> None:
    runs = three()
    if differ:
        runs["ray"][0] = made("ray", "r1", answer={"sum": math.nan})
    result = compare(runs)
    path = tmp_path / "out.json"
    path.write_text("old")
    write_json(shown.text(shown.comparison(result)), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    typed_json.read("run", path.read_text())
    document = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert document["comparable"] is not differ
    assert document["runs"] == {"single": ["s1"], "torch": ["t1", "t2", "t3"], "ray": ["r1", "r2", "r3"]}
    assert tuple(document["words"]) == result.words
    if differ:
        assert document["phases"] is None
        found = {d["path"]: d for d in document["differences"] if d["run_a"] == "torch run t1"}
        assert found["sum"]["b"] == "NaN"
        assert "b" not in found["names"]
    else:
        assert document["phases"]["total"]["torch"] == {"median": 3.5, "low": 3.0, "high": 5.0, "n": 3}
        assert document["differences"] == []


def test_json_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match=r"none/out\.json cannot be written"):
        write_json("{}", tmp_path / "none" / "out.json")


def test_a_narrow_terminal_gets_further_tables_and_loses_no_cell() -> None:
    result = compare(three())
    lines = to_text(result, 60).split("\n\n")[0].splitlines()[1:]
    assert max(map(len, lines)) <= 60
    assert [line.split() for line in lines if line.startswith("seconds")] == [
        ["seconds", "single", "torch"],
        ["seconds", "ray"],
    ]
    assert ["compute", "5.500", "(4.000..6.000)"] in [line.split() for line in lines]


def test_show_prints_plain_text_in_a_pipe() -> None:
    out = io.StringIO()
    result = compare(three())
    show(result, Console(out, io.StringIO()))
    assert out.getvalue() == to_text(result) + "\n"


def test_a_run_that_did_not_work_on_the_cluster_has_no_row() -> None:
    aside = structs.replace(made("ray", "r9"), warnings=("not compared: its driver never came",))
    both = {"torch": [made("torch", "t1")], "ray": [made("ray", "r1"), aside]}
    found = compare(both)
    assert found.runs == {"torch": ("t1",), "ray": ("r1",)} and found.spreads["total"]["ray"].n == 1
    assert any("r9 is left out: its driver never came" in line for line in found.words)
    alone = compare({"torch": both["torch"], "ray": [aside]})
    assert [*alone.runs] == [*alone.spreads["total"]] == ["torch"]
    nothing = compare({"ray": [aside]})
    assert not nothing.comparable and "r9 is left out" in nothing.reasons[0]


def test_a_program_that_prints_no_answer_is_timed_and_stands_beside_no_others() -> None:
    silent = [structs.replace(made("torch", run), answer=None) for run in ("t1", "t2")]
    found = compare({"torch": silent})
    assert found.comparable
    assert found.spreads["total"]["torch"].n == 2
    assert found.words[0].startswith("No answer was printed")
    assert not compare({"torch": silent, "ray": [structs.replace(made("ray", "r"), answer=None)]}).comparable


def test_a_number_that_newer_code_adds_is_not_compared_and_named() -> None:
    new = {"answer": {"sum": 1.0, "test_loss": 0.5}, "tolerance": {"sum": 0.01, "test_loss": 0.1}}
    old = {"answer": {"sum": 1.0}, "tolerance": {"sum": 0.01}}
    later = structs.replace(made("ray", "r1").identity, release="def")
    runs = {"torch": [made("torch", "t1", **old)], "ray": [made("ray", "r1", **new, identity=later)]}
    result = compare(runs)
    assert result.comparable
    assert "Not compared: test_loss, which the code of some runs does not give yet." in result.words
    assert not compare({"torch": [made("torch", "t1", **old)], "ray": [made("ray", "r1", **new)]}).comparable
    worse = {**new, "answer": {"sum": 2.0, "test_loss": 0.5}}
    assert not compare({**runs, "ray": [made("ray", "r1", **worse, identity=later)]}).comparable
