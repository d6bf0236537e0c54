"""Enable and start units without waiting for them; restart all of them where their files have changed."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.started import note, stale
from ansible.module_utils.systemd import UnitError, enabled, going, must

DOCUMENTATION = r"""
module: node_start
short_description: Units enabled and started, restarted where something changed
options:
  units: {type: list, elements: str, required: true, description: Units of this node}
  files: {type: list, elements: path, required: true, description: Files that they read when they start}
  changes: {type: list, elements: str, required: true, description: Files that have changed (in check mode, would)}
"""


def settle(units, files, changes, check):
    """(whether anything had to be done, units that run and are restarted)."""
    old = bool(changes) or any(stale(unit, files) for unit in units)
    off, down = [unit for unit in units if not enabled(unit)], [unit for unit in units if not going(unit)]
    if not check:
        if old:
            must("daemon-reload")
        if off:
            must("enable", "--quiet", *off)
        if old or down:
            must("restart", "--no-block", *(units if old else down))
        for unit in units:
            note(unit, files)
    return bool(old or off or down), [unit for unit in units if old and unit not in down]


def main():
    """Start them."""
    kinds = {"units": "str", "files": "path", "changes": "str"}
    lists = {name: {"type": "list", "elements": kind, "required": True} for name, kind in kinds.items()}
    module = AnsibleModule(argument_spec=lists, supports_check_mode=True)
    wanted = module.params
    try:
        done, restarts = settle(wanted["units"], wanted["files"], wanted["changes"], module.check_mode)
    except (UnitError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done, restarts=restarts)


if __name__ == "__main__":
    main()
