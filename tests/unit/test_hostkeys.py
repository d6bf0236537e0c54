"""Pinned host keys: what ssh says where one differs, and how it is forgotten."""

import io
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from regatta.errors import UnreachableError, UsageError
from regatta.hosts import hostkeys
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote, explain
from regatta.provisioning import commands, forget
from regatta.provisioning.flags import Options
from regatta.run import services
from regatta.tasks.services import _status_rows

SAID = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
The fingerprint for the ED25519 key sent by the remote host is\r
SHA256:{shows}.\r
Please contact your system administrator.\r
Add correct host key in {known} to get rid of this message.\r
Offending ED25519 key in {known}:2\r
Host key for {whose} has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
SHOWS = "n" * 43


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Two public keys, `ssh-ed25519 AAAA...`."""
    made = []
    for name in ("old", "new"):
        path = tmp_path / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
        made.append(path.with_suffix(".pub").read_text().strip())
    return made


def printed(key: str) -> str:
    """Return what `ssh-keygen -l` calls a public key."""
    done = subprocess.run(["ssh-keygen", "-l", "-f", "-"], input=key, capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


def cluster(folder: Path) -> Cluster:
    node = Node("n1", "10.0.0.1", "10.0.0.1", False, None, None, None, (), "/opt/regatta", "/var/lib/regatta", "python")
    return Cluster("mine", folder, (node,), (node,), node)


def test_fingerprints_are_those_of_ssh(keys: list[str]) -> None:
    for key in keys:
        pin = hostkeys.parse(f"h {key}")
        assert pin and pin.shown == f"ED25519 {printed(key)}"
    broken = hostkeys.parse("h ssh-ed25519 AAAA")
    assert broken and broken.shown == "ED25519 (unreadable)"


def test_both_fingerprints_and_the_way_on_are_said(
    tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"# mine\n10.0.0.1 {keys[0]}\n")
    said = str(hostkeys.explain("n1", "10.0.0.1", SAID.format(shows=SHOWS, known=known, whose="10.0.0.1")))
    assert f"it shows ED25519 SHA256:{SHOWS}, pinned is ED25519 {printed(keys[0])}" in said
    assert "regatta forget --node n1" in said
    jump = str(hostkeys.explain("n1", "10.0.0.1", SAID.format(shows=SHOWS, known=known, whose="[jump]:2222")))
    assert jump.startswith("n1: the host key of [jump]:2222") and "regatta forget --node [jump]:2222" in jump
    (tmp_path / "own").write_text("Host gpu1\n HostName 10.0.0.1\n")
    monkeypatch.setenv("REGATTA_SSH_CONFIG", str(tmp_path / "own"))
    alias = str(hostkeys.explain("n1", "gpu1", SAID.format(shows=SHOWS, known=known, whose="10.0.0.1")))
    assert "the host key of 10.0.0.1" in alias and "regatta forget --node n1" in alias
    unknown = hostkeys.explain("n1", "10.0.0.1", "Host key verification failed.")
    assert all(word in str(unknown) for word in ("n1", "10.0.0.1", "not pinned", "regatta provision"))


@pytest.mark.parametrize(
    ("stderr", "word"),
    [
        ("No ED25519 host key is known for [10.0.0.1]:22.\r\nHost key verification failed.\r\n", "KEY NOT PINNED"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.", "KEY CHANGED"),
        ("u@10.0.0.1: Permission denied (publickey).", "LOGIN REFUSED"),
        ("sudo: a password is required", "NO SUDO"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "NO ANSWER"),
        ("", "NO ANSWER"),
    ],
)
def test_status_says_why_a_node_could_not_be_asked(remote: Remote, stderr: str, word: str) -> None:
    error = explain(remote.cluster.head, 255, stderr)
    assert services.trouble(error) == word
    shown = services.NodeStatus(remote.cluster.head, {}, {}, error=error.reason, trouble=services.trouble(error))
    assert _status_rows([shown], {})[1][2] == word


@pytest.mark.parametrize(("name", "said"), [("gone", "gone is not there"), ("there", "refuses our key")])
def test_a_key_file_that_is_not_there_is_named(remote: Remote, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "there").write_text("a key")
    node = replace(remote.cluster.head, key_file=str(tmp_path / name))
    warning = f"Warning: Identity file {node.key_file} not accessible: No such file or directory.\n"
    assert said in explain(node, 255, f"{warning}u@10.0.0.1: Permission denied (publickey).").reason


def test_hashed_names_are_found_and_removed(tmp_path: Path, keys: list[str]) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"10.0.0.1 {keys[0]}\n[10.0.0.2]:2222 {keys[1]}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    first, second = known.read_text().splitlines()
    assert [pin.text for pin in hostkeys.find(known, ("10.0.0.1",))] == [first]
    assert [pin.text for pin in hostkeys.find(known, ("[10.0.0.2]:2222",))] == [second]
    assert hostkeys.find(known, ("10.0.0.2",)) == []
    assert hostkeys.without(known, ("[10.0.0.2]:2222",)) == f"{first}\n"
    assert hostkeys.find(tmp_path / "none", ("10.0.0.1",)) == [] and hostkeys.without(tmp_path / "none", ("h",)) == ""


def test_comments_and_marked_lines_stay_and_nothing_else_is_written(tmp_path: Path, keys: list[str]) -> None:
    known = tmp_path / "known_hosts"
    kept = f"# mine\n@revoked 10.0.0.1 {keys[1]}\n"
    known.write_text(f"{kept}10.0.0.1 {keys[0]}\nh {keys[0]}")
    before = sorted(tmp_path.iterdir())
    known.chmod(0o400)
    assert [pin.names for pin in hostkeys.find(known, ("10.0.0.1",))] == ["10.0.0.1"]
    assert hostkeys.without(known, ("10.0.0.1",)) == f"{kept}h {keys[0]}\n"
    assert sorted(tmp_path.iterdir()) == before and known.stat().st_mode & 0o777 == 0o400


def test_a_file_that_ssh_cannot_read_is_named_with_its_line(tmp_path: Path, keys: list[str]) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"10.0.0.1 {keys[0]}\nwhat is this\n")
    with pytest.raises(UsageError, match=rf"{known}: ssh cannot read line 2"):
        hostkeys.without(known, ("10.0.0.1",))


@pytest.mark.parametrize("line", ["", "#", "a b", "@revoked h ssh-rsa AAAA"])
def test_lines_that_are_none(line: str) -> None:
    assert hostkeys.parse(line) is None


def test_the_line_is_replaced_and_others_stay(
    tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = hostkeys.parse(f"10.0.0.1 {keys[1]}")
    assert now
    monkeypatch.setattr(forget, "_shown", lambda *_: now)
    known = tmp_path / "known_hosts"
    known.write_text(f"# mine\n10.0.0.1,n1 {keys[0]}\n10.0.0.2 {keys[0]}\n")
    before = known.read_text()
    monkeypatch.delenv("CONFIRM", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(UsageError, match="--yes"):
        forget.forget(cluster(tmp_path), "n1")
    assert known.read_text() == before
    assert forget.forget(cluster(tmp_path), "n1", yes=True) == 0
    assert known.read_text() == f"# mine\n10.0.0.2 {keys[0]}\n10.0.0.1,n1 {keys[1]}\n"
    said = capsys.readouterr().out
    assert printed(keys[0]) in said and printed(keys[1]) in said
    assert forget.forget(cluster(tmp_path), "n1") == 0
    assert "nothing to forget" in capsys.readouterr().out
    assert not list(tmp_path.glob("known_hosts?*")) and known.stat().st_mode & 0o777 == 0o644


def test_a_line_for_many_hosts_leads_to_one_for_this_host(
    tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = hostkeys.parse(f"10.0.0.1 {keys[1]}")
    monkeypatch.setattr(forget, "_shown", lambda *_: now)
    (tmp_path / "known_hosts").write_text(f"10.0.0.* {keys[0]}\n")
    forget.forget(cluster(tmp_path), "n1", yes=True)
    assert (tmp_path / "known_hosts").read_text() == f"10.0.0.1 {keys[1]}\n"


@pytest.mark.parametrize("command", ["forget", "rebuild"])
def test_a_check_pins_nothing(
    here: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    now = hostkeys.parse(f"10.0.0.1 {keys[1]}")
    monkeypatch.setattr(forget, "_shown", lambda *_: now)
    monkeypatch.setattr(commands.inventories, "load", lambda _: cluster(here))
    (here / "known_hosts").write_text(f"10.0.0.1 {keys[0]}\n")
    assert commands.run(command, Options(str(here), "n1", check=True, confirm="yes")) == 0
    assert (here / "known_hosts").read_text() == f"10.0.0.1 {keys[0]}\n"
    assert printed(keys[1]) in capsys.readouterr().out


def test_a_host_that_says_nothing_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        one = cluster(tmp_path)
        node = replace(one.head, host="127.0.0.1", port=silent.getsockname()[1])
        with pytest.raises(UnreachableError, match=r"n1: .*no answer"):
            forget.forget(replace(one, nodes=(node,), workers=(node,), head=node), "n1")
