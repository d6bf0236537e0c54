"""Sealed sets: what was removed, changed or added is named, and who signed is shown; by the real ssh-keygen."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import kept
import pytest
import typed_json
from invoke.context import Context
from msgspec import structs

from regatta import paths
from regatta.errors import RecordError
from regatta.node import manifest
from regatta.records.record import Record, Series
from regatta.records.store import Store
from regatta.release import tree
from regatta.report import reproduced, sealed
from regatta.tasks import sealing
from regatta.tasks.namespace import namespace

Members = dict[str, bytes]
GIVEN = {"graph": "x.txt", "graph_sha256": "00ff"}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "key")


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture
def project(tmp_path: Path) -> tree.Tree:
    folder = tmp_path / "project"
    (folder / "bin").mkdir(parents=True)
    (folder / "regatta.toml").write_text("")
    (folder / "plan.toml").write_text("repeats = 3\n")
    (folder / "bin/run").write_text("#!/bin/sh\n")
    (folder / "bin/run").chmod(0o755)
    (folder / "link").symlink_to("bin/run")
    return tree.read(folder)


def runs(release: str, indexes: tuple[int, ...] = (1, 2, 3)) -> list[Record]:
    return [
        structs.replace(
            one := kept.again(kept.one("stars", framework), f"{framework}-{index}"),
            series=Series("set-1/p", index, 3, "plan", "set-1", "p"),
            identity=structs.replace(one.identity, release=release),
        )
        for framework in ("single", "torch")
        for index in indexes
    ]


def seal(project: tree.Tree, key: Path, folder: Path, some: list[Record] | None = None) -> Path:
    file = folder / f"set-1{sealed.ENDING}"
    sealed.seal(some or runs(project.release), project, "./plan.toml", str(key), file)
    return file


def test_a_plan_that_is_not_in_the_code_goes_along(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    """A person's plan of Regatta's workloads: its folder is not what ran."""
    (tmp_path / "mine").mkdir()
    plan = tmp_path / "mine/own.toml"
    plan.write_text("repeats = 3\n")
    file = tmp_path / f"set-1{sealed.ENDING}"
    made = sealed.seal(runs(project.release), project, plan, str(key), file)
    assert made.plan == "../own.toml" and made.plan_text == plan.read_bytes()
    sealed.unpack(made, tmp_path / "there/code")
    assert (tmp_path / "there/code" / made.plan).read_text() == plan.read_text()
    with pytest.raises(RecordError, match=r"plan/own\.toml was changed"):
        sealed.verify(changed(file, lambda members: members.update({"plan/own.toml": b"repeats = 9\n"})))


def changed(file: Path, change: Callable[[Members], object], key: Path | None = None) -> Path:
    """The file with other members; signed again with `key`, as an attacker would do."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if key:
        told = json.loads(members["manifest.json"])
        told["files"] = {
            name: hashlib.sha256(content).hexdigest() for name, content in members.items() if "manifest" not in name
        }
        members["manifest.json"] = json.dumps(told).encode()
        members["manifest.json.sig"] = sealed._sign(members["manifest.json"], str(key))
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def test_all_of_it_is_there_and_the_code_is_what_ran(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    failed = structs.replace(kept.failed(runs(project.release)[0]), series=runs(project.release)[0].series)
    file = seal(project, key, tmp_path, [*runs(project.release), failed])
    found = sealed.verify(file, f"{key}.pub")
    assert sealed.verify(file, found.fingerprint) == found
    assert found.fingerprint.startswith("SHA256:") and found.missing == ()
    assert {run.run_id for run in found.records} == {run.run_id for run in [*runs(project.release), failed]}
    lines = list(found.lines())
    assert (
        {"node.lock", "torch-cpu.lock"} <= {*found.locks}
        and "dev.lock" not in found.locks
        and ", ".join(found.locks) in lines[3]
    )
    with zipfile.ZipFile(file) as archive:
        assert archive.read("locks/node.lock") == (paths.PROJECT / "requirements/node.lock").read_bytes()
    assert "7 runs (1 failed, 6 succeeded)" in lines[0] and lines[2] == f"signed by {found.fingerprint}"
    sealed.unpack(found, tmp_path / "code")
    assert tree.read(tmp_path / "code").release == project.release
    with pytest.raises(RecordError, match="Name another folder"):
        sealed.unpack(found, tmp_path / "code")


def test_what_would_be_too_large_is_neither_written_nor_read(
    project: tree.Tree, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "large.bin").write_bytes(os.urandom(100_000))
    whole = tree.read(project.root)
    monkeypatch.setattr(sealed, "MOST", 50_000)
    with pytest.raises(RecordError, match=r"leave large files out of the tree \(\.regattaignore\)"):
        seal(whole, key, tmp_path)
    assert [*tmp_path.glob(f"*{sealed.ENDING}*")] == []
    monkeypatch.undo()
    (project.root / "large.bin").write_bytes(bytes(100_000))
    file = seal(tree.read(project.root), key, tmp_path)
    monkeypatch.setattr(sealed, "_UNPACKED", 50_000)
    with pytest.raises(RecordError, match="it is not read"):
        sealed.verify(file)


def test_a_set_of_a_plan_of_regatta_takes_its_code(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(paths.results_dir())
    for run in runs(tree.read(paths.PROJECT).release):
        store.save(structs.replace(run, series=Series("set-1/p", run.series.index, 3, "smoke", "set-1", "p")))
    namespace["results-seal"](Context(), "smoke", key=str(key), out="set.zip")
    assert "6 runs (6 succeeded)" in capsys.readouterr().out
    found = sealed.verify(Path("set.zip"))
    assert (found.plan, found.plan_text) == ("smoke", None) and "regatta/cli.py" in found.code
    assert not found.locks and "requirements/node.lock" in found.code


def test_within_a_checkout_the_sealed_code_runs_and_not_the_checkout(
    project: tree.Tree, key: Path, tmp_path: Path
) -> None:
    around = tmp_path / "checkout"
    (around / "bin").mkdir(parents=True)
    (around / "bin/run").write_text("#!/bin/sh\necho another version\n")
    subprocess.run(["git", "init", "--quiet", around], check=True)
    (project.root / ".gitignore").write_text("plan.toml\n")
    subprocess.run(["git", "init", "--quiet", project.root], check=True)
    subprocess.run(["git", "add", "--force", "."], cwd=project.root, check=True)
    sealed_tree = tree.read(project.root)
    assert "plan.toml" in {entry[0] for entry in sealed_tree.entries}
    found = sealed.verify(seal(sealed_tree, key, tmp_path))
    sealed.unpack(found, around / "set/code")
    assert tree.find_root(around / "set/code") == around / "set/code"
    assert tree.read(around / "set/code").release == sealed_tree.release
    assert [entry[0] for entry in tree.read(around).entries] == ["bin/run"], (
        "what was sealed is no part of the checkout"
    )


def test_how_often_verdicts_are_false_where_it_ran_is_signed(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    own = runs(project.release)
    same = [
        structs.replace(kept.again(own[0], f"same-{index}"), series=Series("c", index, 12, "calibrate", "c", "c"))
        for index in range(1, 13)
    ]
    cluster = own[0].cluster.name
    assert sealed.rates(own, own) == [f"False verdicts on {cluster}: not measured."]
    (measured,) = sealed.rates(own, [*own, *same])
    made = sealed.seal(own, project, "./plan.toml", str(key), tmp_path / "rated.zip", [measured])
    assert measured.startswith(f"False verdicts on {cluster}: 0 of 1, ") and made.rates == (measured,)
    assert measured in [*made.lines()]


def test_repeats_without_a_record_are_named(
    project: tree.Tree, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = seal(project, key, tmp_path, runs(project.release, (1, 3)))
    found = sealed.verify(file)
    assert found.missing == ("missing: p under single, torch: 1 of 3 repeats each have no record (2)",)
    some = [run for run in found.records if run.identity.framework == "torch" or run.series.index == 1]
    assert [*sealed.missing(some)] == [
        "missing: p under single: 2 of 3 repeats have no record (2, 3)",
        "missing: p under torch: 1 of 3 repeats have no record (2)",
    ]
    namespace["results-verify"](Context(), str(file), json=True)
    assert typed_json.read("results-verify", capsys.readouterr().out).missing == [*found.missing]


def test_a_bench_that_is_not_whole_continues() -> None:
    whole, some = runs("0123"), runs("0123", (1, 2))
    assert sealing.unfinished(0, whole) is None and sealing.unfinished(2, whole) == "the bench ended with code 2"
    read = [structs.replace(run, identity=structs.replace(run.identity, parameters=GIVEN)) for run in some]
    assert "x.txt (SHA-256 00ff): ask" in sealing._read(SimpleNamespace(records=read), Path("code"))
    assert sealing.unfinished(0, some) == "runs are missing here, as the plan's budget is used up"


def test_a_bench_that_ended_when_it_was_narrow_misses_no_repeat(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    def until(run: Record) -> Record:
        assert run.series is not None
        return structs.replace(run, series=structs.replace(run.series, total=40, until=0.02))

    found = sealed.verify(seal(project, key, tmp_path, [*map(until, runs(project.release, tuple(range(1, 9))))]))
    assert found.missing == () and found.words == ("--until", "2%", "--max-repeats", "40")
    fewer = sealed.verify(seal(project, key, tmp_path, [*map(until, runs(project.release, (1, 2, 3, 4, 5, 6, 8)))]))
    assert fewer.missing == ("missing: p under single, torch: 1 of 8 repeats each have no record (7)",)
    duet = [
        structs.replace(run, series=structs.replace(run.series, half=1, shuffled=True)) if run.series else run
        for run in runs(project.release)
    ]
    assert sealed.verify(seal(project, key, tmp_path, duet)).words == (
        *("--duet", "single,torch"),
        "--shuffle-hosts",
    )


RECORD = "records/torch-2.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda members: members.pop(RECORD), f"{RECORD} was removed"),
        (lambda members: members.update({RECORD: members[RECORD] + b" "}), f"{RECORD} was changed"),
        (lambda members: members.update({"records/more.json": b"{}"}), "records/more.json was added"),
        (lambda members: members.update({"code/bin/run": b"evil"}), "code/bin/run was changed"),
        (lambda members: members.update({"manifest.json": members["manifest.json"] + b" "}), "its list of files"),
        (lambda members: members.update({"manifest.json.sig": b"none"}), "its signature was changed"),
        (lambda members: members.pop("manifest.json.sig"), "has no manifest.json.sig"),
    ],
)
def test_what_was_changed_since_is_named(
    project: tree.Tree, key: Path, tmp_path: Path, change: Callable[[Members], object], said: str
) -> None:
    file = changed(seal(project, key, tmp_path), change)
    with pytest.raises(RecordError) as raised:
        sealed.verify(file)
    assert said in str(raised.value)


def test_who_signs_it_again_has_another_fingerprint(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    file = seal(project, key, tmp_path)
    before = sealed.verify(file).fingerprint
    other = new_key(tmp_path / "other")
    changed(file, lambda members: members.pop(RECORD), other)
    after = sealed.verify(file)
    assert after.fingerprint != before and after.missing
    with pytest.raises(RecordError, match=re.escape(f"signed by {after.fingerprint}, not by {before}")):
        sealed.verify(file, f"{key}.pub")


def test_code_that_is_not_what_ran_is_refused_also_where_it_is_signed(
    project: tree.Tree, key: Path, tmp_path: Path
) -> None:
    file = changed(seal(project, key, tmp_path), lambda members: members.update({"code/bin/run": b"evil"}), key)
    with pytest.raises(RecordError, match=f"and its runs used {project.release}"):
        sealed.verify(file)


def test_code_does_not_leave_its_folder(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    def out(members: Members) -> None:
        told = json.loads(members["manifest.json"])
        members["code/../../out"] = b"evil"
        code = {name.removeprefix("code/"): content for name, content in members.items() if name.startswith("code/")}
        entries = [
            [path, "x" if path in told["executable"] else "f", hashlib.sha256(content).hexdigest()]
            for path, content in code.items()
        ]
        told["release"] = manifest.release_id([*entries, *([p, "l", t] for p, t in told["links"].items())])
        members["manifest.json"] = json.dumps(told).encode()

    with pytest.raises(RecordError, match="leads out of its folder"):
        sealed.verify(changed(seal(project, key, tmp_path), out, key))


def test_code_is_not_written_through_a_link(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    found = sealed.verify(seal(project, key, tmp_path))
    code = {**found.code, "there": ("l", str(tmp_path).encode()), "there/evil": ("f", b"evil")}
    with pytest.raises(RecordError):
        sealed.unpack(dataclasses.replace(found, code=code), tmp_path / "code")
    assert not (tmp_path / "evil").exists()


def test_other_files_and_other_trees_are_refused(project: tree.Tree, key: Path, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(RecordError, match="cannot be read"):
        sealed.verify(tmp_path / "text.zip")
    with pytest.raises(RecordError, match=r"used release 0123.*git checkout"):
        seal(project, key, tmp_path, runs("0123"))
    with pytest.raises(RecordError, match="there is no key"):
        seal(project, tmp_path / "none", tmp_path)
    with pytest.raises(RecordError, match="neither a fingerprint"):
        sealed.verify(seal(project, key, tmp_path), str(project.root / "plan.toml"))


def test_a_set_is_found_by_id_beginning_or_plan() -> None:
    some = runs("0123")
    assert sealed.find(some, "set-1") == sealed.find(some, "plan") == sealed.find(some, "se") == tuple(some)
    with pytest.raises(RecordError, match=r"names 0 sets of runs\. There are set-1"):
        sealed.find(some, "other")


def test_which_verdicts_hold_here() -> None:
    def those(torch: float, count: int = 6) -> list[Record]:
        times = {"single": 1.0, "torch": torch}
        return [
            structs.replace(made, phases=structs.replace(made.phases, total=10 * times[name] * (1 + index / 100)))
            for name in times
            for index in range(count)
            if (made := kept.again(kept.one("stars", name), f"{name}-{index}"))
        ]

    def outcome(here: list[Record]) -> str:
        (found,) = [one for one in reproduced.compare(those(2.0), here) if "(total)" in one.what]
        return found.line

    def read(digest: str, kind: str = "sha256") -> list[Record]:
        parameters = {"g": "x.gz", f"g_{kind}": digest}
        return [
            structs.replace(run, identity=structs.replace(run.identity, parameters=parameters)) for run in those(2.0)
        ]

    assert reproduced.other_data(read("0" * 64), read("0" * 64)) == reproduced.other_data(read("0" * 64), []) == []
    (line,) = reproduced.other_data(read("0" * 64), read("f" * 64))
    assert line.startswith("x.gz here has SHA-256 ffffffffffffffff, there SHA-256 0000000000000000:")
    assert outcome(those(3.0)).startswith("holds here: stars generated")
    assert "2.00 (2.00 to 2.00) there (slower), 3.00 (3.00 to 3.00) here (slower)" in outcome(those(3.0))
    assert outcome(those(0.5)).startswith("does not hold here: ")
    assert outcome(those(3.0, 2)).startswith("cannot tell: ")
    assert outcome([]).endswith("not measured here")
    (found,) = [one for one in reproduced.compare(read("0" * 64), read("f" * 64)) if "(total)" in one.what]
    assert found.line.startswith("cannot tell: ") and found.line.endswith("; the data here are other ones")
    assert reproduced.compare(read("0" * 64), read("0" * 64))[0].outcome == "holds here"
    in_hdfs = read("crc 1", "checksum")
    assert reproduced.compare(in_hdfs, in_hdfs)[0].outcome == "holds here"
    assert reproduced.compare(in_hdfs, read("crc 2", "checksum"))[0].outcome == "cannot tell"
    (line,) = reproduced.other_data(in_hdfs, read("crc 2", "checksum"))
    assert line.startswith("x.gz here has checksum crc 2, there checksum crc 1:")


def test_other_versions_are_named() -> None:
    def on(version: str) -> list[Record]:
        made = kept.one("stars", "torch")
        nodes = tuple(
            structs.replace(node, versions={**node.versions, "torch": version}) for node in made.cluster.nodes
        )
        return [structs.replace(made, cluster=structs.replace(made.cluster, nodes=nodes))]

    assert reproduced.other_versions(on("2.13"), on("2.13")) == []
    assert reproduced.other_versions(on("2.13"), on("2.11")) == ["torch is 2.11 here, and 2.13 there"]
    without = structs.replace(on("2.13")[0].cluster.nodes[0], versions={"ray": "2.50"})
    lacks = structs.replace(on("2.13")[0], cluster=structs.replace(on("2.13")[0].cluster, nodes=(without,)))
    assert "torch is missing here, and 2.13 there" in reproduced.other_versions(on("2.13"), [lacks])


CARD = """
[workloads.same]
about = "The same each time"
command = "same.py"
frameworks = ["single", "torch"]
"""
PLAN = """
repeats = 6
warm_ups = 1
[[experiments]]
workload = "same"
workers = [1]
frameworks = ["torch"]
"""


@pytest.mark.whole
def test_a_sealed_set_is_run_again_elsewhere(here: Path, tmp_path: Path, key: Path) -> None:
    project = tmp_path / "mine"
    project.mkdir()
    (project / "regatta.toml").write_text(CARD)
    (project / "plan.toml").write_text(PLAN)
    event = {"event": "result", "rank": 0, "t": 0, "answer": {"sum": 1.0}, "tolerance": {}, "show": []}
    broken = tmp_path / "broken"
    fails = f"import os, sys\nif os.path.exists({str(broken)!r}): sys.exit('broken')\n"
    (project / "same.py").write_text(f"{fails}print('@regatta {json.dumps(event)}')")

    def regatta(*words: str | Path, folder: Path = project) -> str:
        command = [str(Path(sys.executable).parent / "regatta"), *map(str, words)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    regatta("bench", "./plan.toml", "--inventory", here)
    file = tmp_path / "set.zip"
    assert "14 succeeded" in regatta("results-seal", "plan", "--plan", "plan.toml", "--key", key, "--out", file)
    assert "14 runs" in regatta("results-verify", file, "--signer", f"{key}.pub", folder=tmp_path)
    told = typed_json.read("results-verify", regatta("results-verify", file, "--json"))
    assert len(told.runs) == 14 and told.plan == "./plan.toml" and told.missing == []
    hosts = here / "hosts.yml"
    usable = hosts.read_text()
    hosts.write_text(usable.replace(str(tmp_path / "root"), "/dev/null/root"))
    command = [str(Path(sys.executable).parent / "regatta"), "reproduce", str(file), "--inventory", str(here), "--yes"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and "before its first run: solve what it says" in done.stderr, done.stdout + done.stderr
    assert "not measured here" not in done.stdout, "one error, and no list of what there is not"
    hosts.write_text(usable)
    broken.touch()
    done = subprocess.run([*command, "--into", "again"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and "the same command continues with the rest" in done.stderr, done.stdout + done.stderr
    broken.unlink()
    command += ["--into", "again", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stderr
    assert len([line for line in said.splitlines() if line.startswith(("holds here: same", "cannot tell: same"))]) >= 1
    assert "note: here release" not in said
    verdicts = typed_json.read("reproduce", done.stdout)
    assert verdicts and all(f"{one.outcome}: {one.what}" in said for one in verdicts)
    kept_here = Store(tmp_path / "again/results").list().records
    assert len({run.series.set for run in kept_here if run.series}) == 1, "what failed was repeated, and nothing else"
    assert sum(run.exit.state == "succeeded" for run in kept_here) == 14
