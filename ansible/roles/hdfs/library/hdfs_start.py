"""Start HDFS's units without waiting for them; those whose files changed, anew. The NameNode reads its lists again."""

import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: hdfs_start
short_description: Units enabled and started, restarted where something changed
options:
  units: {type: list, elements: str, required: true, description: Units of this node}
  changes: {type: list, elements: str, required: true, description: Files that have changed}
  lists: {type: list, elements: str, required: true, description: Files that a running NameNode only reads again}
  root: {type: path, required: true, description: Folder with the link hadoop}
  java_home: {type: path, required: true, description: Where Java is}
  conf: {type: path, required: true, description: Configuration folder}
"""
NAMENODE = "regatta-hdfs-namenode.service"


class StartError(Exception):
    """systemd or HDFS said no."""


def systemctl(*words):
    """(exit code, output)."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*words):
    """systemctl that has to succeed."""
    code, said = systemctl(*words)
    if code:
        raise StartError(f"systemctl {' '.join(words)}: {said}")


def refresh(wanted):
    """Let the NameNode read which DataNodes belong to it."""
    env = {"JAVA_HOME": wanted["java_home"], "HADOOP_CONF_DIR": wanted["conf"], "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    command = ["runuser", "--user=hdfs", "--", f"{wanted['root']}/hadoop/bin/hdfs", "dfsadmin", "-refreshNodes"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", check=False)
    if done.returncode:
        raise StartError(f"hdfs dfsadmin -refreshNodes: {done.stderr.strip()}")


def settle(wanted):
    """Whether anything had to be done."""
    units, changes = wanted["units"], set(wanted["changes"])
    # What only a person's own commands or the next start read restarts nothing.
    quiet = {path for path in changes if path in wanted["lists"] or path.endswith((".py", "hadoop-env.sh"))}
    own = {unit: f"/etc/systemd/system/{unit}" for unit in units}
    shared = changes - quiet - set(own.values())
    if changes & set(own.values()):
        must("daemon-reload")
    done = False
    for unit, path in own.items():
        active = systemctl("is-active", unit)[1]
        if systemctl("is-enabled", "--quiet", unit)[0]:
            must("enable", "--quiet", unit)
            done = True
        if active in ("active", "activating", "reloading") and (shared or path in changes):
            must("restart", "--no-block", unit)
            done = True
        elif active not in ("active", "activating", "reloading"):
            must("start", "--no-block", unit)
            done = True
        elif unit == NAMENODE and active == "active" and changes & set(wanted["lists"]):
            refresh(wanted)
            done = True
    return done


def main():
    """Start them."""
    lists = {name: {"type": "list", "elements": "str", "required": True} for name in ("units", "changes", "lists")}
    paths = {name: {"type": "path", "required": True} for name in ("root", "java_home", "conf")}
    module = AnsibleModule(argument_spec={**lists, **paths})
    try:
        done = settle(module.params)
    except StartError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done)


if __name__ == "__main__":
    main()
