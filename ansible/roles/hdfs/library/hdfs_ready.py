"""On the head: wait until every DataNode is live and safe mode is off; `/` belongs to the user regatta, /tmp to all."""

import subprocess
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.hdfs_web import WebError, datanodes, safe_mode, webhdfs

DOCUMENTATION = r"""
module: hdfs_ready
short_description: HDFS is whole and may be written to
options:
  web: {type: str, required: true, description: URL of the NameNode}
  nodes: {type: dict, required: true, description: Address of each DataNode by name}
  timeout: {type: int, required: true, description: Seconds}
"""


def obstacle(web, nodes):
    """Return what is missing, or None."""
    try:
        live, _ = datanodes(web)
        if missing := sorted(name for name, address in nodes.items() if address not in live):
            return f"no live DataNode on {', '.join(missing)}"
        return safe_mode(web) or None
    except WebError as error:
        return f"the NameNode: {error}"


def give_away(web, check):
    """Owner of the root, and a folder for all; whether that was a change."""
    root = webhdfs(web, "GETFILESTATUS", "/", "hdfs")["FileStatus"]
    changed = (root["owner"], root["group"]) != ("regatta", "regatta")
    if changed and not check:
        webhdfs(web, "SETOWNER", "/", "hdfs", "PUT", owner="regatta", group="regatta")
        webhdfs(web, "SETPERMISSION", "/", "hdfs", "PUT", permission="755")
        webhdfs(web, "MKDIRS", "/tmp", "hdfs", "PUT", permission="1777")
    return changed


def last_words():
    """The last lines of the NameNode's log."""
    command = ["journalctl", "--unit=regatta-hdfs-namenode", "--lines=6", "--no-pager", "--output=cat"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main():
    """Wait, then look at the root."""
    module = AnsibleModule(
        argument_spec={
            "web": {"type": "str", "required": True},
            "nodes": {"type": "dict", "required": True},
            "timeout": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    web, nodes, timeout = (module.params[name] for name in ("web", "nodes", "timeout"))
    end = time.monotonic() + timeout
    while found := obstacle(web, nodes):
        if time.monotonic() > end or module.check_mode:
            module.fail_json(
                msg=f"HDFS is not ready after {timeout} s: {found}. Look at 'journalctl -u regatta-hdfs-datanode' "
                f"there. The NameNode's last words:\n{last_words()}"
            )
        time.sleep(0.2)
    try:
        changed = give_away(web, module.check_mode)
    except WebError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, live=sorted(nodes))


if __name__ == "__main__":
    main()
