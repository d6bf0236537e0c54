"""Enable and start units without waiting for them; all of them anew where a file of theirs has changed."""

import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_start
short_description: Units enabled and started, restarted where something changed
options:
  units: {type: list, elements: str, required: true, description: Units of this node}
  changes: {type: list, elements: str, required: true, description: Files that have changed}
"""
GOING = ("active", "activating", "reloading")


def systemctl(module, *words):
    """Carry it out, or fail."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        module.fail_json(msg=f"systemctl {' '.join(words)}: {done.stderr.strip()}")


def without(units, question, good):
    """Those of the units whose answer to `systemctl QUESTION` is another one."""
    said = {
        unit: subprocess.run(["systemctl", question, unit], capture_output=True, text=True, check=False).stdout.strip()
        for unit in units
    }
    return [unit for unit, answer in said.items() if answer not in good]


def main():
    """Start them."""
    lists = {name: {"type": "list", "elements": "str", "required": True} for name in ("units", "changes")}
    module = AnsibleModule(argument_spec=lists)
    units, changes = module.params["units"], module.params["changes"]
    if changes:
        systemctl(module, "daemon-reload")
    off, down = without(units, "is-enabled", ("enabled",)), without(units, "is-active", GOING)
    if off:
        systemctl(module, "enable", "--quiet", *off)
    if changes or down:
        systemctl(module, "restart", "--no-block", *(units if changes else down))
    module.exit_json(changed=bool(changes or off or down))


if __name__ == "__main__":
    main()
