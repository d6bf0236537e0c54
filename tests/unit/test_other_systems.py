"""Debian 13 and Ubuntu by recorded facts: what differs there from the hosts that tests run on.

`systems/` has the facts of Ubuntu 22.04, 24.04 and 26.04, each with the public page that it was taken from.
"""

import ast
import json
import os
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import modules
import pytest
import yaml

from lab import image
from regatta.provisioning import bundleapt, locks
from regatta.provisioning.locks import Target

PROJECT = Path(__file__).resolve().parents[2]
# Modules of the standard library that Python 3.10 has and 3.14 has not.
REMOVED = {
    "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp",
    "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau",
    "telnetlib", "uu", "xdrlib",
}  # fmt: skip
# `ss -H -ltnp` of Ubuntu 24.04, where systemd listens for sshd, and of Debian 13; the ports are not the usual ones.
UBUNTU = 'LISTEN 0 4096 *:2222 *:* users:(("systemd",pid=1,fd=93))\n'
DEBIAN = (
    'LISTEN 0 128 0.0.0.0:2200 0.0.0.0:* users:(("sshd",pid=612,fd=6))\n'
    'LISTEN 0 128 127.0.0.1:6010 0.0.0.0:* users:(("sshd-session",pid=911,fd=7))\n'
)


@pytest.fixture
def gather() -> ModuleType:
    return modules.gather()


@pytest.fixture
def base() -> ModuleType:
    with pytest.MonkeyPatch.context() as patched:
        found = modules.load("installed", "module_utils/installed.py")
        patched.setitem(__import__("sys").modules, "ansible.module_utils.installed", found)
        return modules.load("base_packages", "roles/base/library/base_packages.py")


@pytest.mark.parametrize(("ss", "port"), [(UBUNTU, 2222), (DEBIAN, 2200)])
def test_the_port_of_sshd_is_found_where_systemd_listens_for_it(
    gather: ModuleType, monkeypatch: pytest.MonkeyPatch, ss: str, port: int
) -> None:
    def run(*command: str, **_: object) -> tuple[int, str]:
        return (0, ss) if "ss" in command else (0, "port 2222\naddressfamily any\nlistenaddress [::]:2222\n")

    monkeypatch.setattr(gather, "run", run)
    assert gather.sshd_ports(gather.listeners(True, None), True, None) == [port]


@pytest.mark.parametrize(
    ("system", "version", "warned"),
    [
        ("debian", "12", False),
        ("debian", "13", False),
        ("debian", "14", True),
        ("ubuntu", "24.04", False),
        ("ubuntu", "26.04", False),
        ("ubuntu", "28.04", True),
    ],
)
def test_systems_that_are_known_and_newer_ones(system: str, version: str, warned: bool) -> None:
    facts = {"os": {"id": system, "version": version, "name": "it"}, "container": ""}
    filters = modules.load("preflight_filters", "roles/preflight/filter_plugins/preflight.py")
    assert bool(filters._host_warnings(facts)) == warned


def test_no_module_of_the_nodes_imports_what_newer_pythons_lack() -> None:
    files = [*PROJECT.glob("regatta/node/*.py"), *PROJECT.glob("ansible/**/library/*.py")]
    files += [path for part in ("node", "run") for path in PROJECT.glob(f"regatta/frameworks/*/{part}/*.py")]
    files += PROJECT.glob("ansible/module_utils/*.py")
    assert len(files) > 30
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.partition(".")[0] for name in names} & REMOVED, path


@pytest.mark.parametrize(("known", "listed"), [(("11",), True), (("11", "17"), True), (("11",), False)])
def test_what_a_hosts_apt_has_of_java(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...], listed: bool
) -> None:
    text = "openjdk-{0}-jre-headless:\\n  Installed: (none)\\n  Candidate: {0}.0.1\\n"
    cases = "".join(f"*openjdk-{number}-*) printf '{text.format(number)}' ;;\n" for number in known)
    program = tmp_path / "apt-cache"
    program.write_text(f"#!/bin/sh\nfor one; do case $one in\n{cases}esac; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if listed:
        (tmp_path / "deb.example.org_Packages.lz4").touch()
    wanted = "openjdk-21-jre-headless|openjdk-17-jre-headless"
    found = gather.unobtainable(["rsync", wanted], str(tmp_path))
    assert found == ([wanted] if listed and "17" not in known else [])


@pytest.mark.parametrize(
    ("installed", "options", "offered", "found"),
    [
        ("3.7.3-1.1", "", "3.7.3-1.2~deb12u1", "3.7.3-1.1"),
        ("3.7.3-1.2~deb12u1", "-o contain_symlinks", "", ""),
        ("", "", "3.7.3-1.1+b1", "3.7.3-1.1+b1"),
        ("", "", "3.7.3-1.2~deb12u1", ""),
        ("", "", "(none)", ""),
    ],
)
def test_an_sshfs_without_the_fixes_is_named(
    gather: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: str,
    options: str,
    offered: str,
    found: str,
) -> None:
    programs = {
        "dpkg-query": f"printf '%s' '{installed}'; test -n '{installed}'",
        "sshfs": f"echo '{options}' >&2",
        "apt-cache": f"printf 'sshfs:\\n  Installed: (none)\\n  Candidate: {offered}\\n'",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gather.old_sshfs(["sshfs"], {"ID": "debian", "VERSION_ID": "12"}) == found
    assert gather.old_sshfs(["rsync"], {"ID": "debian", "VERSION_ID": "12"}) == ""


RECORDED = [json.loads(path.read_text()) for path in sorted((PROJECT / "tests/unit/systems").glob("*.json"))]


@pytest.fixture(params=RECORDED, ids=lambda facts: facts["suite"])
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The facts of one release of Ubuntu."""
    return dict(request.param)


@pytest.fixture
def apt_of_it(recorded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt-cache of a host with this release: it has the packages that were recorded, in their versions."""
    (tmp_path / "_Packages.lz4").touch()
    text = "{0}:\\n  Installed: (none)\\n  Candidate: {1}\\n"
    cases = "".join(
        f"{name}) printf '{text.format(name, one['version'])}' ;;\n" for name, one in recorded["packages"].items()
    )
    program = tmp_path / "apt-cache"
    program.write_text(f"#!/bin/sh\nfor one; do case $one in\n{cases}esac; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def alternatives() -> set[str]:
    """Every `one|other` that the roles of services ask for."""
    texts = [path.read_text() for path in (PROJECT / "ansible/roles").glob("*/*.yml")]
    texts += [path.read_text() for path in (PROJECT / "ansible/roles").glob("*/vars/main.yml")]
    return {found for text in texts for found in re.findall(r"\b[a-z0-9.-]+(?:\|[a-z0-9.-]+)+\b", text)}


def test_each_fact_has_its_source(recorded: dict[str, Any]) -> None:
    sourced = [
        *recorded["packages"].values(),
        *(one for one in recorded.values() if isinstance(one, dict) and "source" in one),
    ]
    assert all(one["source"].startswith("https://") for one in sourced) and len(sourced) >= 6


def test_a_recorded_system_is_a_supported_one(recorded: dict[str, Any]) -> None:
    filters = modules.load("preflight_filters", "roles/preflight/filter_plugins/preflight.py")
    assert filters._host_warnings({"os": recorded["os"], "container": ""}) == []
    assert recorded["os"]["version"] in filters.SUPPORTED["ubuntu"]
    assert recorded["suite"] in image.UBUNTU
    assert bundleapt.choose(recorded["suite"]).python.rpartition(".")[0] == recorded["python"].rpartition(".")[0]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_torch_is_known_for_the_python_of_a_recorded_system(recorded: dict[str, Any], machine: str) -> None:
    target = Target(recorded["python"], machine, bundleapt.choose(recorded["suite"]).glibc)
    found = locks.read(PROJECT / "requirements/node.lock", target, PROJECT / "requirements/torch-cpu.lock")
    assert "torch==2.13.0+cpu" in found.pins


def test_java_and_promtool_are_found_in_each_of_them(
    gather: ModuleType, base: ModuleType, recorded: dict[str, Any], apt_of_it: Path
) -> None:
    asked = sorted(one for one in alternatives() if "openjdk" in one)
    assert len(asked) == 2 and gather.unobtainable(asked, str(apt_of_it)) == []
    assert base.chosen(asked, []) == ["openjdk-21-jre-headless"] * 2
    if recorded["os"]["version"] == "26.04":
        assert base.chosen(["promtool|prometheus"], []) == ["promtool"] and "promtool|prometheus" in alternatives()


def test_packages_that_roles_install_are_among_the_facts(recorded: dict[str, Any]) -> None:
    found = [yaml.safe_load(path.read_text()) for path in (PROJECT / "ansible/roles").glob("*/service.yml")]
    known = {name for one in found for name in one.get("known_packages", [])}
    known |= {"openjdk-21-jre-headless", "openjdk-17-jre-headless", "nftables", "python3"}
    assert {"sshfs", "nftables", "prometheus-node-exporter"} <= recorded["packages"].keys() <= known


def test_the_port_of_sshd_is_found_in_each_of_them(
    gather: ModuleType, recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    listens = UBUNTU if recorded["ssh_socket"]["value"] else DEBIAN
    said = "port 2222\n" if recorded["ssh_socket"]["value"] else ""
    monkeypatch.setattr(gather, "run", lambda *command, **_: (0, listens if "ss" in command else said))
    (port,) = gather.sshd_ports(gather.listeners(True, None), True, None)
    assert port == (2222 if recorded["ssh_socket"]["value"] else 2200)


def test_sudo_is_given_only_what_sudo_rs_takes() -> None:
    (sudo,) = [facts["sudo"] for facts in RECORDED if "sudo" in facts]
    files = [*PROJECT.glob("regatta/**/*.py"), *PROJECT.glob("ansible/**/*.py"), PROJECT / "ansible/ansible.cfg"]
    lists = [found for path in files for found in re.findall(r'"sudo",((?:\s*"[^"]+",?)+)', path.read_text())]
    used = {word for one in lists for word in re.findall(r'"(-[A-Za-z]+)"', one.partition('"env"')[0])}
    ansible = {"-H", "-S", "-n", "-u"}  # what Ansible's own plugin gives it, unless told otherwise
    assert {"-n", "-u", "-S", "-p"} <= used
    assert not any("become_flags" in path.read_text() for path in files)
    assert used | ansible <= {*sudo["flags"], *sudo["arguments"]}


def test_limits_are_found_where_there_is_only_the_second_version_of_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regatta.node import cgroup

    assert [facts["suite"] for facts in RECORDED if facts.get("cgroups", {}).get("v1") is False] == ["resolute"]
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    monkeypatch.setattr(cgroup, "ROOT", str(tmp_path))
    assert cgroup.missing() == []


def test_sources_in_deb822_form_are_read_by_apt(tmp_path: Path) -> None:
    (sources,) = [facts["apt_sources"] for facts in RECORDED if "apt_sources" in facts]
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/ubuntu.sources").write_text("\n".join(sources["text"]) + "\n")
    (tmp_path / "lists/partial").mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": tmp_path / "parts",
        "Dir::State::Lists": tmp_path / "lists",
        "Dir::Cache": tmp_path,
    }
    words = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    script = PROJECT / "ansible/roles/base/files/apt_sources.sh"
    said = subprocess.run(["sh", script, *words], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["http://security.example.org/ubuntu", "http://ubuntu.example.org/ubuntu"]


def test_no_unit_needs_a_user_namespace() -> None:
    assert any(facts.get("user_namespaces_restricted", {}).get("value") for facts in RECORDED)
    units = [*PROJECT.glob("ansible/roles/*/templates/*.service.j2"), *PROJECT.glob("regatta/node/*.py")]
    assert len(units) > 5
    for path in units:
        assert not re.search(r"PrivateUsers=(yes|true|self)|DynamicUser=(yes|true)|CLONE_NEWUSER", path.read_text()), (
            path
        )
