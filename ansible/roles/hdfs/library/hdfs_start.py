"""Start HDFS's units without waiting for them; those whose files changed, anew. The NameNode reads its lists again."""

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.systemd import UnitError, enabled, going, must, systemctl

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


def refresh(wanted):
    """Let the NameNode read which DataNodes belong to it."""
    env = {"JAVA_HOME": wanted["java_home"], "HADOOP_CONF_DIR": wanted["conf"], "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    command = ["runuser", "--user=hdfs", "--", f"{wanted['root']}/hadoop/bin/hdfs", "dfsadmin", "-refreshNodes"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", check=False)
    if done.returncode:
        raise UnitError(f"hdfs dfsadmin -refreshNodes: {done.stderr.strip()}")


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
        if not enabled(unit):
            must("enable", "--quiet", unit)
            done = True
        if not going(unit):
            must("start", "--no-block", unit)
            done = True
        elif shared or path in changes:
            must("restart", "--no-block", unit)
            done = True
        elif unit == NAMENODE and systemctl("is-active", unit)[1] == "active" and changes & set(wanted["lists"]):
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
    except UnitError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done)


if __name__ == "__main__":
    main()
