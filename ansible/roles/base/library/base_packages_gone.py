"""Remove the Debian packages that provisioning has installed, with their accounts; what others need by now stays."""

import fnmatch
import json
import os
import pwd
import re
import shutil
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.installed import RECORD, packages, recorded

DOCUMENTATION = r"""
module: base_packages_gone
short_description: Purge what was installed for the cluster
options:
  keep: {type: bool, default: false, description: Only say what stays}
  known: {type: list, elements: str, default: [], description: Names to report where nothing was recorded}
"""
OPTIONS = ["-q", "-o", "DPkg::Lock::Timeout=120", "--yes"]


class PackagesError(Exception):
    """apt-get has failed."""


def apt_get(*words):
    """Output of apt-get, which has to succeed."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["apt-get", *OPTIONS, *words], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()
        raise PackagesError(f"apt-get {' '.join(words[:2])} failed; repair apt and try again: {' / '.join(lines[-3:])}")
    return done.stdout


def would_remove(names):
    """Return what goes when these packages go."""
    said = apt_get("--simulate", "purge", *names)
    return {word.partition(":")[0] for word in re.findall(r"^(?:Remv|Purg) (\S+)", said, re.MULTILINE)}


def removable(names):
    """Packages whose removal removes no other: packages that other users' packages need now stay."""
    left = sorted(names)
    while left and would_remove(left) - names:
        going = [name for name in left if not would_remove([name]) - names]
        if going == left:  # only together they take something along
            return []
        left, names = going, set(going)
    return left


def accounts_gone(accounts):
    """Remove accounts that the packages made and did not take along, and their homes; their names."""
    gone = []
    for name, home in accounts.items():
        try:
            pwd.getpwnam(name)
        except KeyError:
            pass
        else:
            done = subprocess.run(["userdel", name], capture_output=True, text=True, check=False)
            if done.returncode:
                raise PackagesError(
                    f"the user {name} cannot be removed; end its processes and try again: {done.stderr.strip()}"
                )
            gone.append(name)
        if home and os.path.isdir(home) and not os.path.islink(home):
            shutil.rmtree(home)
    return gone


def main():
    """Remove them."""
    module = AnsibleModule(
        argument_spec={
            "keep": {"type": "bool", "default": False},
            "known": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    record, there = recorded(), packages()
    ours = set(record["packages"]) & there
    if not os.path.exists(RECORD):
        found = {name for name in there if any(fnmatch.fnmatch(name, known) for known in module.params["known"])}
        module.exit_json(changed=False, removed=[], stay=sorted(found))
    if module.params["keep"]:
        module.exit_json(changed=False, removed=[], stay=sorted(ours))
    try:
        going = removable(ours)
        if not module.check_mode:
            if going:
                apt_get("purge", *going)
            if not ours - set(going):
                accounts_gone(record["accounts"])
            with open(RECORD, "w") as file:
                json.dump({"packages": sorted(ours - set(going)), "accounts": {}}, file)
    except (PackagesError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(going), removed=going, stay=sorted(ours - set(going)))


if __name__ == "__main__":
    main()
