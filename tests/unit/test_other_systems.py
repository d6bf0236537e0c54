"""Debian 13, Ubuntu 24.04 and 26.04 by recorded facts: what differs there from the hosts that tests run on."""

import ast
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import modules
import pytest

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
    path = PROJECT / "ansible/roles/preflight/library/preflight_gather.py"
    spec = importlib.util.spec_from_file_location("gather", path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patched:
        java = importlib.util.spec_from_file_location("java", PROJECT / "ansible/module_utils/java.py")
        assert java and java.loader
        found = importlib.util.module_from_spec(java)
        java.loader.exec_module(found)
        patched.setitem(__import__("sys").modules, "ansible.module_utils.java", found)
        patched.setattr("ansible.module_utils.java", found, raising=False)
        spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(("ss", "port"), [(UBUNTU, 2222), (DEBIAN, 2200)])
def test_the_port_of_sshd_is_found_where_systemd_listens_for_it(
    gather: ModuleType, monkeypatch: pytest.MonkeyPatch, ss: str, port: int
) -> None:
    def run(*command: str) -> tuple[int, str]:
        return (0, ss) if "ss" in command else (0, "port 2222\naddressfamily any\nlistenaddress [::]:2222\n")

    monkeypatch.setattr(gather, "run", run)
    assert gather.sshd_ports(gather.listeners(True), True) == [port]


@pytest.mark.parametrize(
    ("system", "version", "warned"),
    [
        ("debian", "12", False),
        ("debian", "13", False),
        ("debian", "14", True),
        ("ubuntu", "24.04", False),
        ("ubuntu", "26.04", True),
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
