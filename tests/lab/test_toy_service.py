"""A service is added by one role with its `service.yml`: in a copy of this checkout, which then sets it up."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from provisioning import changed, logged, said

from lab.handle import LabHandle
from lab.model import PROJECT

pytestmark = [pytest.mark.whole, pytest.mark.provisioning]
PORT = 28500
FILES = {
    "service.yml": """\
---
title: Toy
enabled: "{{ toy_enabled | bool }}"
units: [regatta-toy.service]
starts: head first
ports: [toy_port]
guarded: true
pages: [{title: Toy, port: "{{ toy_port }}", host: "{{ preflight_host.address }}"}]
secrets: {toy_token: {path: /etc/regatta/toy/token}}
hidden: [/etc/regatta/toy]
files: [/etc/regatta/toy/*]
verify: node
removed: [/var/lib/regatta-toy]
""",
    "defaults/main.yml": f"""\
---
toy_enabled: true
toy_port: {PORT}
toy_word: one
""",
    "vars/main.yml": """\
---
_toy_url: "http://{{ preflight_host.address }}:{{ toy_port }}/word"
_toy_token: "{{ inventory_dir }}/secrets/toy_token"
_toy_files:
  - {kind: folder, path: /etc/regatta/toy}
  - {kind: folder, path: /var/lib/regatta-toy}
  - {path: /etc/regatta/toy/token, secret: "{{ lookup('ansible.builtin.file', _toy_token) }}", mode: "0600"}
  - {path: /var/lib/regatta-toy/word, content: "{{ toy_word }}"}
  - path: /etc/systemd/system/regatta-toy.service
    content: |
      [Service]
      DynamicUser=yes
      ExecStart=/usr/bin/python3 -m http.server -b {{ preflight_host.address }} -d /var/lib/regatta-toy {{ toy_port }}
      [Install]
      WantedBy=multi-user.target
""",
    "tasks/main.yml": """\
---
- name: Write the files of the toy
  node_files:
    entries: "{{ _toy_files }}"
  register: __toy_files
  when: not ansible_check_mode or _toy_token is exists

- name: Start the toy
  node_start:
    units: [regatta-toy.service]
    files: "{{ _toy_files | rejectattr('kind', 'defined') | map(attribute='path') }}"
    changes: "{{ __toy_files.changes | default([]) }}"
  register: toy_started
  when: not ansible_check_mode or 'regatta-toy.service' in preflight_host.units
""",
    "tasks/ready.yml": """\
---
- name: Wait until the toy answers
  node_answers:
    urls: ["{{ _toy_url }}"]
    timeout: 30
  when: not ansible_check_mode
""",
    "tasks/verify.yml": """\
---
- name: Ask the toy
  ansible.builtin.uri: {url: "{{ _toy_url }}", return_content: true, use_proxy: false}
  register: __toy_answer

- name: Report the toy
  ansible.builtin.set_fact:
    toy_verified: {problems: [], lines: ["Toy: it says {{ __toy_answer.content }}"]}
""",
}


class Checkout:
    """A copy of this checkout with the toy's role, and what is typed in it about a lab."""

    def __init__(self, folder: Path, lab: LabHandle) -> None:
        self.folder, self.lab = folder, lab
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "inventory", "tests"))
        for name, text in FILES.items():
            path = folder / "ansible/roles/toy" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _run(self, *words: str) -> str:
        env = os.environ | {"PYTHONPATH": str(self.folder), "REGATTA_INVENTORY": str(self.lab.inventory)}
        return said([sys.executable, *words], self.folder, env)

    def make(self, word: str, *extra: str) -> str:
        """Return what `make WORD` does, in the copy."""
        return self._run("-m", "regatta.provisioning.commands", word, "--inventory", str(self.lab.inventory), *extra)

    def fab(self, *words: str) -> str:
        """Return what `fab` prints, in the copy."""
        return self._run(str(Path(sys.executable).with_name("fab")), *words)


def test_a_role_with_a_declaration_is_set_up_verified_restarted_and_torn_down(
    make_lab: Callable[..., LabHandle], tmp_path: Path
) -> None:
    lab = make_lab(nodes=1)
    settings = lab.inventory / "group_vars/all.yml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(
        json.dumps({"hdfs_enabled": False, "monitoring_enabled": False, "shared_folder_enabled": False})
    )
    (node,) = lab.nodes
    unit = "systemctl show --value -p ActiveState -p MainPID regatta-toy.service"
    url = f"http://{lab.addresses[node]}:{PORT}/word"
    word = (
        f"/usr/bin/python3 -c \"import urllib.request; print(urllib.request.urlopen('{url}').read().decode(), end='')\""
    )
    toy = Checkout(tmp_path / "checkout", lab)

    toy.make("provision")
    assert lab.ssh(node, f"sudo {word}").stdout == "one"
    assert str(PORT) in lab.ssh(node, "sudo nft list table inet regatta").stdout
    toy.make("provision")
    assert changed(lab) == {node: 0}
    assert "Toy: it says one" in toy.make("verify")
    token = (lab.inventory / "secrets/toy_token").read_text().strip()
    assert lab.ssh(node, "sudo cat /etc/regatta/toy/token").stdout == token

    (page,) = json.loads(lab.ssh(node, "cat /etc/regatta/pages.json").stdout)
    assert (page["title"], int(page["port"])) == ("Toy", PORT)

    first = lab.ssh(node, unit).stdout
    assert f"Toy on {node}" in toy.make("check", "-e", "toy_word=two")
    toy.make("provision", "-e", "toy_word=two")
    assert lab.ssh(node, f"sudo {word}").stdout == "two"
    second = lab.ssh(node, unit).stdout
    assert "active" in second and second != first

    toy.fab("down")
    assert "inactive" in lab.ssh(node, unit).stdout
    toy.fab("up")
    assert "inactive" not in lab.ssh(node, unit).stdout
    assert "toy" in toy.fab("status")

    toy.make("teardown", "--yes")
    assert "nothing is left" in logged(lab)
    left = "ls -d /var/lib/regatta-toy /etc/regatta /etc/systemd/system/regatta-*; systemctl is-active regatta-toy"
    assert lab.ssh(node, f"{left} 2>/dev/null; true").stdout.strip() in ("inactive", "unknown")
    assert not (lab.inventory / "secrets/toy_token").exists()
