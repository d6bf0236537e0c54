"""Input that is looked at before it goes to the nodes, by the program that a card names."""

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from regatta import paths
from regatta.cards import discovery
from regatta.cards.card import Card, Workload
from regatta.errors import DataError
from regatta.experiments import checked, staging
from regatta.hosts.remote import Remote
from regatta.release import inputs
from regatta.run.session import Session
from regatta.terminal.console import Console

COUNTING = """
import sys
from pathlib import Path
open("calls", "a").write(".")
text = Path(sys.argv[1]).read_text()
if "bad" in text:
    print(f"{sys.argv[1]}: line 1: bad")
    sys.exit(2)
if "odd" in text:
    raise KeyError("odd")
print(f"{len(text)} letters")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(paths, "cache_dir", lambda: tmp_path / "cache")
    yield


def own(root: Path) -> Workload:
    (root / "tools").mkdir()
    (root / "tools" / "look.py").write_text(COUNTING)
    card = {"about": "x", "command": "x.py", "frameworks": ["single"]}
    return Workload("mine", msgspec.convert(card, Card), root, "here", True)


def look(of: Workload, path: Path, module: str = "tools.look") -> tuple[str | None, str | None]:
    return checked.look(of, module, {str(path): inputs.identify(path)})


def ppr(path: Path) -> str:
    found, trouble = look(discovery.ours()["ppr"], path, "workloads.ppr.check")
    assert found and trouble is None
    return found


def test_a_file_is_looked_at_once_for_each_content_and_program(tmp_path: Path) -> None:
    of, path = own(tmp_path), tmp_path / "my.txt"
    path.write_text("abc")
    assert look(of, path) == look(of, path) == ("3 letters", None)
    assert (tmp_path / "calls").read_text() == "."
    (tmp_path / "copy").write_text("abc")
    assert look(of, tmp_path / "copy") == ("3 letters", None)
    assert (tmp_path / "calls").read_text() == "."
    path.write_text("abcd")
    assert look(of, path) == ("4 letters", None)
    (tmp_path / "tools" / "look.py").write_text(COUNTING.replace("letters", "signs"))
    assert look(of, path) == ("4 signs", None)


def test_what_is_refused_is_refused_again_by_the_name_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, path = own(tmp_path), tmp_path / "my.txt"
    path.write_text("bad")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(DataError, match=r"^my\.txt: line 1: bad$"):
            look(of, Path("my.txt"))


def test_a_check_that_fails_refuses_nothing(tmp_path: Path) -> None:
    of, path = own(tmp_path), tmp_path / "my.txt"
    path.write_text("odd")
    assert look(of, path) == (None, f"{path} could not be checked here: KeyError: 'odd'")
    found, trouble = look(of, path, "tools.gone")
    assert found is None and trouble and "No module named tools.gone" in trouble


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"from,to\nuser_0,user_1\nuser_1,user_2\n", "2 edges, 3 names, header `from,to`"),
        (b"\xef\xbb\xbf1;2\r\n", "1 edge"),
        (gzip.compress(b"1 2\n3 4\n"), "2 edges"),
    ],
)
def test_an_edge_list_is_read_here_with_what_the_controller_has(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "my.csv"
    path.write_bytes(data)
    assert ppr(path) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1 2\n" * 500_000 + b"3\n" + b"1 2\n" * 10, "line 500001: an edge is exactly two node ids, here is 1: '3'"),
        (b"a,b\n" * 3 + b"c,d", None),
        (b"a,b\n" * 3 + b"c", "line 4: an edge is exactly two node ids, here is 1: 'c'"),
        (b"1,2\n1,2,0.5\n", "line 2: an edge is exactly two node ids, here are 3"),
        (gzip.compress(b"1 2\n" * 9999)[:-9], "damaged or truncated gzip file"),
        (b"from,to\n", "the graph is empty"),
    ],
)
def test_a_bad_edge_list_is_refused_here(tmp_path: Path, data: bytes, said: str | None) -> None:
    path = tmp_path / "my.csv"
    path.write_bytes(data)
    if said is None:
        assert ppr(path)
        return
    with pytest.raises(DataError) as caught:
        ppr(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def staged(remote: Remote, asked: str, results: Path) -> tuple[list[str], str]:
    """Return what the program of PageRank gets of a graph, and what a person sees."""
    said = io.StringIO()
    with Session(remote.cluster, Console(said, said), results) as session:
        words, _ = staging.stage(session, discovery.ours()["ppr"], asked, {})
    return words, said.getvalue()


def test_what_is_wrong_is_said_before_anything_is_put_on_a_node(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path(remote.cluster.head.state) / "data"
    (tmp_path / "torn.csv").write_text("from,to\nann,bob\nbob\ncee,ann\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "folder").mkdir()
    for asked, wrong in {
        "torn.csv": r"^torn\.csv: line 3: an edge is exactly two node ids, here is 1: 'bob'$",
        "empty.csv": r"^empty\.csv is empty; an edge list has a line",
        "folder": "^folder is a folder; give an edge list",
        "gone.csv": r"^there is no graph file gone\.csv; give an edge list",
    }.items():
        with pytest.raises(DataError, match=wrong):
            staged(remote, asked, tmp_path)
    assert not data.exists()
    (tmp_path / "torn.csv").write_text("from,to\nann,bob\n")
    (word,), said = staged(remote, "torn.csv", tmp_path)
    assert "torn.csv: 1 edge, 2 names, header `from,to`\n" in said
    assert word.startswith(f"--graph={data}/") and word.endswith("/torn.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").touch(mode=0o200)
    with pytest.raises(DataError, match=r"mine\.csv: Permission denied"):
        staged(remote, str(tmp_path / "mine.csv"), tmp_path)


def test_the_check_takes_options_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "g"
    path.write_text("3 3 0.5\n2 1 1\n3 1 2\n3 2 1\n")
    of = discovery.ours()["ppr"]
    given = of.card.input
    assert given is not None
    words = staging._words(given, {"weights": True, "first_line": None, "alpha": 0.1})
    assert words == ["--weights"]
    file = {str(path): inputs.identify(path)}
    assert checked.look(of, "workloads.ppr.check", file, words)[0] == "4 edges, weighted"
    path.write_text("3 3\n2 1\n3 1\n3 2\n")
    file = {str(path): inputs.identify(path)}
    with pytest.raises(DataError, match="--first-line size"):
        checked.look(of, "workloads.ppr.check", file)
    words = staging._words(given, {"first_line": "size"})
    assert checked.look(of, "workloads.ppr.check", file, words)[0] == "3 edges"


def test_files_of_a_folder_that_has_only_folders(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").touch()
    assert staging._inside(tmp_path) == [raw / "train-images-idx3-ubyte"]
    (tmp_path / "a.csv").touch()
    assert staging._inside(tmp_path) == [tmp_path / "a.csv"]
