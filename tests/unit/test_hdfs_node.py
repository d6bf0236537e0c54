"""The findings of the hdfs role's module on a node: which Java it takes, what data it sees."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ansible import module_utils

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def javas() -> Iterator[ModuleType]:
    """The module_utils `java`, where modules find it, and what else they import."""
    with pytest.MonkeyPatch.context() as patched:
        for own in ("nvidia", "java"):
            name = f"ansible.module_utils.{own}"
            found = load(name, ANSIBLE / f"module_utils/{own}.py")
            patched.setitem(sys.modules, name, found)
            patched.setattr(module_utils, own, found, raising=False)
        yield found


@pytest.fixture(scope="module")
def node(javas: ModuleType) -> ModuleType:
    return load("hdfs_node", ANSIBLE / "roles/hdfs/library/hdfs_node.py")


@pytest.fixture(scope="module")
def gather(javas: ModuleType) -> ModuleType:
    return load("preflight_gather", ANSIBLE / "roles/preflight/library/preflight_gather.py")


@pytest.fixture(autouse=True)
def own_host(tmp_path: Path, javas: ModuleType, node: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of the test's own: its Javas and its units."""
    monkeypatch.setattr(javas, "FOLDER", str(tmp_path / "jvm"))
    monkeypatch.setattr(node, "UNITS", str(tmp_path / "regatta-hdfs-*.service"))


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


SPEC = "openjdk-21-jre-headless|openjdk-17-jre-headless|openjdk-11-jre-headless"


def test_the_newest_java_that_fits_is_taken_and_the_one_in_use_is_kept(node: ModuleType, tmp_path: Path) -> None:
    homes = {name: java(tmp_path / "jvm" / f"java-{name}-x", version) for name, version in VERSIONS.items()}
    (tmp_path / "jvm/openjdk-21").symlink_to(homes["21"])
    assert node.find_java("") == (homes["21"], 21)
    unit = tmp_path / "regatta-hdfs-datanode.service"
    unit.write_text(f"Environment=HOME=/x JAVA_HOME={homes['17']} HADOOP_HOME=/y\n")
    assert node.find_java("") == (homes["17"], 17)
    assert node.find_java(homes["11"]) == (homes["11"], 11)
    unit.write_text(f"Environment=HOME=/x JAVA_HOME={tmp_path / 'gone'} HADOOP_HOME=/y\n")
    assert node.find_java("") == (homes["21"], 21)


VERSIONS = {"8": "1.8.0_402", "11": "11.0.22", "17": "17.0.21", "21": "21.0.2", "25": "25"}


def test_a_host_with_java_8_alone_gets_another_one(
    node: ModuleType, gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "run", lambda *_: (0, "rsync installed\n"))
    java(tmp_path / "jvm/java-8-x", VERSIONS["8"])
    assert gather.missing_packages(["rsync", SPEC]) == [SPEC]
    with pytest.raises(node.NodeError, match=r"there is Java 8 in .*hdfs_java_home"):
        node.find_java("")
    java(tmp_path / "jvm/temurin-17", VERSIONS["17"])
    assert gather.missing_packages(["rsync", SPEC]) == []
    assert gather.missing_packages(["openjdk-17-jre-headless"]) == ["openjdk-17-jre-headless"]


def test_a_java_that_is_too_old_for_one_does_for_the_other(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "run", lambda *_: (0, ""))
    java(tmp_path / "jvm/temurin-11", VERSIONS["11"])
    newer = "openjdk-21-jre-headless|openjdk-17-jre-headless"
    assert gather.missing_packages([SPEC, newer]) == [newer]


def test_a_java_that_a_variable_names(gather: ModuleType, tmp_path: Path) -> None:
    homes = {name: str(java(tmp_path / f"jvm/{name}", VERSIONS[name])) for name in ("11", "17")}

    def wrong(home: str) -> str:
        found = gather.wrong_javas({"spark_java_home": {"home": home, "oldest": 17, "newest": 21}})
        return str(found.get("spark_java_home", ""))

    assert wrong(homes["17"]) == ""
    assert "Java 11" in wrong(homes["11"]) and "no Java" in wrong(str(tmp_path / "gone"))


def test_one_of_several_packages_does(gather: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "run", lambda *_: (1, "openjdk-17-jre-headless installed\n"))
    assert gather.missing_packages([SPEC]) == []


# Output of `apt-cache policy` on Debian 12 and 13, Ubuntu 24.04: recorded, shortened.
POLICY = """\
openjdk-21-jre-headless:
  Installed: (none)
  Candidate: {21}
  Version table:
openjdk-17-jre-headless:
  Installed: (none)
  Candidate: {17}
  Version table:
"""


@pytest.mark.parametrize(
    ("candidates", "name"),
    [
        ({"21": "(none)", "17": "17.0.17+10-1~deb12u1"}, "openjdk-17-jre-headless"),
        ({"21": "21.0.9+10-1~deb13u1", "17": "(none)"}, "openjdk-21-jre-headless"),
        ({"21": "21.0.9+10-1~24.04", "17": "17.0.17+10-1~24.04"}, "openjdk-21-jre-headless"),
        ({"21": "(none)", "17": "(none)"}, None),
    ],
)
def test_the_newest_java_that_the_system_has_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidates: dict[str, str], name: str | None
) -> None:
    installed = load("installed", ANSIBLE / "module_utils/installed.py")
    monkeypatch.setitem(sys.modules, "ansible.module_utils.installed", installed)
    packages = load("base_packages", ANSIBLE / "roles/base/library/base_packages.py")
    text = POLICY.replace("{21}", candidates["21"]).replace("{17}", candidates["17"])
    (tmp_path / "said").write_text(text)
    (tmp_path / "apt-cache").write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    (tmp_path / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if name:
        assert packages.chosen(["rsync", SPEC], []) == ["rsync", name]
    else:
        with pytest.raises(LookupError, match=r"none of openjdk-21-jre-headless, openjdk-17-jre-headless"):
            packages.chosen(["rsync", SPEC], [])
