"""Makes `~/ray_results`, where Ray Train and Tune keep what gets no other place, a link into the shared folder.

It is in a folder of the account of runs, as which it is made: no other account follows what a run may have put there.
"""

import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: shared_folder_results
short_description: The default place of Ray's results is the shared folder
options:
  home: {type: path, required: true, description: Home of the account of runs}
  target: {type: path, required: true, description: Folder in the shared folder}
  linked: {type: bool, required: true, description: Whether the link is to be there}
"""
SAME = 3
SCRIPT = """
import os, sys
path, target, linked, check = sys.argv[1], sys.argv[2], sys.argv[3] == "True", sys.argv[4] == "True"
ours = os.path.islink(path) and os.readlink(path) == target
if ours == linked or (not linked and not ours):
    sys.exit(3)
if check:
    sys.exit(0)
if not linked:
    os.unlink(path)
    sys.exit(0)
if os.path.lexists(path):
    number, aside = 1, path + ".local"
    while os.path.lexists(aside):
        number, aside = number + 1, f"{path}.local{number}"
    os.rename(path, aside)
    if os.path.isdir(aside) and not os.path.islink(aside) and not os.listdir(aside):
        os.rmdir(aside)
os.symlink(target, path)
"""


def main():
    """Link it, or take our link away; what was there is put aside."""
    module = AnsibleModule(
        argument_spec={
            "home": {"type": "path", "required": True},
            "target": {"type": "path", "required": True},
            "linked": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    words = [f"{wanted['home']}/ray_results", wanted["target"], str(wanted["linked"]), str(module.check_mode)]
    command = ["runuser", "-u", "regatta", "--", "/usr/bin/python3", "-c", SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd="/", check=False)
    if done.returncode not in (0, SAME):
        module.fail_json(msg=f"{words[0]}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    module.exit_json(changed=done.returncode == 0)


if __name__ == "__main__":
    main()
