"""This node's HDFS: ports only where they belong; on the head also all DataNodes live, a file written and read back."""

import hashlib
import os
import re
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.hdfs_web import SYSTEM_STATE, WebError, bean, datanodes, safe_mode, transfer, webhdfs

DOCUMENTATION = r"""
module: hdfs_verify
short_description: Use HDFS as a client would
options:
  web: {type: str, required: true, description: URL of the NameNode on the head; empty elsewhere}
  nodes: {type: dict, required: true, description: Address of each DataNode by name}
  address: {type: str, required: true, description: The address that this node's ports are bound to}
  ports: {type: list, elements: int, required: true, description: All ports of HDFS}
  units: {type: list, elements: str, required: true, description: Units that must be active here}
  checkpoint: {type: str, required: true, description: Node with the second copy of the metadata; empty for none}
"""
SIZE = 1 << 20


def listeners(ports):
    """(port, address) of everything that listens at HDFS's ports."""
    done = subprocess.run(["ss", "-H", "-ltn"], capture_output=True, text=True, check=False)
    found = [line.split()[3].rpartition(":") for line in done.stdout.splitlines() if len(line.split()) > 3]
    return [
        (int(port), re.sub(r"^\[?(::ffff:)?|\]$", "", where)) for where, _, port in found if port and int(port) in ports
    ]


def written_and_read(web):
    """A file of a megabyte goes through every copy and comes back the same."""
    body, path = os.urandom(SIZE), f"/tmp/regatta-verify-{os.getpid()}"
    try:
        transfer(web, "CREATE", path, "regatta", "PUT", body, overwrite="true")
        answer = transfer(web, "OPEN", path, "regatta", "GET")
        if hashlib.sha256(answer).digest() != hashlib.sha256(body).digest():
            return ["a file came back from HDFS different from how it was written"]
    finally:
        webhdfs(web, "DELETE", path, "regatta", "DELETE")
    return []


def main():
    """Look, and use it."""
    texts = {name: {"type": "str", "required": True} for name in ("web", "address", "checkpoint")}
    module = AnsibleModule(
        argument_spec={
            **texts,
            "nodes": {"type": "dict", "required": True},
            "ports": {"type": "list", "elements": "int", "required": True},
            "units": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wanted, problems, lines = module.params, [], []
    for unit in wanted["units"]:
        done = subprocess.run(["systemctl", "is-active", unit], capture_output=True, text=True, check=False)
        if done.stdout.strip() != "active":
            problems.append(f"{unit} is {done.stdout.strip()}")
    for port, where in listeners(wanted["ports"]):
        if where != wanted["address"]:
            problems.append(f"HDFS's port {port} listens on {where}, not only on {wanted['address']}")
    if wanted["web"]:
        try:
            live, dead = datanodes(wanted["web"])
            problems += [f"no live DataNode on {name}" for name, where in wanted["nodes"].items() if where not in live]
            problems += [f"DataNode {name} is dead" for name in dead]
            problems += [text for text in [safe_mode(wanted["web"])] if text]
            problems += written_and_read(wanted["web"])
            missing = bean(wanted["web"], SYSTEM_STATE).get("UnderReplicatedBlocks", 0)
            second = (
                f"second copy of the metadata on {wanted['checkpoint']}"
                if wanted["checkpoint"]
                else ("NO second copy of the metadata, as there is no other node")
            )
            lines = [f"HDFS: {len(live)} DataNode(s) live, a file written and read back, {second}"]
            lines += [f"HDFS: {missing} block(s) still being copied"] if missing else []
        except WebError as error:
            problems.append(f"HDFS: {error}")
    module.exit_json(changed=False, problems=problems, lines=lines)


if __name__ == "__main__":
    main()
