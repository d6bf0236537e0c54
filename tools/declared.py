"""Pages of docs/reference made from declarations: commands, exit codes, variables of roles."""

from typing import Any

from invoke.parser import Argument

from regatta.errors import RegattaError, RunFailedError
from regatta.options.declaration import OF_COMPARISONS, OF_RUNS
from regatta.program import ABOUT_HOSTS
from regatta.provisioning import flags
from regatta.tasks.begin import NAME as OF_INVENTORY
from regatta.tasks.common import INTERRUPTED
from regatta.tasks.namespace import namespace
from tools import role_readmes

COMMANDS = """# Commands

Made by `make docs` from `regatta/program.py`, `regatta/provisioning/flags.py` and `regatta/tasks/`: edit those.

`regatta` has every command. In a checkout, `fab` has those about runs and records, and `make` those about hosts;
`make` passes [its variables](../how-to/provision.md#commands) on as flags. `COMMAND --help` prints what is here.
"""
EXIT_CODES = """# Exit codes

Made by `make docs` from `regatta/errors.py`: edit that, not this page.

2 is bad input; 1 is a failure of the cluster, or what the message says. A run that failed passes its own code on:
128 + signal for a signal. `check` and `verify` end with the code of ansible-playbook, so 2 there is a failed host.

| code | error | when |
|---|---|---|
| 0 | | it is done |"""
VARIABLES = """# Variables of an inventory

Made by `make docs` from `ansible/roles/*/meta/argument_specs.yml`: edit those, not this page.

Set them under `vars` of the inventory, or with `-e`. A name that is almost one of them is refused, with the one that is
meant. Defaults are Ansible's expressions.

## Hosts and runs

| variable | type | default | what |
|---|---|---|---|
| `cluster_address` | str | | A host's own IPv4 address in the members' network; services listen there. |
| `regatta_cluster` | str | the inventory's name | The cluster's name on its hosts, if the inventory has another. |
| `regatta_member` | bool | `false` | The login is a member's, without sudo; `regatta join` writes it into `own.yml`. |
| `regatta_root` | path | `/opt/regatta` | Programs and synced code; the last part of the path must contain `regatta`. |
| `regatta_state` | path | `/var/lib/regatta` | Runs, data and Ray's state; the last part must contain `regatta`. |
| `regatta_python` | path | `<regatta_root>/env/bin/python` | The interpreter of runs. |
| `regatta_run_log_mb` | int | `256` | Log of one run on one node: its beginning and its end. |
| `regatta_run_memory_share` | float | `0.85` | Share of a host's memory for one run, and for Ray with its workers. |
| `regatta_run_processes` | int | 1024 a core, at least 4096 | Processes and threads of a run on a node, and of Ray. |
| `price_per_hour` | float | | What a host costs, in any money; `fab show` and reports then say what runs cost. |

Ansible's own (`ansible_host`, `ansible_user`, `ansible_ssh_common_args`, ...) are in
[Architecture](../explanation/architecture.md#inventory).
"""


def commands() -> str:
    """Return docs/reference/commands.md."""
    lines = [COMMANDS, "## About hosts", ""]
    for name, about in ABOUT_HOSTS.items():
        lines += [f"### {name}", "", _sentence(about), "", "| flag | what |", "|---|---|"]
        lines += [f"| `--{flag.name}{_value(flag.reading)}` | {_cell(flag.help)} |" for flag in flags.of(name)]
        lines += [""]
    lines += ["## About runs, data and records", ""]
    for context in namespace.to_contexts():
        if not context.name.startswith("run-") or context.name == "runs-gc":
            task = namespace.tasks[context.name]
            about = str(task.__doc__).splitlines()[0]
            lines += [f"### {context.name}", "", about, "", *_arguments(list(context.args.values()))]
    lines += ["### run", "", *_run()]
    return "\n".join(lines)


def _run() -> list[str]:
    names = sorted(context.name for context in namespace.to_contexts() if context.name.startswith("run-"))
    return [
        "`run NAME`, or `run-NAME`: run a workload under several frameworks, interleaved; record and compare the runs.",
        "Its flags are the [options of runs](options.md#options-of-runs) and those of the workload.",
        "",
        "Regatta's own: " + ", ".join(f"[{name}](options.md#{name.removeprefix('run-')})" for name in names) + ".",
        "",
    ]


def _arguments(found: list[Argument]) -> list[str]:
    """A table of what a command takes; options of all runs are one line that links to their table."""
    of_runs = {one.flag for one in {**OF_RUNS, **OF_COMPARISONS}.values()}
    rows = []
    shared = []
    for one in found:
        long = one.names[0]
        if not one.positional and f"--{long}" in of_runs and long != "inventory" and one.help != OF_INVENTORY:
            shared.append(f"`--{long}`")
            continue
        short = "".join(f", `-{name}`" for name in one.names[1:] if len(name) == 1)
        shown = f"`{long.upper()}`" if one.positional else f"`--{long}`{short}"
        rows.append(f"| {shown} | {_cell(one.help or '')} |")
    lines = ["| argument | what |", "|---|---|", *rows, ""] if rows else []
    if shared:
        lines += [f"And of the [options of runs](options.md#options-of-runs): {', '.join(shared)}.", ""]
    return lines


def _value(reading: dict[str, Any]) -> str:
    if "choices" in reading:
        return " " + "\\|".join(reading["choices"])
    return f" {reading['metavar']}" if "metavar" in reading else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def exit_codes() -> str:
    """Return docs/reference/exit-codes.md: a row for each error; RunFailedError has the code of the run."""
    rows = []
    for one in [RegattaError, *_below(RegattaError)]:
        code = "the run's, or 1" if one is RunFailedError else str(one.exit_code)
        about = str(one.__doc__).partition(".")[0]
        rows.append(f"| {code} | `{one.__name__}` | {about} |")
    lines = [row for code in ("2", "the", "1") for row in rows if row.startswith(f"| {code}")]
    interrupted = f"| {INTERRUPTED} | | Ctrl-C; a run that it followed was told to stop |"
    ansible = "| Ansible's | | a command about hosts failed on a host: what ansible-playbook ended with (2, 4) |"
    return "\n".join([EXIT_CODES, *lines, interrupted, ansible, ""])


def _below(kind: type[RegattaError]) -> list[type[RegattaError]]:
    return [
        one for child in kind.__subclasses__() if child.__module__ == kind.__module__ for one in (child, *_below(child))
    ]


def variables() -> str:
    """Return docs/reference/variables.md: the table of each role."""
    parts = [VARIABLES]
    for role in role_readmes.roles():
        parts += [f"## {role.name}", "", *role_readmes.table(role), ""]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Return the text of each page, by its path in the project."""
    made = {"commands": commands(), "exit-codes": exit_codes(), "variables": variables()}
    return {f"docs/reference/{name}.md": text for name, text in made.items()}
