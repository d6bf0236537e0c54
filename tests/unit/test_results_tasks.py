"""Commands about records: fab runs, show, diff, report, results-*."""

import json
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import kept
import pytest
import typed_json
from invoke.context import Context
from msgspec import structs

from regatta import paths
from regatta.errors import RecordError, RunFailedError, UsageError
from regatta.frameworks import plan
from regatta.hosts import inventories
from regatta.hosts.remote import ourselves
from regatta.options.declaration import RunOptions
from regatta.records import document
from regatta.records.record import schema
from regatta.records.store import Store
from regatta.report import diff, listing, make, parquet, show, sources
from regatta.report.listing import Wanted, choose, moment, of_records
from regatta.run.request import Request
from regatta.run.session import Session
from regatta.tasks import shown
from regatta.tasks.namespace import namespace
from regatta.terminal.console import Console

SCRIPT = """\
import json, os, sys, time
def tell(event, **fields):
    line = json.dumps({"event": event, "rank": int(os.environ["RANK"]), "t": time.time(), **fields})
    print("@regatta " + line, flush=True)
tell("ready")
tell("phase", name="load", seconds=0.01)
for epoch in (1, 2):
    tell("phase", name="epoch", seconds=0.02)
    tell("progress", what="epochs", done=epoch, total=2, loss=1 / epoch)
tell("phase", name="compute", seconds=0.05)
if sys.argv[1:] == ["fail"]:
    sys.exit(7)
if os.environ["RANK"] == "0":
    tell("result", answer={"sum": 1.0}, tolerance={"sum": 0.1})
"""


@pytest.fixture
def store() -> Store:
    return kept.copy_to(paths.results_dir())


def fab(*words: str, inventory: Path | None = None) -> tuple[int, str]:
    """`fab WORDS`: its exit code and all that it printed."""
    command = [
        str(Path(sys.executable).with_name("fab")),
        *words,
        *(["--inventory", str(inventory)] if inventory else []),
    ]
    done = subprocess.run(
        command,
        cwd=paths.PROJECT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stdout


def run(here: Path, source: Path, *args: str, name: str) -> None:
    """A real run of a script that tells what a workload tells."""
    (source / "train.py").write_text(SCRIPT)
    with Session(inventories.load(str(here)), Console(), paths.results_dir()) as session:
        program = plan.Program.script("train.py", args)
        session.run(Request(program, "torch", source, RunOptions(2, name)))


def test_a_real_run_has_its_progress_and_is_listed_once(here: Path, source: Path) -> None:
    run(here, source, name="mine")
    with pytest.raises(RunFailedError):
        run(here, source, "fail", name="broken")
    kept_run = Store(paths.results_dir()).find("mine")
    assert [(done, value) for _, done, value in kept_run.ranks[1].progress["epochs"]] == [(1, 1.0), (2, 0.5)]
    code, text = fab("runs", inventory=here)
    assert code == 0, text
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    assert [(row[0], row[1], *row[-4:]) for row in rows[1:]] == [
        ("mine", "succeeded", "train", ourselves(), "-", "yes"),
        ("broken", "failed", "train", ourselves(), "-", "yes"),
    ]
    code, text = fab("runs", "--failed", inventory=here)
    assert [line.split()[0] for line in text.splitlines()] == ["run", "broken"]
    code, text = fab("ls", "mine", "--json", inventory=here)
    assert code == 0 and typed_json.read("ls", text).run == "mine", text
    code, text = fab("logs", "mine", "--json", "--tail", "1", "--rank", "0", inventory=here)
    assert code == 0 and typed_json.read("logs", text).rank == 0, text
    code, text = fab("show", "broken")
    assert code == 0, text
    assert "exit code 7" in text or "exit status 7" in text or "7" in text.partition("failure")[2].splitlines()[0]


def test_programs_get_values_by_their_types(store: Store, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(command: str, *words: Any, **flags: Any) -> Any:
        namespace[command](Context(), *words, **flags, json=True)
        return typed_json.read(command, capsys.readouterr().out)

    one, other = (kept.one("stars", framework) for framework in ("torch", "ray"))
    listed = {run.run: run for run in told("runs", records=True).runs}
    assert listed[one.run_id].took == one.phases.total and listed[one.run_id].record
    namespace["show"](Context(), one.run_id, json=True)
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema()).validate(printed)
    assert printed["identity"] == document.to_dict(one)["identity"]
    found = told("diff", one.run_id, other.run_id, inventory="none")
    assert ("framework", "torch", "ray") in [(value.path, value.a, value.b) for value in found.asked]
    assert found.phases["total"] == shown.Times(one.phases.total, other.phases.total) and found.answers == []
    assert [(node.node, node.error) for node in told("status", inventory=str(here)).nodes] == [("here", None)]
    assert told("environments", inventory=str(here)) == shown.Environments("here", [], {})
    assert told("runs", inventory=str(here)).unasked == {}
    assert told("queue", inventory=str(here)) == shown.Queue("here", [])
    code, text = fab("exec", "--json", "--inventory", str(here), "sh", "-c", "echo out; exit 3")
    done = typed_json.read("exec", text)
    assert code == 3 and done == shown.Executed([shown.Output("here", 3, "out\n")], {})
    code, text = fab("top", "--json", "--interval", "0.1", inventory=here)
    (node,) = typed_json.read("top", text)
    assert code == 0 and (node.node, node.error) == ("here", None)
    assert 0 <= node.rates.memory <= 1 and node.sample["cores"]


def test_records_alone_can_be_listed(store: Store) -> None:
    code, text = fab("runs", "--records", "--workload", "stars", "--framework", "ray", "--sort", "took", "--count", "2")
    assert code == 0, text
    *rows, last = [line.split() for line in text.splitlines()[1:]]
    took = sorted(r.phases.total for r in kept.records() if r.run_id.startswith("stars-ray") and r.phases.total)
    assert [row[7] for row in rows] == [f"{value:.1f}" for value in took[-2:]]
    assert last[:4] == ["and", str(len(took) - 2), "earlier", "ones:"]
    assert fab("runs", "--records", "--since", "2999-01-01")[1].startswith("no runs like that on ")
    assert fab("runs", "--records", "--sort", "colour") == (
        2,
        "error: --sort takes started, run, workload, framework, state, took, not 'colour'\n",
    )


def test_runs_that_do_not_fit_are_left_out() -> None:
    lines = of_records([*kept.records(), kept.failed(kept.one("stars", "torch"))])
    assert {line.workload for line in choose(lines, Wanted(workload="digits"))} == {"digits"}
    assert [line.run for line in choose(lines, Wanted(failed=True))] == ["failed-run"]
    border = sorted(line.started for line in lines)[3]
    assert all(line.started >= border for line in choose(lines, Wanted(since=border)))
    assert len(choose(lines, Wanted(since=border))) + len(choose(lines, Wanted(before=border))) == len(lines)


def test_times_as_people_write_them() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    assert moment("since", "3d", now) == now - timedelta(days=3)
    assert moment("since", "90m", now) == now - timedelta(minutes=90)
    assert moment("since", "2026-11-21") == datetime(2026, 11, 21, tzinfo=timezone.utc)
    assert moment("since", "2026-11-21T12:00:00Z") == now
    assert moment("since", None) is None
    for text in ("yesterday", "3y", "99999999999w", ""):
        with pytest.raises(UsageError, match="--since takes a date"):
            moment("since", text)


def test_a_run_is_shown_with_its_phases_and_slowest_rank() -> None:
    record = kept.one("stars", "torch")
    text = "\n".join(show.lines(record))
    for phase in ("sync", "launch", "rendezvous", "load", "compute", "collect", "total"):
        assert f"\n  {phase} " in text
    assert text.count("slowest\n") == 1
    shown = "\n".join(show.lines(kept.failed(record)))
    assert "failure     localhost, rank 1: killed by SIGKILL" in shown
    evil = structs.replace(record, warnings=("\x1b[2Jgone\x07",))
    assert "\x1b" not in "\n".join(show.lines(evil))


def test_what_a_run_used_is_shown() -> None:
    shown = "\n".join(show.lines(kept.measured(kept.one("stars", "torch"))))
    assert re.search(r"localhost +4\.00 s +3\.00 GiB +1\.00 GiB +0 B +5\.0 MB +2\.5 MB +7\.0 MB", shown)
    assert re.search(r"node2 +– +– +– +– +– +– +2\.0 MB", shown)
    assert "received" not in "\n".join(show.lines(kept.one("stars", "torch")))


def test_the_last_run_can_be_shown_and_unknown_ones_are_named(store: Store, tmp_path: Path) -> None:
    latest = kept.records()[-1]
    assert sources.find(store, "last") == latest
    assert sources.find(store, str(kept.FOLDER / f"{latest.run_id}.json")) == latest
    with pytest.raises(RecordError, match="no record of a run 'nothing'"):
        sources.find(store, "nothing")
    with pytest.raises(RecordError, match=r"no record in .*empty yet"):
        sources.find(Store(tmp_path / "empty"), "last")


def test_a_difference_of_releases_is_told_by_the_nodes_or_by_git(tmp_path: Path) -> None:
    a, b = kept.one("stars", "torch"), kept.one("stars", "ray")
    a = structs.replace(a, identity=structs.replace(a.identity, release="one", commit="0" * 40))
    b = structs.replace(b, identity=structs.replace(b.identity, release="two", commit="--output=/tmp/x"))
    files = {"one": {"a.py": "f 1", "b.py": "f 1", "c.py": "f 1"}, "two": {"a.py": "f 1", "b.py": "f 2", "d.py": "f 1"}}
    text = diff.lines(a, b, files.get, tmp_path)
    assert [line for line in text if ".py" in line] == ["  added d.py", "  changed b.py", "  removed c.py"]
    assert "  framework: torch -> ray" in text
    assert "versions: the same" in text
    text = diff.lines(a, b, lambda release: None, tmp_path)
    assert any("which files changed is not known" in line for line in text)


def test_git_says_what_changed_between_two_commits(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", *words)
        return subprocess.run(
            ["git", "-C", tmp_path, *named], check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    commits = []
    for text in ("1", "2"):
        (tmp_path / "a b.py").write_text(text)
        (tmp_path / f"new{text}.py").write_text("")
        git("add", "-A")
        git("commit", "-qm", text)
        commits.append(git("rev-parse", "HEAD"))
    a, b = kept.one("stars", "torch"), kept.one("stars", "torch")
    a = structs.replace(a, identity=structs.replace(a.identity, release="one", commit=commits[0], dirty=False))
    b = structs.replace(b, identity=structs.replace(b.identity, release="two", commit=commits[1], dirty=True))
    text = diff.lines(a, b, lambda release: None, tmp_path)
    assert [line for line in text if ".py" in line] == ["  added new2.py", "  changed a b.py"]
    assert any("B with changes that were not committed" in line for line in text)
    same = structs.replace(a, identity=structs.replace(b.identity, release="one"))
    assert any("no committed file differs" in line for line in diff.lines(same, b, lambda release: None, tmp_path))


def test_nodes_know_the_files_of_releases(here: Path, source: Path) -> None:
    run(here, source, name="first")
    (source / "added.py").write_text("")
    run(here, source, name="second")
    code, text = fab("diff", "first", "second", inventory=here)
    assert code == 0, text
    assert "  added added.py\n" in text
    assert "answers are equal" in text


def test_runs_are_deleted_from_the_nodes_and_their_records_stay(here: Path, source: Path) -> None:
    run(here, source, name="finished")
    code, text = fab("runs-gc", inventory=here)
    assert code == 2 and "--before" in text
    assert fab("runs-gc", "--before", "tomorrow", inventory=here)[0] == 2
    code, text = fab("runs-gc", "--before", "1d", "--yes", inventory=here)
    assert code == 0 and "here: 0 run(s), 0 input file(s), 0.0 MB deleted" in text
    code, text = fab("runs-gc", "--before", "0m", inventory=here)
    assert code == 2 and re.search(r"^finished .* train", text, re.M), text
    assert "would delete" in text and "--yes" in text
    code, text = fab("runs-gc", "--before", "0m", "--yes", inventory=here)
    assert code == 0 and "here: 1 run(s), 0 input file(s)" in text
    assert fab("logs", "finished", inventory=here)[0] == 1
    assert "finished" in fab("runs", inventory=here)[1]


def test_records_travel_as_parquet(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    store.save(kept.failed(kept.one("stars", "torch")))
    file = tmp_path / "all.parquet"
    code, text = fab("results-export", str(file))
    assert code == 0, text
    table = pyarrow.parquet.read_table(file).to_pylist()
    by_run = {row["run"]: row for row in table}
    record = kept.one("stars", "ray")
    assert by_run[record.run_id]["total"] == record.phases.total
    assert by_run["failed-run"]["cause"] == "killed by SIGKILL"
    assert fab("results-export", str(file)) == (2, f"error: {file} is there already: another name, or --force\n")
    assert fab("results-export", "all.csv")[0] == 2
    monkeypatch.setenv("REGATTA_RESULTS", str(tmp_path / "elsewhere"))
    code, text = fab("results-import", str(file))
    assert (code, text) == (0, f"{len(table)} record(s) added to {tmp_path}/elsewhere, 0 were there already\n")
    assert Store(tmp_path / "elsewhere").list() == store.list()
    assert fab("results-import", str(file))[1].startswith("0 record(s) added")


def test_an_import_overwrites_nothing(store: Store, tmp_path: Path) -> None:
    record = kept.records()[0]
    other = Store(tmp_path / "other")
    other.save(kept.again(record, record.run_id, times=2))
    code, text = fab("results-import", str(other.root))
    assert code == 1
    assert f"stay: {record.run_id}" in text
    assert store.find(record.run_id) == record


@pytest.mark.parametrize("content", [b"", b"PAR1", b"text"])
def test_what_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(RecordError, match=r"x\.parquet is not a Parquet file of records"):
        parquet.read(tmp_path / "x.parquet")


def test_a_parquet_file_of_others_and_broken_rows_are_named(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(RecordError, match=r"a\.parquet"):
        parquet.read(tmp_path / "a.parquet")
    text = document.to_json(kept.records()[0])
    pyarrow.parquet.write_table(pyarrow.table({"record": [text, text[:99], None]}), tmp_path / "b.parquet")
    found = parquet.read(tmp_path / "b.parquet")
    assert len(found.records) == 1
    assert [line.partition(" is")[0] for line in found.broken] == [f"{tmp_path}/b.parquet, row {n}" for n in (2, 3)]


def test_nothing_is_deleted_without_asking(store: Store) -> None:
    before = store.list()
    assert fab("results-gc")[0] == 2
    code, text = fab("results-gc", "--workload", "digits")
    assert code == 2
    assert "this would delete these 6 record(s)" in text
    assert store.list() == before
    code, text = fab("results-gc", "--workload", "digits", "--yes")
    assert (code, text.splitlines()[-1]) == (0, "deleted 6 record(s)")
    assert {record.identity.workload for record in store.list().records} == {"stars"}
    assert fab("results-gc", "--failed", "--yes")[1].startswith("no records like that in ")


def test_the_report_is_made_by_hand(store: Store, tmp_path: Path) -> None:
    (store.root / "short.json").write_text("{")
    code, text = fab("report", "--out", str(tmp_path / "out"), "--charts", "svg", "--cases", "1")
    assert code == 0, text
    assert "warning: left out: " in text
    assert "15 run(s)" in text
    assert (tmp_path / "out" / "report.html").is_file()
    assert fab("report", "--run", "nothing")[0] == 1
    assert make.report(store.root).broken


def test_lines_of_nodes_are_those_of_their_cluster() -> None:
    lines = listing.of_nodes([], kept.records(), "elsewhere")
    assert lines == []
