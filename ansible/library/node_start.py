"""Enable and start units without waiting for them; all of them anew where a file of theirs has changed."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.systemd import UnitError, enabled, going, must

DOCUMENTATION = r"""
module: node_start
short_description: Units enabled and started, restarted where something changed
options:
  units: {type: list, elements: str, required: true, description: Units of this node}
  changes: {type: list, elements: str, required: true, description: Files that have changed}
"""


def main():
    """Start them."""
    lists = {name: {"type": "list", "elements": "str", "required": True} for name in ("units", "changes")}
    module = AnsibleModule(argument_spec=lists)
    units, changes = module.params["units"], module.params["changes"]
    try:
        if changes:
            must("daemon-reload")
        off, down = [unit for unit in units if not enabled(unit)], [unit for unit in units if not going(unit)]
        if off:
            must("enable", "--quiet", *off)
        if changes or down:
            must("restart", "--no-block", *(units if changes else down))
    except UnitError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(changes or off or down))


if __name__ == "__main__":
    main()
