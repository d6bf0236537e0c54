"""Changes around the loading of a module are made for only that module."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regatta.paths import PROJECT

PROGRAM = """\
import contextlib, sys
sys.path[:0] = [{imports!r}, {place!r}]
import imports

@contextlib.contextmanager
def around(module):
    print("before", module.__name__)
    yield
    print("after", module.one)

imports.watch({{"plums.one": around}})
import plums.two, plums.one
"""
FILES = {
    "plums/__init__.py": "",
    "plums/one.py": "import plums.three\none = 1\n",
    "plums/two.py": "",
    "plums/three.py": "",
}


@pytest.mark.parametrize("archive", [False, True], ids=["folder", "archive"])
def test_only_the_module_itself_is_watched(tmp_path: Path, archive: bool) -> None:
    place = tmp_path / ("plums.zip" if archive else "folder")
    if archive:  # as Spark's executors have pyspark: one loader has all of its modules
        with zipfile.ZipFile(place, "w") as made:
            for name, text in FILES.items():
                made.writestr(name, text)
    else:
        (place / "plums").mkdir(parents=True)
        for name, text in FILES.items():
            (place / name).write_text(text)
    program = PROGRAM.format(imports=str(PROJECT / "regatta/node"), place=str(place))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["before plums.one", "after 1"], done.stderr
