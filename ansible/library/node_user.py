"""End everything that an account runs, remove its temporary files and the account itself."""

import os
import pwd
import signal
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_user
short_description: Remove an account and all it runs
options:
  name: {type: str, required: true, description: The account}
  comment: {type: str, description: Comment that it must have; another's account of that name stays}
"""
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")


def processes(uid):
    """Process ids of a user."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                found.append(int(name))
        except OSError:
            continue
    return found


def end(uid):
    """Kill until nothing is left: all of them at once, as the user, so that none can start another meanwhile."""
    for _ in range(50):
        if not processes(uid):
            return
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.1)


def temporary(uid):
    """Return what the user left in folders for temporary files."""
    return [
        entry.path
        for folder in TEMPORARY
        for entry in os.scandir(folder)
        if entry.stat(follow_symlinks=False).st_uid == uid
    ]


def main():
    """Remove it."""
    module = AnsibleModule(
        argument_spec={"name": {"type": "str", "required": True}, "comment": {"type": "str"}}, supports_check_mode=True
    )
    name, comment = module.params["name"], module.params["comment"]
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        module.exit_json(changed=False)
    if comment is not None and found.pw_gecos.rstrip(",") != comment:
        module.exit_json(changed=False)
    uid = found.pw_uid
    if not module.check_mode:
        end(uid)
        for path in temporary(uid):
            subprocess.run(["rm", "-rf", "--one-file-system", "--", path], capture_output=True, check=False)
        done = subprocess.run(["userdel", name], capture_output=True, text=True, check=False)
        if done.returncode:
            module.fail_json(
                msg=f"the user {name} cannot be removed; end its processes and try again: {done.stderr.strip()}"
            )
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
