"""The Debian package graph, from our own records and from those of this machine's apt."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest
from launching import Ended, python

from workloads.ppr import debian, edgelist

RECORDS = """\
Package: apt
Version: 2.6
Depends: libc6 (>= 2.34), gpgv | gpgv2 <!nocheck>, python3:any (>= 3.9~)
Pre-Depends: libc6 (<< 3)
Suggests: doc-apt, mail-agent [amd64],
 wajig | aptitude
Description: the package manager
 Depends: nothing, this is prose

Package: libc6
Recommends: libidn2-0
Enhances: apt

Package: apt
Version: 2.5
Depends: old
"""


def fake_apt(folder: Path, script: str) -> str:
    program = folder / "bin" / "apt-cache"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def run(out: Path, path: str, *arguments: str) -> Ended:
    return python("-m", "workloads.ppr.debian", str(out), *arguments, PATH=path)


def test_relations_alternatives_and_qualifiers() -> None:
    found = debian.dependencies(RECORDS, debian.RELATIONS["all"])
    assert found == {
        "apt": {"libc6", "gpgv", "gpgv2", "python3", "doc-apt", "mail-agent", "wajig", "aptitude", "old"},
        "libc6": {"libidn2-0"},
    }
    strict = debian.dependencies(RECORDS, debian.RELATIONS["depends"])
    assert strict == {"apt": {"libc6", "gpgv", "gpgv2", "python3", "old"}, "libc6": set()}


def test_ids_number_the_names_in_order(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text(debian.edge_list({"b": {"c", "a"}, "a": {"b", "a"}, "lone": set()}))
    read = edgelist.read(path)
    assert read.names == {0: b"a", 1: b"b", 2: b"c", 3: b"lone"}
    assert read.edges.tolist() == [[0, 0], [0, 1], [1, 0], [1, 2]]
    assert path.read_text().startswith("# Debian package dependencies: 4 nodes, 4 edges\n# node 0 a\n")


def test_written_alike_whole_and_readable(tmp_path: Path) -> None:
    (tmp_path / "records").write_text(RECORDS)
    path = fake_apt(tmp_path, f"cat {tmp_path}/records")
    outs = [tmp_path / "one.txt.gz", tmp_path / "two.txt.gz", tmp_path / "plain.txt"]
    for out in outs:
        assert run(out, path).status == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert gzip.decompress(outs[0].read_bytes()) == outs[2].read_bytes()
    assert stat.S_IMODE(outs[0].stat().st_mode) == 0o666 & ~_mask()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bin", "one.txt.gz", "plain.txt", "records", "two.txt.gz"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (":", "apt's list of packages is empty: run apt-get update, or give another graph with --graph"),
        ("echo 'Package: a'", "apt's list of packages is empty"),
        ("echo broken >&2; exit 100", "apt-cache dumpavail failed (broken)"),
    ],
)
def test_an_apt_without_packages(tmp_path: Path, script: str, message: str) -> None:
    ended = run(tmp_path / "g.txt", fake_apt(tmp_path, script), "--status", "none")
    assert ended.status == 2
    assert message in ended.err
    assert not (tmp_path / "g.txt").exists()


def test_a_machine_without_apt(tmp_path: Path) -> None:
    ended = run(tmp_path / "g.txt", str(tmp_path), "--status", "none")
    assert (ended.status, ended.err) == (2, "this machine has no apt-cache: give another graph with --graph FILE\n")


@pytest.mark.parametrize("script", [":", "exit 100", None])
def test_a_container_without_lists_gives_its_installed_packages(tmp_path: Path, script: str | None) -> None:
    (tmp_path / "status").write_text(RECORDS)
    path = fake_apt(tmp_path, script) if script else str(tmp_path)
    assert run(tmp_path / "g.txt", path, "--status", str(tmp_path / "status")).status == 0
    assert (tmp_path / "g.txt").read_text() == debian.edge_list(debian.dependencies(RECORDS, debian.RELATIONS["all"]))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "records").write_text(RECORDS)
    ended = run(tmp_path / "none" / "g.txt", fake_apt(tmp_path, f"cat {tmp_path}/records"))
    assert (ended.status, ended.err) == (2, f"{tmp_path}/none/g.txt: No such file or directory\n")


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
