"""Start Ray's unit without waiting for it: anew where its files are not those that it was last started with.

What it was started with is kept on the disk, so that a provisioning which was stopped between files and start is
made good by the next one.
"""

import hashlib
import os
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ray_start
short_description: The unit enabled and started, restarted where something changed
options:
  unit: {type: str, required: true, description: Unit of this node}
  files: {type: list, elements: path, required: true, description: Files that the unit reads when it starts}
  again: {type: bool, default: false, description: Start it anew in any case}
"""
STARTED = "/etc/regatta/ray_started"


class StartError(Exception):
    """systemd said no."""


def systemctl(*words):
    """(exit code, output)."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*words):
    """systemctl that has to succeed."""
    code, said = systemctl(*words)
    if code:
        raise StartError(f"systemctl {' '.join(words)}: {said}")


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
    active = systemctl("is-active", unit)[1] in ("active", "activating", "reloading")
    enabled = systemctl("is-enabled", "--quiet", unit)[0] == 0
    if check or (active and enabled and not stale):
        return stale or not active or not enabled
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
    except (StartError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done)


if __name__ == "__main__":
    main()
