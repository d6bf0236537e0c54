"""Which files of a tree are synced: with git and without, and what never travels."""

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regatta.errors import SyncError, UsageError
from regatta.release import git, listing, size, tree

BEGIN, END = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
KEY = f"{BEGIN}\nb3BlbnNzaC1rZXktdjEA\n{END}\n"
PLAIN = {"train.py", "link", "package/__init__.py", "run.sh"}


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git without the settings of whoever tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(params=["git", "no git"])
def either(request: pytest.FixtureRequest, source: Path) -> Iterator[Path]:
    """The tree as a repository, and as a plain folder."""
    if request.param == "git":
        run_git(source, "init", "-q")
    return source


def run_git(folder: Path, *args: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def put(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def paths(root: Path) -> set[str]:
    return {path for path, _, _ in tree.read(root).entries}


def told(root: Path) -> str:
    return "\n".join(tree.read(root).notes)


def test_secrets_environments_and_caches_stay_here(either: Path) -> None:
    secrets = {
        "inventory/lab/secrets/ray_token": "token",
        "inventory/lab/secrets/cluster_key": KEY,
        "clusters/mine/secrets/ray_token": "token",
        "deploy.txt": KEY,
        "bundle.crt": f"certificate\n{KEY}",
        "account.json": f'{{"private_key": "{BEGIN}\\nMIIEvQIBADANBgkqhkiG9w0B\\n"}}',
        "putty": "PuTTY-User-Key-File-3: ssh-ed25519\n",
        ".env": "PASSWORD=x",
        "web/.env.production": "PASSWORD=x",
        ".ssh/config": "Host x",
        "cert.pem": "x",
        "home/id_ed25519.pub": "x",
    }
    others = (".venv/pyvenv.cfg", "env-3.11/pyvenv.cfg", "env-3.11/lib/a.py", "conda/conda-meta/history", "conda/b.py")
    caches = ("__pycache__/a.pyc", "package/node_modules/a.js", "store/CACHEDIR.TAG", "store/blob")
    for path, text in secrets.items():
        put(either, path, text=text)
    put(either, "help.md", text=f"A file that begins with\n{BEGIN}\nis a private key.\n")
    plain = {"clusters/mine/hosts.yml", "id_table.py", ".env.example"}
    put(either, *others, *caches, *plain)
    made = tree.read(either)
    assert {path for path, _, _ in made.entries} == PLAIN | plain | {"help.md"}
    assert "token" not in str(made.entries)
    named = dict(made.left)
    assert named.keys() >= (secrets.keys() - {path for path in secrets if "/secrets/" in path})
    assert {"inventory/lab/secrets/", "clusters/mine/secrets/", "env-3.11/", "conda/", "store/"} <= named.keys()
    said = "\n".join(made.notes)
    assert all(name in said for name in (".env", "deploy.txt", "inventory/lab/secrets/", "env-3.11/"))
    assert "__pycache__" not in said and ".venv" not in said


def test_a_line_takes_in_what_may_be_a_secret_and_never_what_is(either: Path) -> None:
    put(either, ".env", "conf/cert.pem", "other.pem", ".ssh/config", "inventory/a/secrets/ray_token", "old/pyvenv.cfg")
    put(either, "key.pem", text=KEY)
    (either / "data").symlink_to("/mnt/data")
    (either / ".regattaignore").write_text("!/.env\n!cert.pem\n!key.pem\n!.ssh/\n!data\n!secrets/\n!ray_token\n!old/\n")
    found = paths(either)
    assert {".env", "conf/cert.pem", ".ssh/config", "data"} <= found
    assert not {"other.pem", "key.pem", "inventory/a/secrets/ray_token", "old/pyvenv.cfg"} & found
    assert "other.pem" in told(either) and "key.pem" in told(either) and "conf/cert.pem" not in told(either)


def test_what_somebody_committed_is_no_exception_and_is_named(source: Path) -> None:
    put(source, "inventory/a/secrets/ray_token", "tests/cert.pem", "id_rsa.pub", "package/__pycache__/data.bin")
    run_git(source, "init", "-q")
    run_git(source, "add", "-A")
    run_git(source, "commit", "-qm", "x")
    assert paths(source) == PLAIN
    said = told(source)
    assert all(
        path in said for path in ("inventory/a/secrets/", "tests/cert.pem", "id_rsa.pub", "package/__pycache__/")
    )


def test_a_file_for_its_owner_alone(either: Path) -> None:
    put(either, "token", "shared")
    (either / "token").chmod(0o600)
    (either / "shared").chmod(0o640)
    assert paths(either) == PLAIN | {"shared"}
    assert "token" in told(either)
    (either / ".regattaignore").write_text("!token\n")
    assert "token" in paths(either)


def test_a_umask_of_077_makes_no_secrets(either: Path) -> None:
    release = tree.read(either).release
    for path in either.rglob("*"):
        if not path.is_symlink() and ".git" not in path.parts:
            path.chmod(path.stat().st_mode & 0o700)
    assert tree.read(either).release == release
    assert not tree.read(either).notes


LINKS_OUT = {
    "absolute": "/etc/passwd",
    "here": "{root}/train.py",
    "above": "../other",
    "package/far": "../../other",
    "back": "../tree/train.py",
    "missing": "nowhere/../../etc/passwd",
    "stepwise": "down/../../../etc/passwd",
    "chain": "above",
}
LINKS_WITHIN = {
    "package/up": "../train.py",
    "down": "package/deep",
    "through": "down/../__init__.py",
    "dangling": "not/there",
    "circle": "circle",
    "self": ".",
    "odd": "package/./deep/.././__init__.py",
}


def test_links_that_lead_out_of_the_tree(either: Path) -> None:
    put(either, "package/deep/a.py")
    put(either.parent, "other")
    for name, target in (LINKS_OUT | LINKS_WITHIN).items():
        (either / name).symlink_to(target.format(root=either))
    found = paths(either)
    assert not found & LINKS_OUT.keys()
    assert found >= LINKS_WITHIN.keys()
    assert LINKS_OUT.keys() == dict(tree.read(either).left).keys()
    assert "above" in told(either)


def test_a_folder_that_has_become_a_link_is_not_read_through(source: Path, tmp_path: Path) -> None:
    run_git(source, "init", "-q")
    run_git(source, "add", "-A")
    put(tmp_path, "outside/__init__.py", text="outside")
    shutil.rmtree(source / "package")
    (source / "package").symlink_to(tmp_path / "outside")
    assert paths(source) == PLAIN - {"package/__init__.py"}


RULES = [
    {"": "*.log\n!keep.log\nbuild/\n/only\n"},
    {"": "*\n!*/\n!*.py\n"},
    {"": "/*\n!/a/\n!/.gitignore\n"},
    {"": "a/*\n!a/b\n", "a/b": "*\n!c\n!c/**\n"},
    {"": "a\n!a/b/x.log\n"},
    {"": "*.log\n", "a": "!x.log\n", "a/b": "x.log\n"},
    {"": "**/c\nb/**\n", "a": "b/**/x.py\n"},
    {"": "a/**/x.log\n\\!x\n\\#x\nend\\ \ntrail   \n"},
    {"": "\ufeff*.py\r\n# *.log\r\n[\n!\na[b\n"},
    {"": "A/\nX.log\n[a-b]/b\n?.py\n"},
    {"": "foo/\n", "a": "/b\n!/b/c\n", "foo": "!x.py\n"},
    {"": "a/b/**\n!a/b/c/\n"},
]


@pytest.mark.parametrize("rules", RULES)
def test_ignore_files_mean_the_same_without_git(source: Path, rules: dict[str, str]) -> None:
    folders = ("", "a/", "a/b/", "a/b/c/", "b/", "build/", "c/", "foo/", "foo/b/", "only/")
    names = ("x.py", "x.log", "keep.log", "!x", "#x", "end ", "trail", "build2", "caf\udce9.log", "new\nline.py", "y")
    put(source, *(folder + name for folder in folders for name in names))
    for folder, text in rules.items():
        put(source, f"{folder}/.gitignore".lstrip("/"), text=text)
    plain = paths(source)
    run_git(source, "init", "-q")
    assert plain == set(git.files(source))
    assert paths(source) == plain


def test_the_same_files_are_the_same_release_with_git_and_without(source: Path) -> None:
    put(source, ".gitignore", text="big/\n*.log\n")
    put(source, "big/keep/model.bin", "big/other.bin", "a.log", "package/b.log")
    (source / ".regattaignore").write_text("run.sh\n!big/keep/\n!/a.log\n")
    plain = tree.read(source)
    assert {"big/keep/model.bin", "a.log"} <= {path for path, _, _ in plain.entries}
    assert not {"big/other.bin", "package/b.log", "run.sh"} & {path for path, _, _ in plain.entries}
    run_git(source, "init", "-q")
    assert tree.read(source).release == plain.release
    assert tree.read(source).notes == plain.notes
    assert all(name in told(source) for name in ("big/other.bin", "package/b.log", "run.sh"))


def test_what_ignore_rules_leave_out_is_said_with_its_size(either: Path) -> None:
    put(either, ".gitignore", text="data/\n*.bin\n__pycache__/\n.venv/\nresults/\ninventory/*\n")
    put(either, "data/deep/edges.txt", text="x" * 1_500_000)
    put(either, "package/model.bin", "package/__pycache__/a.pyc", ".venv/pyvenv.cfg")
    put(either, "inventory/lab/hosts.yml", "inventory/lab/secrets/ray_token")
    notes = tree.read(either).notes
    assert len(notes) == 1
    assert "data/ 1.5 MB" in notes[0] and "package/model.bin" in notes[0] and ".regattaignore" in notes[0]
    assert not [name for name in ("pyc", "venv", "inventory") if name in notes[0]]


def test_of_a_folder_below_its_repository_nothing_outside_is_named(source: Path) -> None:
    run_git(source, "init", "-q")
    put(source, ".gitignore", text="*.bin\n")
    put(source, "outside.bin", "sub/inside.bin", "sub/train.py")
    read = tree.read(source / "sub")
    assert {path for path, _, _ in read.entries} == {"train.py"}
    assert "inside.bin" in read.notes[0] and "outside" not in read.notes[0] and "sub/" not in read.notes[0]


def test_a_large_ignored_folder_is_not_measured_to_its_end(source: Path) -> None:
    put(source, *(f"data/{number % 20}/{number}" for number in range(3000)))
    whole = size.measured(source, ["data/", "train.py"], 60)
    assert whole == {"data/": (3000, True), "train.py": (len("print('train')\n"), True)}
    some = size.measured(source, ["data/", "train.py"], 0)
    assert some["data/"][0] < 3000 and not some["data/"][1]


def test_names_that_are_no_text_are_named_on_one_line(either: Path) -> None:
    (either / os.fsdecode(b"caf\xe9\nx.pem")).write_text("x")
    (either / os.fsdecode(b"\xff\r\x1b[2Jy")).symlink_to("/etc")
    (either / ".gitignore").write_text("*.log\n")
    (either / os.fsdecode(b"\xfe\n.log")).write_text("x")
    notes = tree.read(either).notes
    assert len(notes) == 2
    assert all(line.isprintable() and line.encode() for line in notes)


def test_a_repository_of_somebody_else_stops_the_sync(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_git(source, "init", "-q")
    put(source, ".gitignore", text="secret\n")
    put(source, "secret")
    if os.geteuid() == 0:
        for path in (source, source / ".git"):
            os.chown(path, 12345, 12345)
    else:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for step in (tree.read, tree.find_root):
        with pytest.raises(SyncError, match=r"dubious ownership(?s:.*)safe\.directory"):
            step(source)


@pytest.mark.parametrize("trouble", ["empty .git", "no HEAD", "index", "config", "leads nowhere"])
def test_a_broken_repository_stops_the_sync(source: Path, trouble: str) -> None:
    run_git(source, "init", "-q")
    run_git(source, "add", "-A")
    run_git(source, "commit", "-qm", "x")
    if trouble in ("empty .git", "leads nowhere"):
        shutil.rmtree(source / ".git")
        if trouble == "empty .git":
            (source / ".git").mkdir()
        else:
            (source / ".git").write_text("gitdir: /not/there\n")
    elif trouble == "no HEAD":
        (source / ".git" / "HEAD").unlink()
    else:
        (source / ".git" / trouble).write_bytes(b"\0broken")
    with pytest.raises(SyncError, match=r"(?s)fatal|error"):
        tree.read(source)


def test_a_git_that_does_not_answer_stops_the_sync(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(source, "init", "-q")
    put(tmp_path, "bin/git", text="#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "SECONDS", 0.2)
    with pytest.raises(SyncError, match="did not answer"):
        tree.read(source)


def test_without_the_program_git(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(source, ".gitignore", text="ignored\n")
    put(source, "ignored", ".env")
    run_git(source, "init", "-q")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SyncError, match="install git"):
        tree.read(source)
    shutil.rmtree(source / ".git")
    assert tree.find_root(source) == source
    assert paths(source) == PLAIN | {".gitignore"}


def test_a_repository_within_the_tree(source: Path) -> None:
    put(source, "inner/a.py", "inner/.env", "inner/b.log", "inner/c.log")
    put(source, "inner/.gitignore", text="*.log\n")
    put(source, "inner/.regattaignore", text="!b.log\n")
    run_git(source, "init", "-q")
    run_git(source / "inner", "init", "-q")
    found = paths(source)
    assert {"inner/a.py", "inner/b.log"} <= found
    assert not {"inner/.env", "inner/c.log"} & found
    assert not [path for path in found if ".git/" in path]
    assert "inner/c.log" in told(source)


def test_an_unreadable_ignore_file_stops_the_sync(source: Path) -> None:
    (source / ".regattaignore").mkdir()
    with pytest.raises(SyncError, match=r"\.regattaignore"):
        tree.read(source)
    (source / ".regattaignore").rmdir()
    (source / ".regattaignore").write_text("!\n")
    with pytest.raises(SyncError, match=r"\.regattaignore"):
        tree.read(source)


def test_a_tree_that_is_too_large_is_refused_before_it_is_read(either: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(either, "runs/1/a.txt", "small/b.txt")
    os.truncate(either / "runs/1/a.txt", 10_000_000_000)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SyncError, match=r"10.0 GB .* 500.0 MB; .*runs/1/a.txt 10.0 GB(?s:.*)REGATTA_TREE_MB=10001"):
        tree.read(either)
    (either / ".regattaignore").write_text("/runs/\n")
    assert "more than" not in told(either) and "runs/ 10.0 GB" in told(either)


def test_the_limit_is_a_variable(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert size.limit() == 500_000_000
    put(source, "a.txt", text="x" * 1_000_001)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setenv("REGATTA_TREE_MB", "1")
    with pytest.raises(SyncError, match=r"a\.txt"):
        tree.read(source)
    monkeypatch.setenv("REGATTA_TREE_MB", "2")
    assert "a.txt" in paths(source)
    monkeypatch.setenv("REGATTA_TREE_MB", "much")
    with pytest.raises(UsageError, match="REGATTA_TREE_MB=much"):
        tree.read(source)


@pytest.mark.parametrize(("typed", "made"), [(b"yes\n", True), (b"no\n", False), (b"\x04", False)])
def test_on_a_terminal_somebody_is_asked(source: Path, typed: bytes, made: bool) -> None:
    put(source, "data/a.txt", text="x" * 2_000_000)
    program = (
        "from pathlib import Path; from regatta.release import tree; import sys\n"
        "from regatta.errors import DeclinedError\n"
        "try: tree.read(Path(sys.argv[1]))\n"
        "except DeclinedError: sys.exit(3)"
    )
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    done = subprocess.run(
        [sys.executable, "-c", program, str(source)],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "REGATTA_TREE_MB": "1"},
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, "data/" in done.stderr) == (0 if made else 3, True)


def test_largest_folders_are_those_that_somebody_can_leave_out() -> None:
    found = size.largest_of({"project/data/a": 950, "project/data/b": 20, "project/x.py": 1, "y": 2})
    assert found[:2] == [("project/data/a", 950), ("project/data/b", 20)]
    many = {f"data/{number}": 10 for number in range(100)} | {"x": 5}
    assert size.largest_of(many) == [("data/", 1000), ("x", 5)]


def test_a_checkout_of_regatta_that_was_worked_in_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "regatta"
    subprocess.run(["git", "clone", "-q", "--local", Path(__file__).parents[2], clone], check=True)
    made = (".venv/pyvenv.cfg", ".venv-node/pyvenv.cfg", "results/run.json", "inventory/lab/hosts.yml", ".ruff_cache/x")
    for name in made:
        put(clone, name)
    monkeypatch.chdir(clone)
    monkeypatch.delenv("REGATTA_RESULTS", raising=False)
    found = tree.read(clone)
    assert found.notes == ()
    assert "regatta/release/tree.py" in {path for path, _, _ in found.entries}


def test_a_folder_with_as_many_files_as_a_disk_is_no_tree_unless_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").touch()
    with pytest.raises(SyncError, match="more than 3 files: start in the project's own folder") as caught:
        tree.read(tmp_path)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / "regatta.toml").touch()
    assert len(tree.read(tmp_path).entries) == 5
