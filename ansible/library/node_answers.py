"""Wait until every URL of this host answers. Changes nothing."""

import time
import urllib.request

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_answers
short_description: Wait until URLs of this host answer with 200
options:
  urls: {type: list, elements: str, required: true, description: URLs to ask}
  timeout: {type: float, required: true, description: Seconds, for all of them together}
"""


def problem(url):
    """Why it does not answer, or None."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5):
            return None
    except (OSError, ValueError) as error:
        return f"{url}: {error}"


def main():
    """Ask until they do."""
    module = AnsibleModule(
        argument_spec={
            "urls": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "float", "required": True},
        }
    )
    end = time.monotonic() + module.params["timeout"]
    for url in module.params["urls"]:
        while said := problem(url):
            if time.monotonic() > end:
                module.fail_json(msg=f"no answer after {module.params['timeout']:g} s: {said}; see journalctl")
            time.sleep(0.2)
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
