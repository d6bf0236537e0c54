"""What the hdfs role's module finds on a node: which Java it takes, what data it sees."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "ansible/roles/hdfs/library"


@pytest.fixture(scope="module")
def node() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hdfs_node", LIBRARY / "hdfs_node.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def java(folder: Path, version: str) -> str:
    """A folder that says it is this Java."""
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (folder / "bin/java").write_text("#!/bin/sh\n")
    (folder / "bin/java").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ["11.0.22", "17.0.21", "21"])
def test_java_that_hadoop_runs_on(node: ModuleType, tmp_path: Path, version: str) -> None:
    assert node.find_java(java(tmp_path / "jdk", version)) == (str(tmp_path / "jdk"), int(version[:2]))


@pytest.mark.parametrize("version", ["1.8.0_402", "25.0.1"])
def test_java_that_it_does_not_run_on(node: ModuleType, tmp_path: Path, version: str) -> None:
    with pytest.raises(node.NodeError, match=r"runs on Java 11 to 21, and there is Java (8|25) in .*hdfs_java_home"):
        node.find_java(java(tmp_path / "jdk", version))
    with pytest.raises(node.NodeError, match="there is no Java in"):
        node.find_java(str(tmp_path / "none"))


def test_what_a_node_holds(node: ModuleType, tmp_path: Path) -> None:
    assert node.held(str(tmp_path)) == {"name": "", "pools": {}, "checkpoint": {}}
    blocks = tmp_path / "data/current/BP-1-10.0.0.1-1/current/finalized/subdir0"
    blocks.mkdir(parents=True)
    for name in ("blk_1", "blk_1_1001.meta", "blk_2", "blk_2_1002.meta", "VERSION"):
        (blocks / name).touch()
    (tmp_path / "name/current").mkdir(parents=True)
    (tmp_path / "name/current/VERSION").write_text("#now\nclusterID=regatta-x\nblockpoolID=BP-1-10.0.0.1-1\n")
    (tmp_path / "checkpoint/current").mkdir(parents=True)
    for name in ("fsimage_0000000000000000009", "fsimage_0000000000000000012", "fsimage_0000000000000000012.md5"):
        (tmp_path / "checkpoint/current" / name).touch()
    held = node.held(str(tmp_path))
    assert held["name"] == "BP-1-10.0.0.1-1"
    assert held["pools"] == {"BP-1-10.0.0.1-1": 2}
    assert held["checkpoint"]["transaction"] == 12
