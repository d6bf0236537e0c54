"""The lint for words that read as translated: what it reads, and what it leaves alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from regatta.paths import PROJECT

WORD = "anew"
ALLOWED = "text = f'begins @ {name}'  # plain words: a quotation\n@ = 1\n"


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.md", "It begins @.\n`@`\n\n    @\n```\n@\n```\nOnce @.\n", [1, 8]),
        ("a.md", "<!-- x: what follows is made -->\n@\n<!-- x: end -->\n@\n", [4]),
        ("a.py", '"""One.\n\nIt begins @.\n"""\n@ = "@"  # begins @\nx = f"made @: {@}"\n', [3, 5, 6]),
        ("a.py", ALLOWED, []),
        ("a.yml", "- name: Start it @\n", [1]),
        ("a.toml", "@\n", [1]),
        ("a.j2", "# @\n", [1]),
        ("a.csv", "@\n", []),
    ],
)
def test_words_are_found_in_prose_only(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    path = tmp_path / name
    path.write_text(text.replace("@", WORD))
    command = [sys.executable, "-m", "tools.plain_words", path]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    found = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in done.stdout.splitlines()]
    assert (found, done.returncode) == (lines, int(bool(lines)))
    assert "write: " in done.stdout or not lines
