"""An environment below its root: there and whole, or unpacked from a verified archive; the link switched to it."""

import glob
import hashlib
import json
import os
import shutil
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.disk import point
from ansible.module_utils.disk import settle as settle_disk
from ansible.module_utils.node_lock import exclusive

DOCUMENTATION = r"""
module: python_env
short_description: Switch to an environment, unpacking it first where an archive is given
options:
  root: {type: path, required: true, description: Folder of the environments}
  hash: {type: str, required: true, description: Name of the environment}
  keep: {type: int, default: 2, description: Number of environments that stay}
  archive: {type: path, description: tar.zst on this host; removed after use}
  sha256: {type: str, description: SHA-256 that the archive must have}
"""
DESCRIPTION = "regatta-env.json"


def whole(path, name):
    """Whether an environment is complete: its description is written last."""
    try:
        with open(os.path.join(path, DESCRIPTION)) as file:
            return json.load(file).get("hash") == name
    except (OSError, ValueError):
        return False


def digest(path):
    """SHA-256 of a file."""
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def remove_abandoned(root):
    """Return what a stopped unpacking left."""
    for name in os.listdir(root):
        if name.startswith(".env-"):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def unpack(module, archive, sha256, root, path):
    """Archive -> `path`, which appears only when it is whole."""
    if digest(archive) != sha256:
        os.unlink(archive)
        module.fail_json(
            msg=f"{archive}: SHA-256 differs from the controller's; "
            "it was deleted. Provision again; if this comes back, delete the folder env of the controller's cache"
        )
    new = f"{root}/.{os.path.basename(path)}.new"
    shutil.rmtree(new, ignore_errors=True)
    os.mkdir(new, 0o755)
    command = ["tar", "--extract", "--zstd", "--no-same-owner", "--file", archive, "--directory", new]
    command.append("--strip-components=1")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(new, ignore_errors=True)
        lines = done.stderr.strip().splitlines() or ["no message"]
        full = next((line for line in lines if "No space left" in line), None)
        hint = f"no space left below {root}; free some and provision again" if full else f"provision again: {lines[0]}"
        module.fail_json(msg=f"cannot unpack the environment: {hint}")
    settle_disk(new)
    shutil.rmtree(path, ignore_errors=True)
    os.rename(new, path)


def has_processes(path):
    """Whether something runs with a program of this environment."""
    for line in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(line, "rb") as file:
                if f"{path}/".encode() in file.read():
                    return True
        except OSError:
            continue
    return False


def prune(root, keep):
    """Delete the oldest environments beyond `keep`, never the current one or one that a run still has."""
    current = os.path.realpath(f"{root}/env")
    paths = [f"{root}/{name}" for name in os.listdir(root) if name.startswith("env-")]
    others = sorted((p for p in paths if os.path.realpath(p) != current), key=os.path.getmtime, reverse=True)
    for path in others[max(0, keep - 1) :]:
        if not has_processes(path):
            shutil.rmtree(path, ignore_errors=True)


def settle(module, root, name, archive, sha256, keep):
    """(changed, missing): the environment in place where it can be, its archive used up."""
    path = f"{root}/env-{name}"
    there = whole(path, name)
    linked = os.path.realpath(f"{root}/env") == os.path.realpath(path)
    if module.check_mode or (not there and not archive):
        return module.check_mode and not (there and linked), not there
    if not there:
        remove_abandoned(root)
        unpack(module, archive, sha256, root, path)
    if not linked:
        os.utime(path)
        point(f"{root}/env", os.path.basename(path))
        prune(root, keep)
    if there and linked and not os.path.isdir(f"{root}/.incoming"):
        return False, False
    shutil.rmtree(f"{root}/.incoming", ignore_errors=True)
    return True, False


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "hash": {"type": "str", "required": True},
            "keep": {"type": "int", "default": 2},
            "archive": {"type": "path"},
            "sha256": {"type": "str"},
        },
        required_together=[("archive", "sha256")],
        supports_check_mode=True,
    )
    wanted = module.params
    with exclusive(module, wanted["root"]):
        changed, missing = settle(
            module, wanted["root"], wanted["hash"], wanted["archive"], wanted["sha256"], wanted["keep"]
        )
    module.exit_json(changed=changed, missing=missing)


if __name__ == "__main__":
    main()
