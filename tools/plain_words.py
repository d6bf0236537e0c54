"""`python -m tools.plain_words [FILE...]`: name lines with words that `plain_words.yml` says to write otherwise.

Read are the prose of Markdown (not its code), and the strings, docstrings and comments of Python, YAML and shell. A
line that says `plain words: REASON` is left alone.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import yaml

LIST = Path(__file__).with_suffix(".yml")
ALLOWED = "plain words: "
_CODE = re.compile(r"`[^`]*`")


def markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and prose of each line outside of code, and of what a command has written between markers."""
    fenced = made = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif line.startswith("<!-- "):
            made = "what follows is" in line
        elif not fenced and not made and not line.startswith("    "):
            yield number, _CODE.sub("", line)


def python(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a string with a space in it, or of a comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        prose = token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string)
        if prose:
            yield from enumerate(token.string.splitlines(), token.start[0])


def plain(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line."""
    yield from enumerate(text.splitlines(), 1)


READERS = {".md": markdown, ".py": python, ".yml": plain, ".sh": plain, ".j2": plain, ".toml": plain}


def found(path: Path, words: dict[str, str]) -> Iterator[str]:
    """Yield `FILE:LINE: word (write ...)` of one file."""
    text = path.read_text()
    lines = text.splitlines()
    for number, prose in READERS[path.suffix](text):
        if ALLOWED in lines[number - 1]:
            continue
        for word, better in words.items():
            if hit := re.search(word, prose, re.IGNORECASE):
                yield f"{path}:{number}: '{hit[0]}' (write: {better})"


def main() -> int:
    """Print what was found in the files named, or in all of the repository; 1 where there is something."""
    words = yaml.safe_load(LIST.read_text())
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    paths = [
        Path(name)
        for name in sys.argv[1:] or listed
        if Path(name).suffix in READERS and Path(name).is_file() and Path(name).name != LIST.name
    ]
    lines = [line for path in paths for line in found(path, words)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
