"""The NameNode's metadata: its newest copy packed, or imported into a NameNode that has none."""

import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.disk import settle

DOCUMENTATION = r"""
module: hdfs_metadata
short_description: Pack a checkpoint, or start a NameNode from one
options:
  data: {type: path, required: true, description: Folder of all data of HDFS}
  pack: {type: path, description: Path of the packed copy}
  restore: {type: path, description: A packed copy to import; removed after use}
  root: {type: path, description: Folder with the link hadoop}
  conf: {type: path, description: Configuration folder}
  java_home: {type: path, description: Folder of Java}
  ready: {type: str, description: URL at which a NameNode answers}
"""
SECONDS = 300


class MetadataError(Exception):
    """There is no good copy, or HDFS does not take it."""


def systemctl(*words):
    """systemctl, whose answer does not matter."""
    subprocess.run(["systemctl", *words], capture_output=True, check=False)


def newest(folder):
    """Path of the newest image whose sum is right."""
    images = [path for path in glob.glob(f"{folder}/fsimage_*") if re.fullmatch(r"fsimage_\d+", os.path.basename(path))]
    for path in sorted(images, reverse=True):
        try:
            with open(f"{path}.md5") as sums, open(path, "rb") as image:
                if hashlib.md5(image.read()).hexdigest() == sums.read().split()[0]:
                    return path
        except OSError:
            continue
    raise MetadataError(f"{folder} has no image of the metadata whose sum is right; name an older copy")


def pack(data, target):
    """VERSION and the newest image into a tar; returns its SHA-256."""
    systemctl("stop", "regatta-hdfs-checkpoint.service")
    folder = f"{data}/checkpoint/current"
    image = newest(folder)
    with tarfile.open(target, "w") as archive:
        for path in (f"{folder}/VERSION", image, f"{image}.md5"):
            archive.add(path, os.path.basename(path))
    settle(data)
    with open(target, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def answers(url):
    """Whether the NameNode says 200."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def restore(wanted):
    """A NameNode takes the copy over and writes it to its own folder; then it ends again."""
    data = wanted["data"]
    systemctl("stop", "regatta-hdfs-namenode.service")
    # In a folder that root owns: hdfs owns what is below `data`, and may put a link there.
    work = tempfile.mkdtemp(prefix=".hdfs-import-", dir=wanted["root"])
    try:
        unpack(wanted["restore"], f"{work}/current")
        subprocess.run(["chown", "--recursive", "--no-dereference", "hdfs:hdfs", work], check=True)
        take_over(wanted, data, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    os.unlink(wanted["restore"])


def unpack(copy, folder):
    """The files that `pack` has put there, and nothing else."""
    os.mkdir(folder, 0o700)
    with tarfile.open(copy) as archive:
        for member in archive:
            if not member.isreg() or not re.fullmatch(r"VERSION|fsimage_\d+(\.md5)?", member.name):
                raise MetadataError(
                    f"{copy}: {member.name} does not belong in a copy of the metadata; name another copy"
                )
            with archive.extractfile(member) as source, open(f"{folder}/{member.name}", "xb") as target:
                shutil.copyfileobj(source, target)


def take_over(wanted, data, work):
    """A NameNode reads the copy in `work`, and writes it to its own folder."""
    env = {"JAVA_HOME": wanted["java_home"], "HADOOP_CONF_DIR": wanted["conf"], "HOME": data}
    env |= {"HADOOP_LOG_DIR": work, "HADOOP_PID_DIR": work, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    command = [f"{wanted['root']}/hadoop/bin/hdfs", "namenode", f"-Ddfs.namenode.checkpoint.dir=file://{work}"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["setpriv", "--reuid=hdfs", "--regid=hdfs", "--init-groups", *command, "-importCheckpoint"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=data,
        )  # fmt: skip
        end = time.monotonic() + SECONDS
        while process.poll() is None and not answers(wanted["ready"]) and time.monotonic() < end:
            time.sleep(0.3)
        good = process.poll() is None and os.path.exists(f"{data}/name/current/VERSION")
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        log.seek(0)
        said = [line for line in log.read().decode("utf-8", "replace").splitlines() if re.match("ERROR|FATAL", line)]
    if not good:
        raise MetadataError("the NameNode did not take the copy; name an older one: " + " / ".join(said[-3:]))
    settle(data)


def main():
    """One of the two."""
    paths = {name: {"type": "path"} for name in ("pack", "restore", "root", "conf", "java_home")}
    module = AnsibleModule(
        argument_spec={"data": {"type": "path", "required": True}, **paths, "ready": {"type": "str"}},
        required_one_of=[("pack", "restore")],
    )
    wanted = module.params
    try:
        if wanted["pack"]:
            module.exit_json(changed=True, sha256=pack(wanted["data"], wanted["pack"]))
        restore(wanted)
    except (MetadataError, OSError, tarfile.TarError, subprocess.SubprocessError) as error:
        module.fail_json(msg=f"metadata of HDFS: {error}")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
