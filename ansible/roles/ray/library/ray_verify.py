"""On the head: a Ray task on every node, and a client without the token refused."""

import json
import os
import subprocess
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ray_verify
short_description: Use Ray as a driver would, and as one who may not
options:
  root: {type: path, required: true, description: Folder of the environments}
  state: {type: path, required: true, description: Folder of runs}
  address: {type: str, required: true, description: Address and port of the head}
  dashboard: {type: str, required: true, description: URL of the dashboard}
  token_path: {type: path, required: true, description: File with the token}
  nodes: {type: dict, required: true, description: Address of each node by name}
  timeout: {type: int, default: 60, description: Seconds for the whole}
"""
SCRIPT = """
import json, os, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR", include_dashboard=False)
@ray.remote(num_cpus=0)
def where():
    import platform
    return ray.util.get_node_ip_address(), ray.__version__, platform.python_version()
alive = [node for node in ray.nodes() if node["Alive"]]
tasks = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
         for node in alive]
print("@verify " + json.dumps(ray.get(tasks, timeout=45)), flush=True)
"""

# No proxy of this host is the way to Ray.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run_tasks(wanted):
    """(addresses that a task has run on, problem or None)."""
    env = {
        "PATH": f"{wanted['root']}/env/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"{wanted['state']}/home",
        "RAY_ADDRESS": wanted["address"],
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": wanted["token_path"],
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = ["timeout", "--kill-after=5", str(wanted["timeout"]), "runuser", "-u", "regatta", "--"]
    command += [f"{wanted['root']}/env/bin/python", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=wanted["state"], env=env, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@verify ")]
    if done.returncode == 124:
        return set(), f"Ray tasks did not end within {wanted['timeout']} s"
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines() or ["no message"]
        return set(), f"Ray driver failed with exit code {done.returncode}: {words[-1]}"
    return {answer[0] for answer in json.loads(lines[-1].partition(" ")[2])}, None


def refusal(url, token):
    """The HTTP status that a client with this token (or none) gets."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with _OPENER.open(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def main():
    """Use it."""
    texts = {name: {"type": "str", "required": True} for name in ("address", "dashboard")}
    paths = {name: {"type": "path", "required": True} for name in ("root", "state")}
    module = AnsibleModule(
        argument_spec={
            **texts,
            **paths,
            "token_path": {"type": "path", "required": True, "no_log": False},
            "nodes": {"type": "dict", "required": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if not os.path.exists(wanted["token_path"]):
        module.exit_json(changed=False, problems=[f"{wanted['token_path']} is missing"])
    ran, found = run_tasks(wanted)
    problems = [found] if found else []
    if not found:
        problems += [f"no Ray task ran on {name}" for name, where in wanted["nodes"].items() if where not in ran]
    url = f"{wanted['dashboard']}/api/jobs/"
    refused = [refusal(url, None), refusal(url, "0" * 64)]
    for who, status in zip(("without a token", "with a wrong token"), refused, strict=True):
        if status not in (401, 403):
            problems.append(f"Ray's API answered {status} to a client {who}; 401 or 403 was expected")
    lines = [
        "Ray: a task has run on " + ", ".join(wanted["nodes"]),
        f"Ray: without the token the API answers {' and with a wrong one '.join(map(str, refused))}",
    ]
    module.exit_json(changed=False, problems=problems, lines=lines)


if __name__ == "__main__":
    main()
