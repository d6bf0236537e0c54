"""Every role says the same in defaults/ and in meta/argument_specs.yml, and keeps to the naming rules."""

import re
from pathlib import Path

import pytest
import yaml

from regatta.frameworks.plan import PORTS

ROLES = Path(__file__).resolve().parents[2] / "ansible/roles"
NAMES = sorted(path.name for path in ROLES.iterdir() if path.is_dir())


def read(role: str, file: str) -> dict:
    path = ROLES / role / file
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


@pytest.mark.parametrize("role", NAMES)
def test_argument_specs_agree_with_defaults(role: str) -> None:
    options = read(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name: option["default"] for name, option in options.items()} == read(role, "defaults/main.yml")
    assert all(option["description"].endswith(".") and option["type"] for option in options.values())


@pytest.mark.parametrize("role", NAMES)
def test_variables_carry_their_role(role: str) -> None:
    assert all(name.startswith(f"{role}_") for name in read(role, "defaults/main.yml"))
    assert all(re.match(rf"_?{role}_", name) for name in read(role, "vars/main.yml"))


@pytest.mark.parametrize("path", sorted(ROLES.rglob("tasks/*.yml")), ids=lambda p: "/".join(p.parts[-3:]))
def test_task_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60


def test_every_pinned_port_is_checked_and_passed_on() -> None:
    defaults, constants = read("ray", "defaults/main.yml"), (ROLES / "ray/vars/main.yml").read_text()
    unit = (ROLES / "ray/templates/regatta-ray.service.j2").read_text()
    for name in defaults:
        if name.endswith("_port"):
            assert f"({name})" in constants
            assert f"~ {name}" in constants or f"{{{{ {name} }}}}" in unit


def test_ports_where_ranks_meet_are_kept_from_other_accounts() -> None:
    assert "'{}-{}'".format(*PORTS) in (ROLES / "firewall/vars/main.yml").read_text()


def test_ports_differ() -> None:
    defaults = read("ray", "defaults/main.yml")
    ports = [value for name, value in defaults.items() if name.endswith("_port")]
    assert len(set(ports)) == len(ports)
    assert not [p for p in ports if defaults["ray_worker_port_min"] <= p <= defaults["ray_worker_port_max"]]


def test_socket_paths_fit() -> None:
    """A Unix socket's path has at most 107 bytes; Ray puts its own below the state folder."""
    longest = "/var/lib/regatta/ray/session_2026-11-21_03-44-14_162492_4194304/sockets/plasma_store.1234"
    assert len(longest) <= 107
