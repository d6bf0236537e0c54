"""Start Ray's unit without waiting for it: anew where its files are not those that it was last started with."""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.started import note, stale
from ansible.module_utils.systemd import UnitError, enabled, going, must

DOCUMENTATION = r"""
module: ray_start
short_description: The unit enabled and started, restarted where something changed
options:
  unit: {type: str, required: true, description: Unit of this node}
  files: {type: list, elements: path, required: true, description: Files that the unit reads when it starts}
  again: {type: bool, default: false, description: Start it anew in any case}
"""
# Where an earlier Regatta kept what `started` keeps.
EARLIER = "/etc/regatta/ray_started"


def settle(unit, files, again, check):
    """(whether anything had to be done, units that run and are started anew)."""
    old, up = again or stale(unit, files), going(unit)
    wanting = not up or not enabled(unit)
    if not check:
        if old or wanting:
            must("daemon-reload")
            must("enable", "--quiet", unit)
            must("restart" if old else "start", "--no-block", unit)
        note(unit, files)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(EARLIER)
    return old or wanting, [unit] if old and up else []


def main():
    """Make it run."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "required": True},
            "again": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        done, anew = settle(wanted["unit"], wanted["files"], wanted["again"], module.check_mode)
    except (UnitError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done, anew=anew)


if __name__ == "__main__":
    main()
