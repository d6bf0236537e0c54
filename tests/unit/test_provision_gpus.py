"""NVIDIA's driver and the build of torch, by recorded facts: what preflight reads, refuses and names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import modules
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from test_provision_preflight import host as of_preflight

from regatta.paths import PROJECT
from regatta.provisioning import lockfile

NVIDIA = modules.load("nvidia", "module_utils/nvidia.py")
GPUS = modules.load("gpus", "roles/preflight/filter_plugins/gpus.py")
# /proc/driver/nvidia/version of the closed modules (Debian 12) and of the open ones, as they are published.
CLOSED = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.01  Tue Sep 17 16:54:04 UTC 2024
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22-I3-AM31-28-3)
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
# `lspci -n`: an audio device and a bridge of NVIDIA's, a display of Intel's, and then the cards themselves.
LSPCI = """\
00:02.0 0300: 8086:4680 (rev 0c)
01:00.1 0403: 10de:1aef (rev a1)
05:00.0 0680: 10de:1af1 (rev a1)
01:00.0 0300: 10de:2204 (rev a1)
41:00.0 0302: 10de:20b0 (rev a1)
"""


NOT_YET = {"cards": ["10de:20b0"], "module": "", "library": "", "offered": "535.261.03"}
"""The driver of the distribution that is to be installed, or was and waits for a restart."""


@pytest.fixture
def gather() -> ModuleType:
    return modules.gather()


def host(tmp_path: Path, version: str = "", lspci: str = "", libraries: tuple[str, ...] = ()) -> dict[str, object]:
    """The result of `look` on a host with these files."""
    for line in lspci.splitlines():
        slot, kind, ids = line.split()[:3]
        folder = tmp_path / "sys/bus/pci/devices" / f"0000:{slot}"
        folder.mkdir(parents=True)
        vendor, device = ids.split(":")
        for name, value in (("vendor", vendor), ("device", device), ("class", f"{kind.strip(':')}00")):
            (folder / name).write_text(f"0x{value}\n")
    if version:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/version").write_text(version)
    for path in libraries:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return dict(NVIDIA.look(str(tmp_path)))


def report(gpus: dict[str, object], build: str) -> dict[str, list[str]]:
    return dict(GPUS.report({"n1": {"nvidia": gpus}, "n2": {"nvidia": gpus}, "n3": {"unreachable": True}}, build))


def test_cards_module_and_library_are_read(tmp_path: Path) -> None:
    library = "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.216.01"
    found = host(tmp_path, CLOSED, LSPCI, (library, "usr/lib/x86_64-linux-gnu/libcuda.so.1"))
    assert found == {"cards": ["10de:2204", "10de:20b0"], "module": "535.216.01", "library": "535.216.01"}


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "535.216.01"), (OPEN, "580.65.06"), ("", ""), ("x\n", "")])
def test_the_version_of_the_loaded_module(text: str, version: str) -> None:
    assert NVIDIA.module(text) == version


def test_a_host_without_cards_is_never_named(tmp_path: Path) -> None:
    nothing = host(tmp_path, lspci="00:02.0 0300: 8086:4680\n")
    assert nothing == {"cards": [], "module": "", "library": ""}
    for build in ("cpu", "pypi", "cu126", "rocm6.4"):
        assert report(nothing, build) == {"problems": [], "warnings": []}


def test_a_driver_that_is_too_old_is_refused_with_both_versions_and_the_builds_that_fit(tmp_path: Path) -> None:
    found = report(host(tmp_path, CLOSED, LSPCI), "pypi")
    (line,) = found["problems"]
    assert line.startswith("n1, n2: ") and found["warnings"] == []
    for word in ("535.216.01", "CUDA 13.0", "580", "cu126", "cpu"):
        assert word in line
    assert re.search(r"fits \(cu126, cpu\)", line)


@pytest.mark.parametrize(
    ("driver", "build", "refused"),
    [
        ("535.216.01", "cu126", False),
        ("535.216.01", "cu130", True),
        ("525.60.13", "cu128", False),
        ("470.256.02", "cu126", True),
        ("470.256.02", "cu118", False),
        ("580.65.06", "pypi", False),
        ("575.57.08", "pypi", True),
        ("595.45.04", "pypi", False),
        ("595.45.04", "cu140", False),
    ],
)
def test_which_driver_runs_which_build(driver: str, build: str, refused: bool) -> None:
    gpus = {"cards": ["10de:20b0"], "module": driver, "library": driver}
    assert bool(report(gpus, build)["problems"]) is refused


def test_cards_without_a_driver_are_refused_for_cuda_and_named_for_processors(tmp_path: Path) -> None:
    gpus = host(tmp_path, "", LSPCI)
    assert "no driver" in report(gpus, "pypi")["problems"][0]
    found = report(gpus, "cpu")
    assert found["problems"] == [] and "2 GPUs" in found["warnings"][0]
    assert "fits pypi and cu126" in report({**gpus, "module": "580.65.06"}, "cpu")["warnings"][0]


def test_libraries_that_are_newer_than_the_loaded_module_are_refused(tmp_path: Path) -> None:
    gpus = host(tmp_path, OPEN, LSPCI, ("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05",))
    (line,) = report(gpus, "pypi")["problems"]
    assert "580.65.06" in line and "580.95.05" in line and "restarted" in line
    assert report(gpus, "cpu")["problems"] == []


def test_the_version_of_cuda_of_the_indexs_build_is_that_of_its_lock() -> None:
    text = (PROJECT / "requirements/torch-pypi.lock").read_text()
    (runtime,) = [entry.version for entry in lockfile.entries(text) if entry.name == "nvidia-cuda-runtime"]
    assert runtime.startswith(f"{GPUS.CUDA_OF_PYPI}.")


def test_the_role_stops_with_it_before_anything_is_changed(tmp_path: Path) -> None:
    loaded = {"cards": ["10de:20b0"], "module": "535.216.01", "library": "535.216.01"}
    said = played(tmp_path, {"python_env_torch_build": "pypi"}, loaded, NOT_YET)
    assert "Nothing was changed" in said and "n1: has driver 535.216.01" in said and "needs driver 580" in said
    assert "n2: would get driver 535.261.03" in said
    assert "failed=0" in played(tmp_path, {"python_env_torch_build": "cu126"}, loaded, NOT_YET)


def test_the_driver_of_the_distribution_must_fit_the_build_before_it_is_installed() -> None:
    assert "fits (cu126, cpu)" in report(NOT_YET, "pypi")["problems"][0]
    (warning,) = report(NOT_YET, "cu126")["warnings"]
    assert "535.261.03" in warning and "restart" in warning and report(NOT_YET, "cu126")["problems"] == []
    assert "its driver 535.261.03 fits cu126" in report(NOT_YET, "cpu")["warnings"][0]
    assert "non-free" in report({**NOT_YET, "offered": ""}, "cpu")["problems"][0]
    loaded = {**NOT_YET, "module": "580.65.06", "library": "580.65.06"}
    assert report(loaded, "pypi") == {"problems": [], "warnings": []}


POLICY = """\
nvidia-driver:
  Installed: {}
  Candidate: {}
  Version table:
"""
DRIVERS = ["nvidia-driver|nvidia-driver-580-server", "nvidia-smi|nvidia-utils-580-server"]
CARD = {"cards": ["10de:20b0"], "module": ""}


@pytest.mark.parametrize(
    ("installed", "candidate", "gpus", "brought", "missing", "offered"),
    [
        ("(none)", "535.261.03-1~deb12u1", CARD, False, 2, "535.261.03"),
        ("525.147.05-1", "535.261.03-1~deb12u1", CARD, False, 1, "525.147.05"),
        ("(none)", "535.261.03-1~deb12u1", CARD, True, 2, ""),
        ("525.147.05-1", "(none)", CARD, True, 1, "525.147.05"),
        ("(none)", "(none)", CARD, False, 2, ""),
        ("(none)", "535.261.03-1~deb12u1", {**CARD, "cards": []}, False, 0, None),
        ("(none)", "535.261.03-1~deb12u1", {**CARD, "module": "595.45.04"}, False, 0, None),
    ],
)
def test_which_driver_apt_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gather: ModuleType, installed: str, candidate: str,
    gpus: dict[str, object], brought: bool, missing: int, offered: str | None,
) -> None:  # fmt: skip
    policy = POLICY.format(installed, candidate)
    program(tmp_path, "apt-cache", f"for name; do [ $name = nvidia-driver ] && echo '{policy}'; done; true")
    program(tmp_path, "dpkg-query", "" if installed == "(none)" else "echo nvidia-driver installed")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found, version = gather.driver(DRIVERS, gpus, brought)
    assert (len(found), version) == (missing, offered)


LISTED = """\
bash bash installed
libcuda1:amd64 nvidia-graphics-drivers installed
libcuda1:i386 nvidia-graphics-drivers config-files
nvidia-driver nvidia-graphics-drivers installed
nvidia-modprobe nvidia-modprobe installed
"""


def test_the_role_holds_what_is_built_from_the_drivers_source_and_teardown_lets_it_go(tmp_path: Path) -> None:
    (tmp_path / "listed").write_text(LISTED)
    program(tmp_path, "dpkg-query", f"cat {tmp_path}/listed")
    program(tmp_path, "apt-mark", f"echo $@ >> {tmp_path}/marked; echo nvidia-driver set on hold.")
    roles = [{"ansible.builtin.include_role": {"name": "nvidia", "tasks_from": way}} for way in ("main", "teardown")]
    said = run(
        tmp_path,
        {
            "vars": {"preflight_host": {"nvidia": NOT_YET}, "nvidia_enabled": True},
            "environment": {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            "tasks": roles,
        },
        {"n1": {}},
    )
    assert "failed=0" in said and "changed=2" in said and "restart this host" in said
    marked = (tmp_path / "marked").read_text().splitlines()
    assert marked == [f"{what} libcuda1:amd64 nvidia-driver" for what in ("hold", "unhold")]


def program(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / name).chmod(0o755)


def played(tmp_path: Path, variables: dict[str, object], *gpus: dict[str, object]) -> str:
    """What Ansible says when preflight reports on hosts of these facts: n1, n2, ..."""
    paths = {"preflight_root": "/opt/regatta", "preflight_state": "/var/lib/regatta", "preflight_layout": 2}
    more = {"clock": 0, "sent": 0, "os": {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04"}}
    known = [of_preflight(f"10.0.0.{at}", nvidia=one, **more) for at, one in enumerate(gpus, 1)]
    tasks = [
        {"ansible.builtin.set_fact": {"preflight_host": "{{ known }}", **paths, "preflight_max_clock_skew_s": 10**10}},
        {
            "ansible.builtin.include_role": {"name": "preflight", "tasks_from": "report"},
            "vars": {"_preflight_ports_of_ssh": {}},  # no SSH leads to these hosts
        },
    ]
    hosts = {f"n{at}": {"known": {**one, "layout": 0, "python": "3.12.3"}} for at, one in enumerate(known, 1)}
    return run(tmp_path, {"vars": variables, "tasks": tasks}, hosts)


def run(tmp_path: Path, play: dict[str, object], hosts: dict[str, dict[str, object]]) -> str:
    """What Ansible says of a play on hosts with these variables; each is this machine, and the first the head."""
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, **play}]))
    nodes = {name: {"ansible_connection": "local", **variables} for name, variables in hosts.items()}
    groups = {"head": {"hosts": dict(list(nodes.items())[:1])}, "workers": {"hosts": nodes}}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"children": groups}}))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "hosts.json", book],
        cwd=PROJECT / "ansible",
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible/ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("groups", "module", "library", "number"),
    [
        (["head", "workers"], "580.65.06", "580.65.06", 2),
        (["head"], "580.65.06", "580.65.06", 0),
        (["workers"], "580.65.06", "", 2),
        (["workers"], "580.65.06", "580.95.05", 0),
        (["workers"], "", "580.65.06", 0),
    ],
)
def test_ray_is_told_of_the_cards_that_can_be_used(groups: list[str], module: str, library: str, number: int) -> None:
    constants = DataLoader().load_from_file(str(PROJECT / "ansible/roles/ray/vars/main.yml"), trusted_as_template=True)
    known = {
        "inventory_hostname": "n1",
        "groups": {"workers": [], **{group: ["n1"] for group in groups}},
        "preflight_host": {"nvidia": {"cards": ["10de:20b0"] * 2, "module": module, "library": library}},
    }
    assert Templar(DataLoader(), variables=known).template(constants["_ray_gpus"]) == number
    assert "'--num-gpus=' ~ _ray_gpus" in constants["_ray_arguments"]
