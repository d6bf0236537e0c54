"""The needs of HDFS on a node before anything starts, and what is there of them: Hadoop, Java and data."""

import contextlib
import glob
import json
import os
import pwd
import re
import subprocess

from ansible.module_utils import java
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: hdfs_node
short_description: Account and folders made, Java found, data looked at
options:
  root: {type: path, required: true, description: Folder of the Hadoop releases}
  data: {type: path, required: true, description: Folder of all data}
  folders: {type: list, elements: str, required: true, description: Those of name, data, checkpoint that this node has}
  comment: {type: str, required: true, description: Comment by which our account is known}
  sha512: {type: str, required: true, description: SHA-512 of the tarball that the release comes from}
  java_home: {type: str, default: "", description: A Java to use}
  account_only: {type: bool, default: false, description: Make the account and no more}
  look_only: {type: bool, default: false, description: Say which data are there and no more}
"""
USER = "hdfs"
UNITS = "/etc/systemd/system/regatta-hdfs-*.service"
MOST_COUNTED = 1000


class NodeError(Exception):
    """The node cannot have an HDFS as it is."""


def run(*command):
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise NodeError(f"'{' '.join(command[:2])}' failed; put that right and provision again: {said}")
    return done.stdout + done.stderr


def account():
    """The account, or None."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        return None


def free_id(number):
    """Whether neither a user nor a group has a number."""
    return all(
        subprocess.run(["getent", base, str(number)], capture_output=True, check=False).returncode
        for base in ("passwd", "group")
    )


def make_account(data, comment):
    """Make it, with the number that owns the data where an earlier account left some."""
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", data, "--shell", "/usr/sbin/nologin"]
    if os.path.isdir(data) and (number := os.stat(data).st_uid) and free_id(number):
        options += ["--uid", str(number)]
    run("useradd", *options, "--comment", comment, USER)


def make_folders(data, names, owner):
    """Folders of our own account; returns whether anything changed."""
    changed = False
    if os.path.isdir(data) and (os.stat(data).st_uid, os.stat(data).st_gid) != (owner.pw_uid, owner.pw_gid):
        run("chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", data)
        changed = True
    for path, mode in [(data, 0o755), *((f"{data}/{name}", 0o700) for name in names)]:
        if not os.path.isdir(path):
            os.mkdir(path, mode)
            os.chmod(path, mode)
            os.chown(path, owner.pw_uid, owner.pw_gid)
            changed = True
    return changed


def in_use():
    """The Java that this node's HDFS was set up with; empty where there is none."""
    for path in sorted(glob.glob(UNITS)):
        with open(path) as file:
            if found := re.search(r"\bJAVA_HOME=(\S+)", file.read()):
                return found.group(1)
    return ""


def find_java(wanted):
    """(folder, version) of the Java to use: the one that is given, else the one in use, else the newest that fits."""
    if wanted:
        found = [(wanted, number)] if (number := java.version(wanted)) else []
    else:
        found = [(home, number) for home in [in_use()] if home and (number := java.version(home))] + java.installed()
    good = [(home, number) for home, number in found if java.fits(number)]
    if good:
        return good[0]
    have = ", ".join(f"Java {number} in {home}" for home, number in found) or f"no Java in {wanted or java.FOLDER}"
    raise NodeError(
        f"Hadoop runs on Java {java.OLDEST} to {java.NEWEST}, and there is {have}: "
        "set hdfs_java_home, or leave it empty for the newest that this system's packages have"
    )


def fields(path):
    """A `VERSION` file as a dict."""
    try:
        with open(path) as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return {}


def count_blocks(pool):
    """Return how many blocks are there, counted up to a bound."""
    count = 0
    for _, _, files in os.walk(pool):
        count += sum(name.startswith("blk_") and not name.endswith(".meta") for name in files)
        if count >= MOST_COUNTED:
            break
    return count


def held(data):
    """Return what the node holds: metadata, blocks by pool, the newest checkpoint."""
    version = fields(f"{data}/name/current/VERSION")
    images = [
        (int(name.rpartition("_")[2]), os.path.getmtime(f"{data}/checkpoint/current/{name}"))
        for name in (os.listdir(f"{data}/checkpoint/current") if os.path.isdir(f"{data}/checkpoint/current") else [])
        if re.fullmatch(r"fsimage_\d+", name)
    ]
    pools = glob.glob(f"{data}/data/current/BP-*")
    copy = fields(f"{data}/checkpoint/current/VERSION").get("blockpoolID", "")
    return {
        "name": version.get("blockpoolID", ""),
        "pools": {os.path.basename(pool): count_blocks(pool) for pool in pools},
        "checkpoint": {"transaction": max(images)[0], "time": max(images)[1], "pool": copy} if images else {},
    }


def main():
    """Prepare and look."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "data": {"type": "path", "required": True},
            "folders": {"type": "list", "elements": "str", "required": True},
            "comment": {"type": "str", "required": True},
            "sha512": {"type": "str", "required": True},
            "java_home": {"type": "str", "default": ""},
            "account_only": {"type": "bool", "default": False},
            "look_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if wanted["look_only"]:
        module.exit_json(changed=False, **held(wanted["data"]))
    if not re.fullmatch(r"[0-9a-f]{128}", wanted["sha512"]):
        module.fail_json(msg="hdfs_tarball_sha512 must be the tarball's SHA-512, 128 hex digits: sha512sum FILE")
    release = f"{wanted['root']}/hadoop-{wanted['sha512'][:12]}"
    there = os.path.exists(f"{release}/regatta-hadoop.json")
    linked = os.path.realpath(f"{wanted['root']}/hadoop") == os.path.realpath(release)
    user, changed, chosen = account(), False, ("", 0)
    try:
        if user and user.pw_gecos.rstrip(",") != wanted["comment"]:
            raise NodeError(f"there is a user {USER} that Regatta did not make: remove it, or set hdfs_enabled: false")
        if wanted["account_only"]:
            if not user and not module.check_mode:
                make_account(wanted["data"], wanted["comment"])
            module.exit_json(changed=not user)
        if not module.check_mode:
            chosen = find_java(wanted["java_home"])
            if not user:
                make_account(wanted["data"], wanted["comment"])
                changed = True
            changed = make_folders(wanted["data"], wanted["folders"], account()) or changed
        else:
            changed = not user or not there or not linked
            with contextlib.nullcontext() if wanted["java_home"] else contextlib.suppress(NodeError):  # it is to come
                chosen = find_java(wanted["java_home"])
    except (NodeError, OSError) as error:
        module.fail_json(msg=str(error))
    if os.path.exists(f"{release}/regatta-hadoop.json"):
        with open(f"{release}/regatta-hadoop.json") as file:
            version = json.load(file).get("version")
    else:
        version = None
    module.exit_json(
        changed=changed,
        missing=not (there and linked),
        java_home=chosen[0],
        java_version=chosen[1],
        hadoop_version=version,
        **held(wanted["data"]),
    )


if __name__ == "__main__":
    main()
