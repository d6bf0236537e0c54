"""Wait until the head's API says that every node is alive. Asks with the token of this host; changes nothing."""

import json
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


def last_words():
    """The end of the head's journal, for the message."""
    command = ["journalctl", "--unit", "regatta-ray-head", "--no-pager", "--lines", "8", "--output", "cat"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


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
            said = f"the head's API answered {status}" if status else "the head's API does not answer"
            module.fail_json(
                msg=f"after {wanted['timeout']} s not in the Ray cluster: {', '.join(missing)} ({said}); "
                f"look at 'journalctl -u regatta-ray-worker' there. The head's last words:\n{last_words()}"
            )
        time.sleep(0.3)
    module.exit_json(changed=False, alive=sorted(wanted["nodes"]), without_token=ask(url)[0])


if __name__ == "__main__":
    main()
