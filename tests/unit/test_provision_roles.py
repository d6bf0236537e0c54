"""Roles stand alone: each says the same in defaults/, meta/argument_specs.yml and its README, keeps to the naming
rules, reads no other's private variables and imports nothing of `regatta`."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from regatta.frameworks import plan
from regatta.frameworks.mpi import adapter as mpi

PROJECT = Path(__file__).resolve().parents[2]
ANSIBLE = PROJECT / "ansible"
ROLES = ANSIBLE / "roles"
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


@pytest.mark.parametrize("role", NAMES)
def test_nobody_reads_a_roles_private_variables(role: str) -> None:
    private = re.compile(rf"(?<![a-z0-9_])__?{role}_[a-z]")
    others = [
        path
        for path in ANSIBLE.rglob("*")
        if path.suffix in {".yml", ".j2", ".py"} and ROLES / role not in path.parents
    ]
    assert [str(path.relative_to(ANSIBLE)) for path in others if private.search(path.read_text())] == []


def test_plugins_and_modules_need_nothing_of_regatta() -> None:
    """But as text: what a node gets of it, a role reads as files."""
    for path in ANSIBLE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in {"regatta", "workloads"}], path


def test_units_rules_and_configuration_are_templates() -> None:
    texts = re.compile(r"^\[Service\]|^table inet|^add table|^<configuration>|^scrape_configs:", re.M)
    found = {
        path.parent.name
        for path in ANSIBLE.rglob("*")
        if path.is_file() and texts.search(path.read_text("utf-8", "ignore"))
    }
    assert found == {"templates"}


def test_tables_of_variables_are_those_of_the_specifications() -> None:
    spec = importlib.util.spec_from_file_location("role_readmes", PROJECT / "tools/role_readmes.py")
    assert spec and spec.loader
    readmes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readmes)
    assert [role.name for role in readmes.roles()] == NAMES
    assert [role.name for role in readmes.roles() if (role / "README.md").read_text() != readmes.page(role)] == [], (
        "make docs"
    )


@pytest.mark.parametrize("role", NAMES)
def test_a_readme_says_what_it_is_its_parts_what_it_gives_and_an_example(role: str) -> None:
    text = (ROLES / role / "README.md").read_text()
    assert text.startswith(f"# Role `{role}`\n\n") and "\n## Example\n\n```" in text
    entered = {"main"} | set(re.findall(r"^\| `(\w+)` \|", text.partition("## Parts")[2].partition("\n## ")[0], re.M))
    assert all((ROLES / role / f"tasks/{part}.yml").exists() for part in entered)
    given = {name for name in read(role, "vars/main.yml") if not name.startswith("_")}
    for path in (ROLES / role / "tasks").glob("*.yml"):
        given |= set(re.findall(r"(?:register: |set_fact:\n +)([a-z]\w+)", path.read_text()))
    told = text.partition("## What it gives to others")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", told, re.M)) == given


def test_every_pinned_port_is_checked_and_passed_on() -> None:
    defaults, constants = read("ray", "defaults/main.yml"), (ROLES / "ray/vars/main.yml").read_text()
    declared = read("ray", "service.yml")["ports"]
    unit = (ROLES / "ray/templates/regatta-ray.service.j2").read_text()
    for name in defaults:
        if name.endswith("_port"):
            assert name in declared
            assert f"~ {name}" in constants or f"{{{{ {name} }}}}" in unit


def test_ports_where_ranks_meet_are_kept_from_other_accounts() -> None:
    assert plan.PORTS[1] + 1 == mpi.PORTS[0]
    assert f"'{plan.PORTS[0]}-{mpi.PORTS[1]}'" in (ROLES / "firewall/vars/main.yml").read_text()


def test_ports_differ() -> None:
    defaults = read("ray", "defaults/main.yml")
    ports = [value for name, value in defaults.items() if name.endswith("_port")]
    assert len(set(ports)) == len(ports)
    assert not [p for p in ports if defaults["ray_worker_port_min"] <= p <= defaults["ray_worker_port_max"]]
