"""From this node to every other by SSH with root's key, all at once; that the key of runs opens no shell."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ssh_mesh_verify
short_description: Reach every node by SSH, strictly
options:
  peers: {type: list, elements: str, required: true, description: Names of the other nodes}
  all: {type: list, elements: str, required: true, description: Names of all nodes}
"""
CONFIG = "/etc/regatta/mesh/config"


def reach(peer):
    """None, or why a node was not reached."""
    command = ["ssh", "-F", CONFIG, "-n", f"regatta-relay@{peer}", "cat", "/etc/regatta/node.json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd="/", check=False)
        answered = json.loads(done.stdout)["node"] if done.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return "no answer within 30 s"
    except (ValueError, KeyError):
        return "has no /etc/regatta/node.json"
    if answered is None:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return None if answered == peer else f"leads to {answered}"


def shut(host):
    """None, or that the key of runs opens more than sftp on a host."""
    command = ["runuser", "-u", "regatta", "--", "ssh", "-n", host, "id"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd="/", check=False)
    except subprocess.TimeoutExpired:
        return None
    return "lets runs in by SSH: run 'regatta provision'" if "uid=" in done.stdout else None


def main():
    """Reach all."""
    words = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(argument_spec={"peers": words, "all": words}, supports_check_mode=True)
    peers, everybody = module.params["peers"], module.params["all"]
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(peers, pool.map(reach, peers), strict=True))
        opened = dict(zip(everybody, pool.map(shut, everybody), strict=True))
    problems = [f"SSH to {peer}: {why}" for peer, why in answers.items() if why]
    problems += [f"{host}: {why}" for host, why in opened.items() if why]
    module.exit_json(changed=False, problems=problems)


if __name__ == "__main__":
    main()
