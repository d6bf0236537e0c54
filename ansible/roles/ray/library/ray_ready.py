"""Wait until the head's API says that every node is alive. Asks with the token of this host; changes nothing."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ray_ready
short_description: Prove that a Ray cluster is whole and refuses whoever has no token
options:
  dashboard: {type: str, required: true, description: Address of the dashboard on the head}
  token_path: {type: path, required: true, description: File with the token}
  nodes: {type: dict, required: true, description: Address of each node by name}
  timeout: {type: int, default: 90, description: Seconds to wait}
"""

# No proxy of this host is the way to Ray.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url, token=None):
    """(status, JSON or None) of a GET; status 0 where there is no answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with _OPENER.open(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, None
    except (OSError, ValueError):
        return 0, None


def alive(answer):
    """Addresses of the nodes that are alive."""
    nodes = answer["data"]["result"]["result"]
    return {node["node_ip"] for node in nodes if node["state"] == "ALIVE"}


HEAD = "regatta-ray-head"
NOISE = ("Killing process", "Scheduled restart", "Local node IP", "Consumed ", "Deactivated ", "Stopped ", "Stopping ")
"""Lines of systemd and of Ray that name no cause."""


def of_head(*command):
    """The output of a command about the unit of Ray's head; empty where it cannot be asked."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def trouble(missing, status):
    """The text of the message, and where to look."""
    if status:
        return (
            f"{', '.join(missing)} (the head's API answered {status}); look at 'journalctl -u regatta-ray-worker' there"
        )
    restarts = of_head("systemctl", "show", "--value", "--property", "NRestarts", HEAD)
    load, cores = os.getloadavg()[0], os.cpu_count()
    busy = f"; load {load:.0f} on {cores} cores: provision again when it is less busy" if load > 2 * cores else ""
    again = f" and has started again {restarts} times" if restarts not in ("", "0") else ""
    words = of_head("journalctl", "--unit", HEAD, "--no-pager", "--lines", "40", "--output", "cat").splitlines()
    last = [line for line in words if not any(noise in line for noise in NOISE)][-8:]
    return (
        f"{', '.join(missing)}: Ray's head does not answer{again}{busy}; "
        f"look at 'journalctl -u {HEAD}' on the head. Its last words:\n" + "\n".join(last)
    )


def main():
    """Wait."""
    module = AnsibleModule(
        argument_spec={
            "dashboard": {"type": "str", "required": True},
            "token_path": {"type": "path", "required": True, "no_log": False},
            "nodes": {"type": "dict", "required": True},
            "timeout": {"type": "int", "default": 90},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    with open(wanted["token_path"]) as file:
        token = file.read().strip()
    url, until = f"{wanted['dashboard']}/api/v0/nodes?limit=10000", time.monotonic() + wanted["timeout"]
    status, missing = 0, sorted(wanted["nodes"])
    while True:
        status, answer = ask(url, token)
        if status == 200 and answer:
            there = alive(answer)
            missing = sorted(name for name, address in wanted["nodes"].items() if address not in there)
            if not missing:
                break
        if time.monotonic() > until or module.check_mode:
            module.fail_json(msg=f"after {wanted['timeout']} s not in the Ray cluster: {trouble(missing, status)}")
        time.sleep(0.3)
    module.exit_json(changed=False, alive=sorted(wanted["nodes"]), without_token=ask(url)[0])


if __name__ == "__main__":
    main()
