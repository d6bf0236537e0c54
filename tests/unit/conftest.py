"""Fixtures that the unit tests share: a cluster of this machine only, in its own folder."""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import leaks
import pytest

from regatta.hosts import inventories
from regatta.hosts.remote import Remote

HOSTS = """\
head: {{hosts: {{here: }}}}
workers: {{hosts: {{here: }}}}
all:
  vars:
    ansible_connection: local
    cluster_address: 127.0.0.1
    regatta_root: {root}
    regatta_python: {python}
"""


@pytest.fixture(scope="session")
def own_temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for temporary files of this test only; its name is short, because sockets are in it."""
    tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="rt-") as folder:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of the controller ends the threads and children, closes the files and removes the folders that it made."""
    if "workloads" in request.path.parts:
        yield
        return
    request.getfixturevalue("own_temporary")
    with leaks.none():
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep caches and records of a test out of the user's."""
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGATTA_IDENTITY", str(tmp_path / "identity"))
    monkeypatch.setenv("REGATTA_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("REGATTA_INVENTORY", raising=False)
    monkeypatch.delenv("INVENTORY", raising=False)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An inventory of this machine only; runs use the Python of the tests."""
    folder = tmp_path / "inventory" / "here"
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text(HOSTS.format(root=tmp_path / "root", python=sys.executable))
    return folder


@pytest.fixture
def remote(here: Path) -> Iterator[Remote]:
    """Requests to this machine as a node."""
    made = Remote(inventories.load(str(here)))
    yield made
    made.close()


@pytest.fixture
def pair(remote: Remote, tmp_path: Path) -> Iterator[Remote]:
    """Requests to two nodes, `here` and `there`: this machine twice, each with its own folders."""
    here = remote.cluster.head
    root = str(tmp_path / "root2")
    there = replace(here, name="there", cluster_address="127.0.0.2", root=root, state=f"{root}/state")
    made = Remote(replace(remote.cluster, nodes=(here, there), workers=(here, there)))
    yield made
    made.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small tree without git."""
    root = tmp_path / "tree"
    (root / "package").mkdir(parents=True)
    (root / "train.py").write_text("print('train')\n")
    (root / "package" / "__init__.py").write_text("")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("train.py")
    return root
