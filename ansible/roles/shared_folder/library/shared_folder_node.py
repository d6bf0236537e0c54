"""The place where a node sees the shared folder, and the head's own files behind it. Looks at what is mounted there
before it touches anything, which no stock module does."""

import contextlib
import os
import pwd
import stat
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mounts import at_or_below

DOCUMENTATION = r"""
module: shared_folder_node
short_description: A point to mount at, or nothing mounted there any more; the owner of the files
options:
  point: {type: path, required: true, description: Path at which the folder is seen}
  served: {type: str, default: "", description: Folder of what sftp sees, which is to go}
  data: {type: str, default: "", description: Folder of the files on this host; empty where it has none}
  owner: {type: str, default: "", description: Account that the files belong to while something is mounted}
  mounted: {type: bool, required: true, description: Whether something is, or will be, mounted}
"""


class NodeError(Exception):
    """Something is in the way."""


def run(*command):
    """A command that has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NodeError(f"'{' '.join(command[:2])}' failed; provision again: {done.stderr.strip()}")
    return done.stdout.strip()


def make_point(point, check):
    """Only root's and empty, so that nothing is written there while nothing is mounted."""
    if point in at_or_below(point):
        return False
    if os.path.isdir(point) and not os.path.islink(point):
        if os.listdir(point):
            raise NodeError(f"{point} has files, and nothing is mounted there: move them away")
        info = os.lstat(point)
        if (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (0, 0, 0o700):
            return False
    if not check:
        os.makedirs(point, 0o700, exist_ok=True)
        os.chown(point, 0, 0)
        os.chmod(point, 0o700)
    return True


def unmount(point, check):
    """Nothing mounted at the point, whoever works there."""
    found = at_or_below(point)
    for path in [] if check else reversed(found):
        run("umount", "--lazy", path)
    if not check:
        if left := at_or_below(point):
            raise NodeError(f"still mounted: {', '.join(left)}; end what uses it (fuser -m) and try again")
        inside = os.listdir(point) if os.path.isdir(point) and not os.path.islink(point) else []
        for path in (*(os.path.join(point, name) for name in inside), point):
            with contextlib.suppress(OSError):
                os.rmdir(path)  # where it is not there, runs know that they have no such folder
    return bool(found)


def remove(served, check):
    """No folder that sftp sees: nothing is mounted in it, then it is empty but for the mount's own point."""
    if not os.path.isdir(served):
        return False
    if not check:
        unmount(served, check)
        for path in (os.path.join(served, "shared"), served):
            if os.path.isdir(path):
                os.rmdir(path)
    return True


def close(data, check):
    """Only root's: a later account could get the number of Regatta's. The files stay that number's, out of reach."""
    info = os.lstat(data)
    if info.st_uid == 0 and stat.S_IMODE(info.st_mode) == 0o700:
        return False
    if not check:
        os.chmod(data, 0o700)
        os.chown(data, 0, 0)
    return True


def own(data, owner, check):
    """The files, on this file system, are the account's: they once were those of another number. Links stay.

    No other account works there, as the folder was root's; it comes last, so that the next one does what was stopped.
    """
    try:
        account = pwd.getpwnam(owner)
    except KeyError:
        if check:
            return True
        raise NodeError(f"there is no account {owner}; provision the whole cluster") from None
    uid, gid = account.pw_uid, account.pw_gid
    if os.path.isdir(data) and os.lstat(data).st_uid == uid:
        return False
    if not check:
        os.makedirs(data, 0o700, exist_ok=True)
        run("find", data, "-xdev", "-depth", "-exec", "chown", "--no-dereference", f"{uid}:{gid}", "{}", "+")
        os.chmod(data, 0o700)
    return True


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={
            "point": {"type": "path", "required": True},
            "served": {"type": "str", "default": ""},
            "data": {"type": "str", "default": ""},
            "owner": {"type": "str", "default": ""},
            "mounted": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    wanted, check = module.params, module.check_mode
    data = wanted["data"]
    try:
        gone = bool(wanted["served"]) and remove(wanted["served"], check)
        if wanted["mounted"]:
            changed = make_point(wanted["point"], check) or gone
            changed = (bool(data) and own(data, wanted["owner"], check)) or changed
        else:
            changed = unmount(wanted["point"], check) or gone
            changed = (os.path.isdir(data) and close(data, check)) or changed
    except (NodeError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
