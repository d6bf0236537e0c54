"""Start HDFS's units without waiting for them; restart them where their files have changed.

A NameNode that keeps running reads its lists again.
"""

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.started import note, stale
from ansible.module_utils.systemd import UnitError, enabled, going, must, systemctl

DOCUMENTATION = r"""
module: hdfs_start
short_description: Units enabled and started, restarted where something changed
options:
  units: {type: list, elements: str, required: true, description: Units of this node}
  files: {type: list, elements: path, required: true, description: Configuration and units}
  changes: {type: list, elements: str, required: true, description: Files that have changed (in check mode, would)}
  lists: {type: list, elements: str, required: true, description: Files that a running NameNode only reads again}
  root: {type: path, required: true, description: Folder with the link hadoop}
  java_home: {type: path, required: true, description: Folder of Java}
  conf: {type: path, required: true, description: Configuration folder}
"""
NAMENODE = "regatta-hdfs-namenode.service"
LISTS = "regatta-hdfs-namenode.lists"


def refresh(wanted):
    """Let the NameNode read which DataNodes belong to it."""
    env = {"JAVA_HOME": wanted["java_home"], "HADOOP_CONF_DIR": wanted["conf"], "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    command = ["runuser", "--user=hdfs", "--", f"{wanted['root']}/hadoop/bin/hdfs", "dfsadmin", "-refreshNodes"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", check=False)
    if done.returncode:
        said = done.stderr.strip()[-500:]
        raise UnitError(f"hdfs dfsadmin -refreshNodes failed; see 'journalctl -u regatta-hdfs-namenode' there: {said}")


def settle(wanted, check):
    """(whether anything had to be done, units that run and are restarted)."""
    # Files that only a person's own commands or the next start read restart nothing.
    quiet = {path for path in wanted["files"] if path in wanted["lists"] or path.endswith((".py", "hadoop-env.sh"))}
    units = {unit: f"/etc/systemd/system/{unit}" for unit in wanted["units"]}
    shared = [path for path in wanted["files"] if path not in quiet | set(units.values())]
    changes, done, restarts = set(wanted["changes"]), False, []
    reads = {unit: [*shared, path] for unit, path in units.items()}
    old = {unit for unit, files in reads.items() if changes & set(files) or stale(unit, files)}
    if old and not check:
        must("daemon-reload")
    for unit, files in reads.items():
        off, up = not enabled(unit), going(unit)
        if unit in old and up:
            restarts.append(unit)
        if not check:
            if off:
                must("enable", "--quiet", unit)
            if unit in old or not up:
                must("restart" if unit in old else "start", "--no-block", unit)
            note(unit, files)
        done = done or off or not up or unit in old
        if unit == NAMENODE:
            done = _lists_read(wanted, check, fresh=unit in old or not up) or done
    return done, restarts


def _lists_read(wanted, check, fresh):
    """Whether the NameNode had to read again which DataNodes belong to it; one that restarts reads them anyway."""
    if fresh or not (set(wanted["changes"]) & set(wanted["lists"]) or stale(LISTS, wanted["lists"])):
        again = False
    else:
        again = systemctl("is-active", NAMENODE)[1] == "active"
        if again and not check:
            refresh(wanted)
    if not check:
        note(LISTS, wanted["lists"])
    return again


def main():
    """Start them."""
    lists = {
        name: {"type": "list", "elements": "str", "required": True} for name in ("units", "files", "changes", "lists")
    }
    paths = {name: {"type": "path", "required": True} for name in ("root", "java_home", "conf")}
    module = AnsibleModule(argument_spec={**lists, **paths}, supports_check_mode=True)
    try:
        done, restarts = settle(module.params, module.check_mode)
    except (UnitError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=done, restarts=restarts)


if __name__ == "__main__":
    main()
