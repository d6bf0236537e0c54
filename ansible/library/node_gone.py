"""Prove that nothing is left: looks for each thing by itself and lists what it finds. Changes nothing."""

import glob
import grp
import pwd
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_gone
short_description: List what is left of the things named
options:
  paths: {type: list, elements: str, default: [], description: Patterns of paths}
  units: {type: list, elements: str, default: [], description: Patterns of units}
  users: {type: list, elements: str, default: [], description: Accounts and groups}
  texts: {type: dict, default: {}, description: File and a text that it must not hold}
  commands: {type: list, elements: str, default: [], description: Words that no process may have in its command}
"""


def units(patterns):
    """Units that systemd still knows of."""
    if not patterns:
        return []
    command = ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", *patterns]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    files = ["systemctl", "list-unit-files", "--no-legend", "--no-pager", *patterns]
    listed = subprocess.run(files, capture_output=True, text=True, timeout=30, check=False)
    lines = done.stdout.splitlines() + listed.stdout.splitlines()
    return sorted({f"unit {line.split()[0]}" for line in lines if line.strip()})


def accounts(names):
    """Accounts and groups that still exist."""
    found = []
    for name in names:
        for what, look in (("user", pwd.getpwnam), ("group", grp.getgrnam)):
            try:
                look(name)
                found.append(f"{what} {name}")
            except KeyError:
                pass
    return found


def texts(wanted):
    """Files that still hold a text of Regatta's."""
    found = []
    for path, text in wanted.items():
        try:
            with open(path) as source:
                if text in source.read():
                    found.append(f"'{text}' in {path}")
        except OSError:
            pass
    return found


def commands(words):
    """Processes that still run one of Regatta's programs."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as source:
                line = source.read().split(b"\0")[0].decode("utf-8", "replace")
        except OSError:
            continue
        found |= {f"process {path.split('/')[2]} ({line})" for word in words if line.startswith(word)}
    return sorted(found)


def main():
    """Look."""
    lists = {
        name: {"type": "list", "elements": "str", "default": []} for name in ("paths", "units", "users", "commands")
    }
    module = AnsibleModule(argument_spec={**lists, "texts": {"type": "dict", "default": {}}}, supports_check_mode=True)
    wanted = module.params
    left = [path for pattern in wanted["paths"] for path in sorted(glob.glob(pattern))]
    left += units(wanted["units"]) + accounts(wanted["users"]) + texts(wanted["texts"]) + commands(wanted["commands"])
    module.exit_json(changed=False, left=left)


if __name__ == "__main__":
    main()
