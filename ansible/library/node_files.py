"""Folders and files of a node in one round trip: each as told, or absent. Supports check and diff."""

import errno
import grp
import os
import pwd
import stat
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mounts import at_or_below
from ansible.module_utils.node_lock import exclusive

DOCUMENTATION = r"""
module: node_files
short_description: Many folders and files at once
options:
  entries:
    type: list
    elements: dict
    required: true
    description: In the order in which they are made
    suboptions:
      path: {type: path, required: true, description: Where}
      kind: {type: str, default: file, choices: [file, folder, absent], description: The kind that is to be there}
      content: {type: str, description: Of a file}
      secret: {type: str, description: Content that is never shown}
      owner: {type: str, default: root, description: User and group}
      group: {type: str, description: Group where it is not the owner's own}
      mode: {type: str, description: Octal; 0644 for files and 0755 for folders}
      validate: {type: list, elements: str, description: Command that accepts the new file as %s}
"""


class FilesError(Exception):
    """Something could not be made."""


def ids(entry):
    """(uid, gid) of an entry, or None where an account does not exist yet (check mode on a bare host)."""
    try:
        return pwd.getpwnam(entry["owner"]).pw_uid, grp.getgrnam(entry["group"] or entry["owner"]).gr_gid
    except KeyError:
        return None


def attributes(path, entry):
    """Whether owner or mode of what is there differ from what is wanted."""
    info = os.lstat(path)
    return (info.st_uid, info.st_gid) != ids(entry) or stat.S_IMODE(info.st_mode) != entry["mode"]


def taken_over(path, entry):
    """Whether a file of another's becomes root's: they may still have it open, or a second name for it."""
    info = os.lstat(path)
    return entry["owner"] == "root" and (info.st_uid != 0 or info.st_nlink > 1)


def apply_attributes(path, entry):
    """Set owner and mode."""
    owner = ids(entry)
    if owner is None:
        group = entry["group"] or entry["owner"]
        raise FilesError(f"{path}: there is no user {entry['owner']}, or no group {group}; make them and try again")
    os.chown(path, *owner)
    os.chmod(path, entry["mode"])


def folder(path, entry, check):
    """A real directory with these attributes."""
    there = os.path.isdir(path) and not os.path.islink(path)
    changed = not there or attributes(path, entry)
    if changed and not check:
        if not there:
            os.makedirs(path, 0o700)
        apply_attributes(path, entry)
    return changed


def read(path):
    """Content of a regular file, else None."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as source:
        return source.read()


def validated(path, entry, body):
    """Let the validator look at the new content under the file's own name."""
    with tempfile.TemporaryDirectory() as work:
        trial = os.path.join(work, os.path.basename(path))
        with open(trial, "wb") as target:
            target.write(body)
        command = [trial if word == "%s" else word for word in entry["validate"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FilesError(f"{path}: refused by {command[0]}: {(done.stderr or done.stdout).strip()}")


def write(path, entry, body):
    """Replace a file in one step; in place where it is a mount point."""
    handle, new = tempfile.mkstemp(prefix=".regatta-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as target:
            target.write(body)
        apply_attributes(new, entry)
        try:
            os.rename(new, path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            with open(path, "wb") as target:
                target.write(body)
            apply_attributes(path, entry)
    finally:
        if os.path.exists(new):
            os.unlink(new)


def file(path, entry, check, diffs):
    """A regular file with this content and these attributes."""
    text = entry["secret"] if entry["secret"] is not None else entry["content"]
    body, old = (text or "").encode(), read(path)
    if old == body and not taken_over(path, entry):
        changed = attributes(path, entry)
        if changed and not check:
            apply_attributes(path, entry)
        return changed
    if entry["secret"] is None:
        diffs.append({"before_header": path, "after_header": path, "before": (old or b"").decode(), "after": text})
    if not check:
        if entry["validate"]:
            validated(path, entry, body)
        write(path, entry, body)
    return True


def remove_tree(path):
    """A folder and all below it: an environment has 40,000 files, which rm removes in a fifth less time than Python.

    Mounts below it stay, and so does the folder: they may be another host's, or bound from elsewhere.
    """
    if mounted := [point for point in at_or_below(os.path.realpath(path)) if point != os.path.realpath(path)]:
        raise FilesError(f"{path}: {', '.join(mounted)} is mounted in it: unmount that first")
    done = subprocess.run(["rm", "-rf", "--one-file-system", "--", path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FilesError(f"{path}: {done.stderr.strip()}")


def absent(module, path, check):
    """Nothing there, also when an interrupted provisioning was still unpacking into it."""
    if not os.path.lexists(path):
        return False
    if not check:
        if os.path.isdir(path) and not os.path.islink(path):
            with exclusive(module, path):
                remove_tree(path)
        else:
            os.unlink(path)
    return True


def main():
    """Make all entries so."""
    options = {
        "path": {"type": "path", "required": True},
        "kind": {"type": "str", "default": "file", "choices": ["file", "folder", "absent"]},
        "content": {"type": "str"},
        "secret": {"type": "str", "no_log": True},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str"},
        "mode": {"type": "str"},
        "validate": {"type": "list", "elements": "str"},
    }
    module = AnsibleModule(
        argument_spec={"entries": {"type": "list", "elements": "dict", "required": True, "options": options}},
        supports_check_mode=True,
    )
    check, changes, diffs = module.check_mode, [], []
    path = ""
    try:
        for entry in module.params["entries"]:
            path, kind = entry["path"], entry["kind"]
            entry["mode"] = int(entry["mode"] or ("0755" if kind == "folder" else "0644"), 8)
            if kind == "absent":
                changed = absent(module, path, check)
            else:
                changed = folder(path, entry, check) if kind == "folder" else file(path, entry, check, diffs)
            if changed:
                changes.append(path)
    except (FilesError, OSError) as error:
        hint = (
            "no space left on the disk; free some and provision again"
            if getattr(error, "errno", None) == errno.ENOSPC
            else str(error)
        )
        module.fail_json(msg=f"{path}: {hint}" if path not in hint else hint, changes=changes)
    module.exit_json(changed=bool(changes), changes=changes, diff=diffs)


if __name__ == "__main__":
    main()
