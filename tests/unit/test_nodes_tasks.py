"""Commands on the nodes themselves: exec, shell, ssh-config."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from regatta.errors import RemoteError
from regatta.hosts import sshconfig
from regatta.hosts.remote import Remote
from regatta.tasks import nodes


def typed(here: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    program = str(Path(sys.executable).with_name("regatta"))
    return subprocess.run([program, words[0], "-i", str(here), *words[1:]], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("dashes", [("--",), ()], ids=["dashes", "plain"])
def test_exec_passes_words_as_they_are_typed_and_the_exit_code_on(here: Path, dashes: tuple[str, ...]) -> None:
    done = typed(here, "exec", *dashes, "sh", "-c", 'echo "$1"; echo err >&2; exit 3', "sh", "a  b -h")
    assert done.returncode == 3
    assert done.stdout == "here: exit code 3\n    a  b -h\n    err\n" and done.stderr == ""


def test_exec_says_what_is_wrong(here: Path) -> None:
    assert "no host 'nowhere'" in typed(here, "exec", "--nodes", "nowhere", "--", "true").stderr
    assert "exec needs COMMAND" in typed(here, "exec", "--").stderr
    missing = typed(here, "exec", "no-such-program")
    assert missing.returncode == 1 and "here: there is no program 'no-such-program'" in missing.stderr


def test_a_command_that_does_not_end_is_ended(remote: Remote) -> None:
    with pytest.raises(RemoteError, match=r"here: 'sleep' has not ended after 0\.2 s"):
        nodes.run(remote, remote.cluster.head, ["sleep", "60"], 0.2)


def test_equal_outputs_are_folded() -> None:
    done = {"n1": (0, "a"), "n2": (1, "a"), "n3": (0, "a"), "n4": (0, "b")}
    assert nodes.folded(done) == {(0, "a"): ["n1", "n3"], (1, "a"): ["n2"], (0, "b"): ["n4"]}


def test_ssh_reads_the_configuration_of_a_person(remote: Remote, tmp_path: Path) -> None:
    node = replace(remote.cluster.head, name="n1", host="192.0.2.7", user="ann", port=2222, key_file="/k y")
    other = replace(node, name="n2", ssh_args=("-J", "bob@192.0.2.1:2200", "-o", "ConnectTimeout=7"))
    (tmp_path / "config").write_text(sshconfig.of_person(tmp_path, [node, other]))

    def asked(name: str) -> list[str]:
        command = ["ssh", "-G", "-F", str(tmp_path / "config"), name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert {"hostname 192.0.2.7", "user ann", "port 2222", "identityfile /k y"} <= {*asked("n1")}
    assert any("proxyjump bob@" in line and "192.0.2.1" in line and "2200" in line for line in asked("n2"))
    assert {"connecttimeout 7", "stricthostkeychecking true"} <= {*asked("n2")}
    assert "connecttimeout 7" not in asked("n1")


def test_a_shell_in_a_run_is_the_one_of_its_directory(remote: Remote) -> None:
    assert nodes.shell_command(remote, "here")[-1].endswith("sh")
