"""Unpack a verified Hadoop below its root, where it appears only when it is whole, and switch the link to it."""

import hashlib
import json
import os
import re
import shutil
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.disk import point
from ansible.module_utils.disk import settle as settle_disk
from ansible.module_utils.node_lock import exclusive

DOCUMENTATION = r"""
module: hdfs_release
short_description: Hadoop out of its tarball
options:
  root: {type: path, required: true, description: Folder of the releases}
  sha512: {type: str, required: true, description: SHA-512 that the tarball must have}
  archive: {type: path, required: true, description: The tarball on this host; removed after use}
  conf: {type: path, required: true, description: Configuration folder that its etc/hadoop leads to}
"""
NOT_NEEDED = ("share/doc", "share/hadoop/yarn", "share/hadoop/mapreduce", "share/hadoop/tools", "share/hadoop/client")


class ReleaseError(Exception):
    """The tarball is not what it should be."""


def check(archive, sha512):
    """The tarball is the one that was asked for."""
    total = hashlib.sha512()
    with open(archive, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    if total.hexdigest() != sha512:
        os.unlink(archive)
        raise ReleaseError(f"{archive}: its SHA-512 is not the controller's; it was deleted, provision again")


def unpack(archive, new):
    """Tarball -> folder, without what HDFS does not need."""
    command = ["tar", "--extract", "--file", archive, "--directory", new, "--strip-components=1", "--no-same-owner"]
    done = subprocess.run(
        [*command, *(f"--exclude=*/{name}" for name in NOT_NEEDED)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        full = any("No space left" in line for line in lines)
        if full:
            raise ReleaseError("no space left on the disk for Hadoop; free some and provision again")
        raise ReleaseError(f"{archive} cannot be unpacked; delete it and provision again: {lines[0]}")
    if not os.access(f"{new}/bin/hdfs", os.X_OK):
        raise ReleaseError("this tarball is no Hadoop release: it has no bin/hdfs; correct hdfs_tarball")


def version(folder):
    """Version by the name of the jar that every release has."""
    for _, _, files in os.walk(folder):
        for name in files:
            if found := re.fullmatch(r"hadoop-hdfs-(\d[\w.]*?)\.jar", name):
                return found.group(1)
    return None


def settle(root, sha512, archive, conf):
    """The release in place and the link on it; older ones go but for the one before."""
    path, new = f"{root}/hadoop-{sha512[:12]}", f"{root}/.hadoop.new"
    shutil.rmtree(new, ignore_errors=True)
    os.mkdir(new, 0o755)
    try:
        unpack(archive, new)
    except ReleaseError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    os.makedirs(f"{new}/etc", exist_ok=True)
    shutil.rmtree(f"{new}/etc/hadoop", ignore_errors=True)
    os.symlink(conf, f"{new}/etc/hadoop")
    with open(f"{new}/regatta-hadoop.json", "w") as file:
        json.dump({"sha512": sha512, "version": version(new)}, file)
    settle_disk(new)
    shutil.rmtree(path, ignore_errors=True)
    os.rename(new, path)
    before = os.path.basename(os.path.realpath(f"{root}/hadoop"))
    point(f"{root}/hadoop", os.path.basename(path))
    for name in os.listdir(root):
        if name.startswith("hadoop-") and name not in (before, os.path.basename(path)):
            shutil.rmtree(f"{root}/{name}", ignore_errors=True)
    shutil.rmtree(os.path.dirname(archive), ignore_errors=True)


def main():
    """Do it."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "sha512": {"type": "str", "required": True},
            "archive": {"type": "path", "required": True},
            "conf": {"type": "path", "required": True},
        }
    )
    wanted = module.params
    try:
        with exclusive(module, wanted["root"]):
            check(wanted["archive"], wanted["sha512"])
            settle(wanted["root"], wanted["sha512"], wanted["archive"], wanted["conf"])
    except ReleaseError as error:
        shutil.rmtree(os.path.dirname(wanted["archive"]), ignore_errors=True)
        module.fail_json(msg=f"cannot install Hadoop: {error}")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
