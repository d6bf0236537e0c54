"""Start Ray's unit without waiting for it: anew where its files are not those that it was last started with.

What it was started with is kept on the disk, so that a provisioning which was stopped between files and start is
made good by the next one.
"""

import hashlib
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.systemd import UnitError, enabled, going, must

DOCUMENTATION = r"""
module: ray_start
short_description: The unit enabled and started, restarted where something changed
options:
  unit: {type: str, required: true, description: Unit of this node}
  files: {type: list, elements: path, required: true, description: Files that the unit reads when it starts}
  again: {type: bool, default: false, description: Start it anew in any case}
"""
STARTED = "/etc/regatta/ray_started"


def digest(files):
    """One hash of all files."""
    total = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest() + "\n"


def started_with():
    """The hash of the files that the unit was last started with."""
    try:
        with open(STARTED) as file:
            return file.read()
    except OSError:
        return ""


def settle(unit, files, again, check):
    """Whether anything had to be done."""
    now = digest(files)
    stale = again or started_with() != now
    wanting = not going(unit) or not enabled(unit)
    if check or not (stale or wanting):
        return stale or wanting
    must("daemon-reload")
    must("enable", "--quiet", unit)
    must("restart" if stale else "start", "--no-block", unit)
    new = f"{STARTED}.new"
    with open(new, "w") as file:
        file.write(now)
    os.chmod(new, 0o644)
    os.rename(new, STARTED)
    return True


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
        done = settle(wanted["unit"], wanted["files"], wanted["again"], module.check_mode)
    except (UnitError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done)


if __name__ == "__main__":
    main()
