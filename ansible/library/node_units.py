"""Stop, disable and remove systemd units by pattern; none there is no change."""

import glob
import os
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_units
short_description: Remove our own systemd units
options:
  patterns: {type: list, elements: str, required: true, description: Of unit names, with their suffix}
"""
FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient")


def systemctl(*words):
    """Output of systemctl; empty where systemd does not run."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def loaded(patterns):
    """Units that systemd knows of."""
    lines = systemctl("list-units", "--all", "--plain", "--no-legend", "--no-pager", *patterns).splitlines()
    return {line.split()[0] for line in lines if line.strip()}


def files(patterns):
    """Unit files and folders of drop-ins."""
    return sorted(path for folder in FOLDERS for p in patterns for path in glob.glob(f"{folder}/{p}"))


def main():
    """Remove them."""
    module = AnsibleModule(
        argument_spec={"patterns": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    patterns = module.params["patterns"]
    names = sorted(loaded(patterns) | {os.path.basename(path) for path in files(patterns)})
    if names and not module.check_mode:
        systemctl("stop", *names)
        systemctl("disable", *names)
        for path in files(patterns):
            if os.path.isfile(path) or os.path.islink(path):
                os.unlink(path)
        systemctl("daemon-reload")
        systemctl("reset-failed", *patterns)
        if left := sorted(loaded(patterns) | {os.path.basename(path) for path in files(patterns)}):
            module.fail_json(msg=f"could not be removed: {', '.join(left)}; see 'systemctl status' there and try again")
    module.exit_json(changed=bool(names), units=names)


if __name__ == "__main__":
    main()
