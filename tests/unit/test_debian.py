"""Debian packages of a project: looked for before its run, installed where Regatta may, named where a library lacks."""

from pathlib import Path

import pytest
import running

from regatta.cards import project
from regatta.errors import CardError, EnvironmentFault
from regatta.frameworks import advice
from regatta.hosts.remote import Remote
from regatta.node import debian
from regatta.run import system_packages
from regatta_protocol.operations.launch import Inspected


def test_what_is_installed_is_known_also_by_another_name() -> None:
    assert debian.lacking(["dpkg", "awk", "no-such-package"]) == ["no-such-package"]


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("OSError: libgomp.so.1: cannot open shared object file: No such file or directory", "libgomp1"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "libgl1"),
        ("ImportError: libxcb.so.1: cannot open shared object file: No such file or directory", "libxcb1"),
        ("OSError: libavutil.so.59: cannot open shared object file: No such file or directory", "ffmpeg"),
        ("OSError: sndfile library not found using ctypes.util.find_library", "libsndfile1"),
        (
            "OSError: cannot load library 'libsndfile.so': libsndfile.so: cannot open shared object file: No",
            "libsndfile1",
        ),
        ("ImportError: libplum.so.3: cannot open shared object file: No such file", "'apt-file search libplum.so.3'"),
    ],
)
def test_a_missing_library_names_its_package(line: str, package: str) -> None:
    said = advice.about(["Traceback (most recent call last):", '  File "t.py", line 1, in <module>', line])
    assert package in said and "apt = [" in said
    assert advice.package("libplum.so.3") is None


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "regatta.toml").write_text('apt = ["-o=x", "libgomp1"]\n')
    with pytest.raises(CardError, match="'-o=x' is no name of a Debian package"):
        project.read(tmp_path)


def test_a_run_is_refused_before_it_starts_where_a_package_cannot_be_had(tmp_path: Path, here: Path) -> None:
    tree, programs = tmp_path / "x/tree", tmp_path / "bin"
    tree.mkdir(parents=True)
    programs.mkdir()
    (programs / "apt-get").write_text("#!/bin/sh\necho 'E: Unable to locate package no-such-package' >&2; exit 100\n")
    (programs / "apt-get").chmod(0o755)
    (tree / "t.py").write_text("print('ran')\n")
    (tree / "regatta.toml").write_text('apt = ["dpkg", "no-such-package"]\n')
    words = ("torchrun", f"--inventory={here}", "--workers=1", "t.py")
    refused = running.typed(tree, *words, PATH=f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin")
    said = refused.stdout + refused.stderr
    assert refused.returncode and "ran\n" not in said
    assert "installing the Debian package(s) no-such-package on here" in said
    assert "here: no-such-package: E: Unable to locate" in said or "sudo apt-get install no-such-package" in said
    (tree / "regatta.toml").write_text('apt = ["dpkg"]\n')
    assert running.typed(tree, *words).returncode == 0


def test_nodes_that_lack_the_same_are_named_in_one_line(
    pair: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: Failed to fetch a'; echo 'E: Failed to fetch b'; exit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    said: list[str] = []
    answers = {name: Inspected(lacking=("no-such-package",)) for name in ("here", "there")}
    with pytest.raises(EnvironmentFault, match=r"\n  here, there: no-such-package: (E: Failed to fetch a|only root)"):
        system_packages.ready(pair, answers, said.append)
    assert said == ["environment: installing the Debian package(s) no-such-package on here, there"]
