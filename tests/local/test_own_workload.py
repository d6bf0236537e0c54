"""A workload is one folder: one of the project's, and one in a project of a person's own; no other file is touched."""

import shutil
import subprocess
from pathlib import Path

import pytest
from person import Person

from regatta.records import document
from regatta.records.record import Record

pytestmark = pytest.mark.timeout(1500)  # the first test sets a clone up, on a machine that may be busy

CARD = """\
about = "The sum of the numbers of a file"
module = "workloads.sums"
frameworks = ["single", "torch", "ray"]
unit = "lines"

[options.numbers]
kind = "path"
required = true
help = "a number on each line"

[options.times]
kind = "whole number"
default = 1
least = 1
help = "what each number is multiplied by"

[input]
option = "numbers"
what = "a number on each line"

[generate]
kind = "numbers"
module = "workloads.sums.generate"
name = "numbers-{size}-{seed}.txt"
"""
MAIN = """\
from workloads.common import command

if __name__ == "__main__":
    command.main("workloads.sums")
"""
PART = """\
from dataclasses import dataclass
from pathlib import Path

TOLERANCE = {}


@dataclass(frozen=True)
class Options:
    numbers: str
    times: int


class Part:
    def __init__(self, options, ranks):
        self._options, self._ranks = options, ranks

    def load(self, folder):
        lines = Path(self._options.numbers).read_text().split()
        self._mine = [int(line) for line in lines[self._ranks.rank :: self._ranks.world]]

    def compute(self):
        self._sum = self._options.times * sum(self._mine)

    def answer(self):
        return self._sum


def combine(parts):
    return {"sum": sum(parts)}, [f"the sum is {sum(parts)}"]
"""
GENERATE = """\
from workloads.common import generate


def block(numbers, first, count):
    return b"".join(b"%d\\n" % number for number in range(first, first + count))


if __name__ == "__main__":
    given = generate.parser("workloads.sums.generate", "Numbers.", "lines").parse_args()
    generate.write(block, given, 1000)
"""
PLAN = """\
about = "Sums: are the answers equal?"
repeats = 1

[[experiments]]
workload = "{name}"
sizes = [{size}]
workers = [2]
"""


def records(folder: Path, workload: str) -> list[Record]:
    """Return what was recorded of a workload, all of which has succeeded."""
    found = [document.load(path) for path in sorted((folder / "results").glob(f"{workload}-*.json"))]
    assert {one.exit.state for one in found} == {"succeeded"}
    return found


def reported(person: Person, folder: Path, program: Path, *words: str) -> None:
    """`report` shows what a bench has recorded, with the words given."""
    code, text = person.type(program, "report", "--out=out", cwd=folder)
    assert code == 0, text
    tables = (folder / "out/tables.md").read_text()
    assert [word for word in words if word not in tables] == [], tables


def test_a_workload_of_the_project_is_one_folder(ready: Person) -> None:
    folder = ready.clone / "workloads/sums"
    for name, content in {
        "card.toml": CARD,
        "__init__.py": '"""Sums."""\n',
        "__main__.py": MAIN,
        "part.py": PART,
        "generate.py": GENERATE,
    }.items():
        ready.write(folder / name, content)
    ready.write(folder / "plans/sums.toml", PLAN.format(name="sums", size=1000))
    try:
        touched = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ready.clone, "status", "--porcelain", "--", "regatta", "workloads"],
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        assert [line for line in touched if "workloads/sums/" in line] and all("sums" in line for line in touched)
        numbers = ready.write(ready.home / "numbers.txt", "1\n2\n3\n")
        words = ("--workers=2", f"--numbers={numbers}", "--times=2")
        code, text = ready.type(ready.fab, "run-sums", "--framework=all", *words)
        assert code == 0, text
        assert "the sum is 12" in text and "answers of 3 runs are equal" in text
        code, text = ready.type(ready.fab, "bench", "sums")
        assert code == 0, text
        found = records(ready.clone, "sums")
        assert {(one.identity.framework, one.answer["sum"]) for one in found} == {
            (framework, total) for framework in ("single", "torch", "ray") for total in (12, 499500)
        }
        reported(ready, ready.clone, ready.fab, "sums: end to end", "numbers-1000-0.txt", "single/2")
        code, text = ready.type(ready.fab, "run-sums", *words[:2], "--times=0")
        assert (code, "--times must be at least 1, not 0" in text) == (2, True)
    finally:
        shutil.rmtree(folder)
        for one in (ready.clone / "results").glob("sums-*.json"):
            one.unlink()


def test_a_project_outside_of_the_checkout(ready: Person) -> None:
    folder = ready.home / "squares of mine"
    for path in (ready.clone / "examples/own-workload").iterdir():
        ready.write(folder / path.name, path.read_text())
    ready.write(folder / "small.toml", PLAN.format(name="squares", size=5000))
    code, text = ready.type(
        ready.regatta, "run", "squares", "--framework=both", "--workers=2", "--numbers=300000", cwd=folder
    )
    assert code == 0, text
    assert "answers of 3 runs are equal" in text
    code, text = ready.type(ready.regatta, "bench", "small.toml", cwd=folder)
    assert code == 0, text
    found = records(folder, "squares")
    assert {one.answer["sum"] for one in found} == {str(sum(n * n for n in range(size))) for size in (300000, 5000)}
    assert {one.identity.framework for one in found} == {"single", "torch", "ray"}
    reported(ready, folder, ready.regatta, "squares: end to end", "numbers=5000", "single/2")


def test_five_lines_are_enough(ready: Person) -> None:
    folder = ready.home / "five lines"
    ready.write(folder / "ranks.py", 'import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n')
    card = '[workloads.ranks]\nabout = "Ranks"\ncommand = "ranks.py"\nframeworks = ["torch"]\n'
    ready.write(folder / "regatta.toml", card)
    code, text = ready.type(ready.regatta, "run", "ranks", "--workers=2", "--repeats=2", cwd=folder)
    assert code == 0, text
    assert text.count("| rank 1 of 2") == 2
    ready.write(folder / "regatta.toml", card.replace("command", "comand"))
    code, text = ready.type(ready.regatta, "run", "ranks", cwd=folder)
    assert (code, "did you mean 'command'?" in text) == (2, True), text
