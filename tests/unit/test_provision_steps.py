"""A playbook as a person sees it: Ansible itself runs a small one here, and the whole way to the screen is real."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_screen import OWN, on_terminal

from regatta.provisioning import flags, steps, verified

EVIL = "\x1b]52;c;eA==\x07\x1b[2J"
PLAY = """\
import sys
from pathlib import Path
from regatta.hosts import inventories
from regatta.provisioning import playbook
from regatta.terminal import screen
screen.install()
playbook.steps.QUIET_SECONDS = 0.5
book, inventory, *words = sys.argv[1:]
raise SystemExit(playbook.play(book, Path(inventory), inventories.load(inventory), words))
"""
WARNS = """\
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({})
module.warn("the long way was taken")
module.exit_json(changed=False)
"""
SETS = {"name": "Set it", "ansible.builtin.copy": {"content": "new\n", "dest": "{{ folder }}/{{ inventory_hostname }}"}}
FAILS = {
    "name": "Look closely",
    "ansible.builtin.command": {"argv": ["sh", "-c", f"echo one; printf '%s' '{EVIL}two' >&2; exit 3"]},
    "when": "inventory_hostname == 'n2' and fails | default(false)",
}
REACHES = {
    "name": "Reach it",
    "ansible.builtin.ping": {},
    "connection": "ssh",
    "vars": {"ansible_host": "127.0.0.1", "ansible_port": 1},
    "ignore_unreachable": True,
    "when": "inventory_hostname == 'n1' and fails | default(false)",
}
HIDES = {
    "name": "Hide it",
    "ansible.builtin.command": {"argv": ["sh", "-c", "echo hunter2; exit {{ 3 if fails | default(false) else 0 }}"]},
    "no_log": True,
    "changed_when": False,
}
SAYS = {"name": "Say it", "ansible.builtin.debug": {"msg": f"all{EVIL} is well"}, "run_once": True}
TRANSFERS = "told=$REGATTA_PROGRESS/1.json; echo '[\"wheels\", 312000000, 545000000]' > $told; sleep 0.8; rm -f $told"
SLEEPS = {"name": "Sleep", "ansible.builtin.command": {"argv": ["sleep", "1.5"]}, "changed_when": False}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a playbook, a role, a module and an inventory of two hosts, which are this machine."""
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    hosts = {name: {"cluster_address": f"10.0.0.{number}"} for number, name in enumerate(("n1", "n2"), 1)}
    groups = {"head": {"hosts": {"n1": {}}}, "workers": {"hosts": {"n1": {}, "n2": {}}}}
    role = [{"name": "Warn", "warns": {}}, SETS, FAILS]
    ready = [{"name": "Wait", "ansible.builtin.command": {"argv": ["sh", "-c", TRANSFERS]}, "changed_when": False}]
    include = {"name": "Include", "ansible.builtin.include_role": {"name": "toy", "tasks_from": "be_ready"}}
    local = {"hosts": "head:workers", "gather_facts": False, "connection": "local"}
    local["vars"] = {"folder": str(tmp_path / "set"), "ansible_python_interpreter": sys.executable}
    play = {**local, "roles": ["toy"], "tasks": [include, REACHES, HIDES, SLEEPS, SAYS]}
    for name, content in {
        "inventory/hosts.yml": {"all": {"hosts": hosts, "children": groups}},
        "book.yml": [play],
        "roles/toy/tasks/main.yml": role,
        "roles/toy/tasks/be_ready.yml": ready,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "library").mkdir()
    (tmp_path / "library/warns.py").write_text(WARNS)
    (tmp_path / "set").mkdir()
    return tmp_path


def typed(place: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", PLAY, str(place / "book"), str(place / "inventory"), *words]


def played(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(typed(place, *words), capture_output=True, text=True, check=False)


def logged(place: Path) -> str:
    return max((place / "inventory/.logs").iterdir()).read_text()


def test_a_line_a_step_and_all_in_the_log(place: Path) -> None:
    done = played(place)
    assert done.returncode == 0, done
    still = re.compile(r"  (\S.*), for \d+ s now(: wheels 312 of 545 MB)?")
    quiet = {found[1] for line in done.stdout.splitlines() if (found := still.fullmatch(line))}
    assert "Sleep" in quiet, "where nothing is heard for long, a line names the task"
    assert "s now: wheels 312 of 545 MB\n" in done.stdout
    lines = [line for line in done.stdout.splitlines() if not still.fullmatch(line)]
    first, toy, ready, *_, sleep, said, hosts, last = lines
    assert re.fullmatch(
        r".*book of inventory: 2 host\(s\); Ansible's own output: inventory/\.logs/\S+-book\.log", first
    )
    assert re.fullmatch(r"  toy +2 of 2 hosts changed +\d+\.\d s", toy)
    assert re.fullmatch(r"  toy: be ready +unchanged +\d+\.\d s", ready)
    assert re.fullmatch(r"  Sleep +unchanged +\d+\.\d s", sleep)
    assert said == "all is well" and "book of inventory: done after" in last
    assert hosts == "2 host(s): 0 unchanged, 2 changed, 0 failed, 0 unreachable"
    assert done.stderr.count("the long way was taken") == 1
    log = logged(place)
    assert "TASK [toy : Set it]" in log and "changed: [n2]" in log and "PLAY RECAP" in log
    assert "the long way was taken" in log and "hunter2" not in log + done.stdout
    assert next((place / "inventory/.logs").iterdir()).stat().st_mode & 0o077 == 0


def test_a_failure_is_shown_in_full_and_names_the_log(place: Path) -> None:
    done = played(place, "-e", '{"fails": true}')
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    at = lines.index("FAILED n2, toy: Look closely:")
    assert lines[at + 1 : at + 4] == ["    non-zero return code", "    two", "    one"]
    at = lines.index("FAILED n1, Hide it:")
    assert "no_log" in lines[at + 1] and "hunter2" not in done.stdout + logged(place)
    assert lines[-3] == "2 host(s): 0 unchanged, 0 changed, 1 failed, 1 unreachable"
    assert not [line for line in lines if line.startswith("UNREACHABLE")], "the task allows for that"
    assert lines[-2].startswith("Ansible's own output: inventory/.logs/") and "FAILED after" in lines[-1]
    assert verified.verdict("lab", 2, {}, done.stdout).problems[0].endswith("\n    two\n    one")
    assert "\x1b" not in done.stdout + done.stderr + logged(place)


def test_check_says_what_would_change_and_diff_how(place: Path) -> None:
    said = played(place, "--check", "--diff").stdout
    assert "  would change: toy: Set it (n1, n2)" in said and "+new" in said
    assert re.search(r"^  toy +2 of 2 hosts would change", said, re.M)
    assert not list((place / "set").iterdir())


def test_ansibles_own_output_is_shown_where_it_is_asked_for(place: Path) -> None:
    said = played(place, "--verbose").stdout
    assert "TASK [toy : Set it]" in said and "changed: [n2]\n" in said and "PLAY RECAP" in said
    assert "hosts changed" not in said and "PLAY RECAP" in logged(place)
    assert flags.read("verify", ["-v"]).of_ansible == ["--verbose"], "which ansible-playbook does not get"
    assert flags.read("verify", ["-vvv", "-e", "x=1"]).of_ansible == ["-vvv", "-e", "x=1"]


def test_short_flags_mean_what_they_mean_to_runs() -> None:
    found = flags.read("teardown", ["-i", "mine", "-y"])
    assert (found.inventory, found.confirm, found.extra) == ("mine", "yes", ()), "ansible-playbook gets none of them"


def test_on_a_terminal_the_last_line_is_of_now(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = on_terminal(typed(place, "-e", '{"fails": true}'))
    assert "\x1b[2K" in shown and "toy: Set it" in shown, "it is drawn in place"
    assert re.search(r"toy: be ready: Wait( \(1 host\(s\) done\))?: wheels 312 of 545 MB", shown)
    assert "52;c" not in shown and "\x1b[2J" not in shown
    lines = [line.split("\r")[-1].strip() for line in OWN.sub("", shown).splitlines()]
    for wanted in (
        r"FAILED n2, toy: Look closely:",
        "two",
        r".*the long way was taken.*",
        r"toy +2 of 2 hosts changed.*",
    ):
        assert [line for line in lines if re.fullmatch(wanted, line)], (wanted, lines)


def test_the_last_logs_are_kept(tmp_path: Path) -> None:
    (tmp_path / steps.LOGS).mkdir()
    for number in range(20):
        (tmp_path / steps.LOGS / f"20260101-0000{number:02}-provision.log").touch()
    new = steps.log(tmp_path, "verify")
    left = sorted((tmp_path / steps.LOGS).iterdir())
    assert len(left) == steps.KEPT and left[-1] == new and left[0].name == "20260101-000011-provision.log"


def test_a_step_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    shown = Terminal()
    one = steps.Steps(shown, check=False)
    one.hear({"event": "task", "task": "Accept it", "step": "ssh_mesh", "of_role": True})
    for host in ("n1", "n2", "n3"):
        one.hear({"event": "result", "host": host, "changed": True, "here": False})
    one.hear({"event": "result", "host": "n1", "changed": True, "here": True})
    one.hear({"event": "end", "hosts": {"n1": "changed"}})
    (line, _) = shown.getvalue().splitlines()
    assert "3 of 3 hosts and this machine changed" in line and len(line) == 80
