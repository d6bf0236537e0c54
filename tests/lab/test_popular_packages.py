"""Packages that many projects need, and libraries that they lack: each is imported on hosts, or refused by name."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import Cluster
from provisioning import provision, teardown

from lab.handle import LabHandle

pytestmark = [pytest.mark.whole, pytest.mark.timeout(7200)]

MODULES = {
    "transformers": "transformers",
    "datasets": "datasets",
    "lightning": "lightning",
    "soundfile": "soundfile",
    "librosa": "librosa",
    "torch-geometric": "torch_geometric",
    "sentence-transformers": "sentence_transformers",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "shap": "shap",
    "opencv-python": "cv2",
    "polars": "polars",
    "duckdb": "duckdb",
    "gymnasium": "gymnasium",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "h5py": "h5py",
}
"""The module of each package."""
WITH_TORCHVISION = "timm"
LIBRARIES = ["libgomp1", "libgl1", "libxcb1", "libglib2.0-0"]
SCRIPT = """\
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    print("imported", name)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "look.py").write_text(SCRIPT)
    (folder / "regatta.toml").write_text(f"apt = {json.dumps(LIBRARIES)}\n")
    return folder


@pytest.fixture
def made(make_lab: Callable[..., LabHandle]) -> Iterator[Callable[..., Cluster]]:
    """A function that provisions a host with these variables: `egress` says whether it reaches Debian's archive."""
    labs: list[LabHandle] = []

    def make(*, egress: bool, **variables: object) -> Cluster:
        labs.append(lab := make_lab(nodes=1, egress=egress))
        (lab.inventory / "group_vars").mkdir()
        (lab.inventory / "group_vars/all.yml").write_text(json.dumps({"monitoring_enabled": False, **variables}))
        provision(lab)
        return Cluster(lab)

    yield make
    for lab in labs:
        lab.down()


def imported(cluster: Cluster, project: Path, modules: dict[str, str]) -> str:
    """Run a project that lists these packages and imports all of them; returns what it printed."""
    (project / "requirements.txt").write_text("".join(f"{name}\n" for name in modules))
    said = cluster.regatta(project, "torchrun", "--workers", "1", "look.py", *modules.values()).stdout
    assert [name for name in modules.values() if f"imported {name}\n" not in said] == []
    return said


def has(cluster: Cluster, library: str) -> bool:
    """Whether a host has a shared library."""
    return library in cluster.lab.ssh("node1", "sudo ldconfig -p").stdout


def test_packages_beside_the_build_for_cpus_and_libraries_on_the_spot(
    made: Callable[..., Cluster], project: Path
) -> None:
    cluster = made(egress=True)
    assert not has(cluster, "libgomp.so.1")
    said = imported(cluster, project, MODULES)
    assert "installing the Debian package(s) libgomp1, " in said and has(cluster, "libgomp.so.1")
    (project / "requirements.txt").write_text(f"{WITH_TORCHVISION}\n")
    refused = cluster.regatta(project, "torchrun", "--workers", "1", "look.py", WITH_TORCHVISION, check=False)
    assert refused.returncode and "torchvision" in refused.stdout and "is compiled for another build" in refused.stdout
    assert "installing the Debian" not in refused.stdout
    teardown(cluster.lab)
    assert not has(cluster, "libgomp.so.1")


def test_packages_beside_the_build_of_the_ordinary_index_and_libraries_of_provisioning(
    made: Callable[..., Cluster], project: Path
) -> None:
    cluster = made(egress=False, python_env_torch_build="pypi", base_more_packages=LIBRARIES)
    said = imported(cluster, project, {**MODULES, WITH_TORCHVISION: WITH_TORCHVISION})
    assert "installing the Debian" not in said


def test_libraries_that_hosts_cannot_get_are_named_before_the_run(cluster: Cluster, project: Path) -> None:
    (project / "requirements.txt").touch()
    refused = cluster.regatta(project, "torchrun", "--workers", "1", "look.py", check=False)
    assert refused.returncode and "node1, node2, node3: libgomp1, " in refused.stdout
    assert "base_more_packages" in refused.stdout
