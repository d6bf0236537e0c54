"""The roles' declarations of their services: every declaration is whole, and the message for a wrong one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import modules
import pytest
import yaml
from modules import ANSIBLE

from regatta.errors import RegattaError
from regatta.frameworks import registry
from regatta.services import parts

ROLES = ANSIBLE / "roles"
IMPORT = "ansible.builtin.import_tasks"


def reading(book: str) -> list:
    """The tasks of a playbook by which it knows the services' variables, for a playbook that is elsewhere."""
    tasks = yaml.safe_load((ANSIBLE / f"playbooks/{book}.yml").read_text())[0]["pre_tasks"]
    return [{**task, IMPORT: str(ANSIBLE / "playbooks" / task[IMPORT])} for task in tasks]


@pytest.mark.parametrize("book", [path.stem for path in sorted((ANSIBLE / "playbooks").glob("*.yml"))])
def test_all_playbooks_read_the_variables_alike(book: str) -> None:
    assert reading(book) == reading("provision")


def ask(tmp_path: Path, *expressions: str, **variables: object) -> list:
    """Return what expressions with the lookup `services` give on a host of Ansible's, the services' variables read."""
    read = reading("provision")
    show = {"ansible.builtin.copy": {"content": "{{ shown | to_json }}", "dest": str(tmp_path / "shown")}}
    play = {
        "hosts": "head", "gather_facts": False, "connection": "local", "pre_tasks": read,
        "tasks": [{**show, "vars": {"shown": [f"{{{{ {one} }}}}" for one in expressions]}}],
        "vars": {"ansible_python_interpreter": sys.executable, **variables},
    }  # fmt: skip
    (tmp_path / "book.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "hosts.yml").write_text("{head: {hosts: {n1: }}, workers: {hosts: {n1: }}}")
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "book.yml"],
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads((tmp_path / "shown").read_text()))


def test_services_come_in_order_with_what_the_inventory_says_of_them(tmp_path: Path) -> None:
    order, verified, leave, ports, packages, names = ask(
        tmp_path,
        "query('services')",
        "query('services', tasks='verify', enabled=true)",
        "query('services', tasks='leave', otherwise='teardown')",
        "query('services', 'guarded_ports') | combine",
        "query('services', 'packages', named=true)",
        "query('services', 'java_names', named=true)",
        hdfs_enabled=False,
        ray_gcs_port=7000,
        monitoring_enabled=False,
    )
    assert order == [part.role for part in parts.every()]
    assert verified == ["slurm", "shared_folder", "ray"]
    assert {"role": "hdfs", "tasks": "leave"} in leave and {"role": "ray", "tasks": "teardown"} in leave
    assert ports["7000"] == "Ray (ray_gcs_port)" and "6379" not in ports and "8020" not in ports
    assert names == [["hdfs", False]]
    assert dict(packages)["shared_folder"] == ["sshfs"] and dict(packages)["prometheus"] == []


@pytest.mark.parametrize("part", parts.every(), ids=lambda part: part.role)
def test_a_declaration_names_what_its_role_has(part: parts.Part) -> None:
    said = yaml.safe_load((ROLES / part.role / "service.yml").read_text())
    tasks = {path.stem for path in (ROLES / part.role / "tasks").glob("*.yml")}
    defaults = yaml.safe_load((ROLES / part.role / "defaults/main.yml").read_text())
    assert ("verify" in said) == ("verify" in tasks) and said.get("verify", "node") in ("node", "cluster")
    assert ("bundle" in said) == ("bundle" in tasks)
    assert {*said.get("ports", ())} <= {*defaults} and "main" in tasks
    written = "".join(path.read_text() for path in (ROLES / part.role).rglob("*") if path.suffix in (".j2", ".yml"))
    assert bool(part.data) == (f"{part.role}_destroy" in defaults)
    assert all(unit.startswith("regatta-") and unit.removesuffix(".service") for unit in part.units)
    assert not part.starts or f"register: {part.role}_started" in written


def test_services_that_take_runs_have_the_units_that_their_frameworks_name() -> None:
    declared = {part.title: part.units for part in parts.every() if part.restart_ends == "own"}
    assert {one.service: one.units for one in registry.every() if one.service} == declared


A_DRIVER = "the driver belongs to the hardware, which preflight looks at"
MAY_NAME = {
    "module_utils/nvidia.py": ({"nvidia"}, A_DRIVER),
    "roles/base/library/base_migrate.py": ({"ray"}, "the layout that was before"),
    "roles/preflight/defaults/main.yml": ({"nvidia"}, A_DRIVER),
    "roles/preflight/filter_plugins/gpus.py": ({"nvidia"}, A_DRIVER),
    "roles/preflight/filter_plugins/preflight.py": ({"shared_folder"}, "what helps where hosts have no FUSE"),
    "roles/preflight/library/preflight_gather.py": ({"nvidia"}, A_DRIVER),
    "roles/preflight/meta/argument_specs.yml": ({"nvidia"}, A_DRIVER),
    "roles/python_env/files/all_reduce.py": ({"ray"}, "a package of the environment"),
    "roles/ssh_mesh/vars/main.yml": ({"shared_folder"}, "whether the key of runs may open it"),
}
"""Files of `ansible/` outside of the services' roles that name a service, and why: all others read declarations."""


def test_a_service_is_named_in_its_role_only() -> None:
    roles = {part.role for part in parts.every()} - {"members"}  # an English word, too
    found: dict[str, set[str]] = {}
    for path in ANSIBLE.rglob("*"):
        inside = path.relative_to(ANSIBLE)
        own = inside.parts[0] == "roles" and inside.parts[1:2] in [(one,) for one in (*roles, "members")]
        if own or path.suffix not in (".yml", ".j2", ".py", ".sh") or "__pycache__" in inside.parts:
            continue
        lines = [line for line in path.read_text().splitlines() if not re.match(r'\s*(#|"""|description:)', line)]
        code = re.split(r"\W+|_enabled\b", "\n".join(lines).lower())
        if names := {role for role in roles for word in code if re.search(rf"(?<![a-z]){role}(?![a-z])", word)}:
            found[inside.as_posix()] = names
    assert found == {path: names for path, (names, _) in MAY_NAME.items()}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{title: Toy, units: [a], port: 1}", "there is no field port"),
        ("{title: Toy}", "title and units"),
        ("{title: Toy, units: [a], starts: soon}", "not 'soon'"),
        ("{title: [}", "service.yml"),
    ],
)
def test_a_wrong_declaration_is_told_with_its_file(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "toy/service.yml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RegattaError, match=why) as caught:
        parts.every(tmp_path)
    assert str(path) in str(caught.value)


def test_the_lookup_and_the_controller_put_services_in_the_same_order() -> None:
    assert modules.load("services_lookup", "lookup_plugins/services.py").LAST == parts.LAST
