"""Releases on this machine as a node: the real agent, the real rsync."""

import os
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from regatta.errors import NodesError, SyncError
from regatta.hosts import rsync
from regatta.hosts.remote import Remote
from regatta.node import manifest, releases
from regatta.release import sync, tree


def put(remote: Remote, source: Path, **options: bool) -> sync.Synced:
    return sync.sync(remote, tree.read(source), remote.cluster.nodes, **options)


def released(remote: Remote, release: str) -> Path:
    return Path(remote.cluster.head.root) / "releases" / release


def thaw(path: Path) -> None:
    """Make a file of a release writable (tests run as root or as its owner)."""
    path.parent.chmod(0o755)
    path.chmod(0o644)


def test_release_is_the_tree_and_read_only(remote: Remote, source: Path) -> None:
    done = put(remote, source)
    target = released(remote, done.tree.release)
    assert (target / "train.py").read_text() == "print('train')\n"
    assert (target / "link").readlink() == Path("train.py")
    assert stat.S_IMODE((target / "run.sh").stat().st_mode) == 0o555
    assert stat.S_IMODE((target / "train.py").stat().st_mode) == 0o444
    assert stat.S_IMODE((target / "package").stat().st_mode) == 0o555
    current = Path(remote.cluster.head.root) / "current"
    assert current.resolve() == target


@pytest.mark.parametrize("before", [None, 0o755])
def test_releases_are_for_their_owner_alone(remote: Remote, source: Path, before: int | None) -> None:
    base = Path(remote.cluster.head.root) / "releases"
    if before:
        base.mkdir(parents=True)
        base.chmod(before)
    put(remote, source)
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


def test_second_sync_sends_nothing_and_unchanged_files_are_shared(remote: Remote, source: Path) -> None:
    first = put(remote, source)
    assert first.sent_to == ("here",)
    assert put(remote, source).sent_to == ()
    (source / "train.py").write_text("print('changed')\n")
    second = put(remote, source)
    assert second.sent_to == ("here",)
    old, new = (released(remote, done.tree.release) for done in (first, second))
    assert (old / "run.sh").stat().st_ino == (new / "run.sh").stat().st_ino
    assert (old / "train.py").read_text() == "print('train')\n"
    assert (new / "train.py").read_text() == "print('changed')\n"
    assert put(remote, source).sent_to == ()


def test_id_depends_on_content_mode_and_path_alone(source: Path, tmp_path: Path) -> None:
    release = tree.read(source).release
    for path in source.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1, 1))
    (source / "train.py").chmod(0o640)
    assert tree.read(source).release == release
    (source / "train.py").chmod(0o755)
    assert tree.read(source).release != release
    (source / "train.py").chmod(0o644)
    (source / "train.py").rename(source / "other.py")
    assert tree.read(source).release != release


@pytest.mark.parametrize("change", ["content", "same size and times", "mode", "removed", "added"])
def test_a_changed_copy_is_found_named_and_repaired(remote: Remote, source: Path, change: str) -> None:
    release = put(remote, source).tree.release
    file = released(remote, release) / "train.py"
    before = file.stat()
    thaw(file)
    if change == "content":
        file.write_text("print('tampered')\n")
    elif change == "same size and times":
        file.write_text("print('tr4in')\n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "mode":
        file.chmod(0o755)
    elif change == "removed":
        file.unlink()
    else:
        (file.parent / "a_new_module.py").write_text("")
    path = "a_new_module.py" if change == "added" else "train.py"
    with pytest.raises(SyncError, match=f"here: release {release} was changed there: {path}"):
        put(remote, source)
    assert put(remote, source, repair=True).sent_to == ("here",)
    assert file.read_text() == "print('train')\n"
    assert put(remote, source).sent_to == ()


def test_a_damaged_older_release_does_not_spread(remote: Remote, source: Path) -> None:
    release = put(remote, source).tree.release
    file = released(remote, release) / "package" / "__init__.py"
    info = file.stat()
    thaw(file)
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    thaw(released(remote, release) / "train.py")
    tampered = released(remote, release) / "train.py"
    times = tampered.stat()
    tampered.write_text("print('tr4in')\n")
    tampered.chmod(0o444)
    os.utime(tampered, ns=(times.st_atime_ns, times.st_mtime_ns))
    (source / "more.py").write_text("more = 1\n")
    done = put(remote, source)
    assert (released(remote, done.tree.release) / "train.py").read_text() == "print('train')\n"


def test_git_decides_what_belongs_to_a_tree(source: Path) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", "-C", source, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True)

    git("init", "-q")
    (source / ".gitignore").write_text("*.log\nbig/\n")
    (source / "a.log").write_text("x")
    (source / "big").mkdir()
    (source / "big" / "model.bin").write_text("x")
    (source / "gone.py").write_text("x")
    git("add", "-A")
    git("commit", "-qm", "x")
    (source / "gone.py").unlink()
    (source / "untracked.py").write_text("x")
    paths = {entry[0] for entry in tree.read(source).entries}
    assert {"train.py", "link", "untracked.py", ".gitignore"} <= paths
    assert not {"a.log", "big/model.bin", "gone.py"} & paths
    (source / ".regattaignore").write_text("# a comment\nrun.sh\n!big/\n")
    paths = {entry[0] for entry in tree.read(source).entries}
    assert "run.sh" not in paths
    assert "big/model.bin" in paths
    assert "a.log" not in paths
    made = tree.read(source)
    assert made.dirty is True
    assert made.commit and len(made.commit) == 40


def test_names_with_blanks_newlines_and_bytes_that_are_no_text(remote: Remote, source: Path) -> None:
    names = [b"a b.py", b"new\nline.py", b"quote'\".py", b"-rf", b"caf\xe9.py", "größe.py".encode()]
    for name in names:
        (source / os.fsdecode(name)).write_text("x")
    done = put(remote, source)
    found = {os.fsencode(path.name) for path in released(remote, done.tree.release).iterdir()}
    assert set(names) <= found


def test_records_kept_in_the_tree_do_not_change_it(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGATTA_RESULTS")
    monkeypatch.chdir(source)
    release = tree.read(source).release
    (source / "results").mkdir()
    (source / "results" / "run.json").write_text("{}")
    assert tree.read(source).release == release


def test_empty_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SyncError, match="no file to sync"):
        tree.read(tmp_path / "empty")


def test_unreadable_file_is_named(source: Path) -> None:
    (source / "train.py").unlink()
    (source / "train.py").mkdir()
    os.mkfifo(source / "pipe")
    assert "pipe" not in {entry[0] for entry in tree.read(source).entries}


def test_two_people_syncing_at_once(remote: Remote, source: Path) -> None:
    for number in range(50):
        (source / f"file{number}.py").write_text(f"{number}\n" * 100)
    errors: list[Exception] = []

    def one() -> None:
        try:
            put(remote, source)
        except Exception as error:  # whatever it is, the test shows it
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert put(remote, source).sent_to == ()
    left = [p.name for p in (Path(remote.cluster.head.root) / "releases").iterdir() if p.name.startswith(".incoming")]
    assert left == []


def test_interrupted_transfer_leaves_nothing(remote: Remote, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rsync, "rsync", broken)
    with pytest.raises(KeyboardInterrupt):
        put(remote, source)
    assert [p.name for p in (Path(remote.cluster.head.root) / "releases").iterdir() if p.name != ".lock"] == []


def test_full_disk_is_named(remote: Remote, source: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "root").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path / "root"], check=True)
        try:
            (source / "large.bin").write_bytes(os.urandom(3 << 20))
            with pytest.raises(NodesError, match=r"here: .*No space left"):
                put(remote, source)
            left = [p.name for p in (tmp_path / "root" / "releases").iterdir() if p.name != ".lock"]
            assert left == []
        finally:
            subprocess.run(["umount", tmp_path / "root"], check=True)
    else:
        (tmp_path / "root").mkdir(mode=0o500)
        with pytest.raises(NodesError, match="Permission denied"):
            put(remote, source)


def test_old_releases_are_pruned_but_never_one_in_use(
    remote: Remote, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for number in range(releases.KEEP + 4):
        (source / "train.py").write_text(f"print({number})\n")
        made.append(put(remote, source).tree.release)
    base = Path(remote.cluster.head.root) / "releases"
    assert all((base / release).is_dir() for release in made), "just made: a run may be about to start from it"
    old = time.time() - 2 * releases.GRACE_SECONDS
    for number, release in enumerate(made):
        os.utime(base / f".{release}.json", (old + number, old + number))
    run = Path(remote.cluster.head.state) / "runs" / "busy"
    run.mkdir(parents=True)
    (run / "spec.json").write_text(f'{{"mode": "member", "release": "{made[0]}"}}')
    (source / "train.py").write_text("print('last')\n")
    last = put(remote, source).tree.release
    kept = {path.name for path in base.iterdir() if path.is_dir()}
    assert made[0] in kept, "a run in progress uses it"
    assert last in kept
    assert made[1] not in kept
    assert len(kept) == releases.KEEP + 1


def test_first_difference_is_the_first_by_path() -> None:
    want = [["a", "f", "1"], ["b", "f", "2"], ["c", "f", "3"]]
    assert manifest.first_difference(want, want) is None
    assert manifest.first_difference(want, [["a", "f", "1"], ["c", "f", "9"]]) == ("b", "is missing")
    assert manifest.first_difference(want, [["a", "x", "1"], *want[1:]]) == ("a", "has another mode")


def change_everything(source: Path) -> None:
    """A file changed, one removed, one added in a new folder, a link led elsewhere, another mode, a name of bytes."""
    (source / "train.py").write_text("print('changed')\n")
    (source / "run.sh").chmod(0o644)
    (source / "link").unlink()
    (source / "link").symlink_to("package")
    (source / "new" / "folder").mkdir(parents=True)
    (source / "new" / "folder" / "empty.py").write_text("")
    (source / os.fsdecode(b"caf\xe9")).write_bytes(b"\0\xff")
    next(path for path in (source / "package").rglob("*") if path.is_file()).unlink()


def test_a_small_change_goes_with_the_question(remote: Remote, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(remote, source)

    def none(*_: object, **__: object) -> None:
        raise AssertionError("a file was sent on its own")

    monkeypatch.setattr(rsync, "rsync", none)
    change_everything(source)
    done = put(remote, source)
    assert done.sent_to == ("here",)
    target = released(remote, done.tree.release)
    for path, kind, content in done.tree.entries:
        assert manifest.entry(target, path) == [path, kind, content]
    assert manifest.walk(str(target)) == sorted(path for path, _, _ in done.tree.entries)
    assert stat.S_IMODE((target / "run.sh").stat().st_mode) == 0o444
    assert (target / "train.py").stat().st_mtime_ns == (source / "train.py").stat().st_mtime_ns
    assert put(remote, source).sent_to == ()
    assert not list(target.parent.glob(".incoming-*"))


@pytest.mark.parametrize("trouble", ["gone", "tampered", "large"])
def test_a_small_change_to_what_a_node_lacks_is_sent_whole(remote: Remote, source: Path, trouble: str) -> None:
    old = released(remote, put(remote, source).tree.release)
    if trouble == "gone":
        (old.parent / f".{old.name}.json").unlink()
    elif trouble == "tampered":
        thaw(old / "run.sh")
        (old / "run.sh").write_text("echo tampered\n")
    else:
        (source / "large.bin").write_bytes(os.urandom(sync.PATCH_BYTES + 1))
    (source / "train.py").write_text("print('changed')\n")
    done = put(remote, source)
    target = released(remote, done.tree.release)
    assert all(manifest.entry(target, path) == [path, kind, content] for path, kind, content in done.tree.entries)
    assert not list(target.parent.glob(".incoming-*"))
