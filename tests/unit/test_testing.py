"""The program behind `make test`, and what is known of tests of provisioning."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "lab"))

import life
import proven

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regatta_test_program", PROJECT / "tools/test.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def shell(program: ModuleType, folder: Path, name: str, script: str) -> object:
    part = program.Suite(name, ["sh", "-c", script])
    part.folder = folder
    return part


def test_two_parts_run_side_by_side_and_the_next_when_one_has_ended(
    program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs, ended = tmp_path / "mine", tmp_path / "theirs", tmp_path / "ended"
    meet = "touch {}; while [ ! -e {} ]; do sleep 0.05; done; echo met; "
    parts = [
        shell(program, tmp_path, "one", meet.format(mine, theirs) + f"touch {ended}"),
        shell(program, tmp_path, "beside", meet.format(theirs, mine) + f"touch {ended}"),
        shell(program, tmp_path, "two", f"test -e {ended} && echo gone on; exit 3"),
    ]
    program.run(parts, {"one": 77.0})
    assert not program.report(parts, "first", {"one": 77.0}, time.monotonic())
    said = capsys.readouterr().out
    assert said.count("met\n") == 2 and "gone on\n" in said and "77" in said
    assert [part.good for part in parts] == [True, True, False]  # type: ignore[attr-defined]
    assert set(program.recall("first")) == {"one", "two", "beside"}


def test_each_part_can_be_asked_for_alone(program: ModuleType) -> None:
    for only in program.PARTS:
        found = program.chosen("first", only)
        assert found and {part.name.split()[0] for part in found} == {only}
    marks = [part.command[-1] for tier in ("first", "rest") for part in program.chosen(tier, "lab")]
    assert marks == ["first and not whole", "not first and not whole"]


def test_lab_tests_that_cannot_run_are_named_and_fail_in_ci(
    program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("REGATTA_REQUIRE_LAB", raising=False)
    part = shell(program, tmp_path, "lab", "exit 1")
    part.refused = "no overlay here"  # type: ignore[attr-defined]
    program.run([part], {})
    assert program.report([part], "first", {}, 0.0)
    assert "no overlay here" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert not program.report([part], "first", {}, 0.0)


def test_interrupted_it_ends_what_it_has_started(tmp_path: Path) -> None:
    script = (
        "import sys, importlib.util, tempfile\n"
        f"spec = importlib.util.spec_from_file_location('program', {str(PROJECT / 'tools/test.py')!r})\n"
        "program = importlib.util.module_from_spec(spec); sys.modules['program'] = program\n"
        "spec.loader.exec_module(program)\n"
        f"part = program.Suite('sleeps', ['sh', '-c', 'trap \"touch {tmp_path}/ended; exit 1\" INT; "
        f"touch {tmp_path}/begun; while :; do sleep 0.1; done'])\n"
        "program.chosen = lambda *_: [part]\n"
        "sys.argv = ['test', 'first']; sys.exit(program.main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (tmp_path / "ended").exists()


def test_what_removes_labs_of_killed_sessions_finds_its_imports(program: ModuleType) -> None:
    env = os.environ | {"PYTHONPATH": program.IMPORTS}
    subprocess.run([sys.executable, "-c", "import leftovers"], cwd=PROJECT / "tests/lab", env=env, check=True)


def test_what_has_passed_is_known_until_provisioning_or_the_test_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "test_x.py"
    file.write_text("one")
    monkeypatch.setattr(life, "key", lambda: "a" * 16)
    assert proven.passed("test_x.py::test", file) is None
    proven.keep("test_x.py::test", file)
    assert proven.passed("test_x.py::test", file)
    assert proven.passed("test_x.py::other", file) is None
    monkeypatch.setattr(life, "key", lambda: "b" * 16)
    assert proven.passed("test_x.py::test", file) is None
    monkeypatch.setattr(life, "key", lambda: "a" * 16)
    file.write_text("two")
    assert proven.passed("test_x.py::test", file) is None


def test_what_the_kept_lab_is_kept_by_changes_with_what_provisioning_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "PROJECT", tmp_path)
    monkeypatch.setattr(life, "READS", ("role", "one.lock"))
    monkeypatch.setattr(life.image, "own_sources", list)
    monkeypatch.setattr(life.image, "apt_options", list)
    (tmp_path / "role").mkdir()
    (tmp_path / "role/main.yml").write_text("task")
    (tmp_path / "one.lock").write_text("package")
    make = life.key.__wrapped__
    found = [make()]
    (tmp_path / "role/README.md").write_text("nothing that is read")
    (tmp_path / "role/.ruff_cache").mkdir()
    (tmp_path / "role/.ruff_cache/0123").write_text("of a tool")
    assert make() == found[0]
    for name, text in (("role/main.yml", "another"), ("one.lock", "newer"), ("role/more.yml", "")):
        (tmp_path / name).write_text(text)
        found.append(make())
    (tmp_path / "role/main.yml").chmod(0o755)
    assert len({*found, make()}) == 5


def test_a_lab_of_the_tests_has_one_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "RUN", tmp_path)
    with life.held("tests-unit") as first, life.held("tests-unit") as second:
        assert (first, second) == (True, False)
    with life.held("tests-unit") as again:
        assert again
