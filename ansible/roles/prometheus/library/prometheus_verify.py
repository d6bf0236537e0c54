"""Wait until Prometheus looks at all that it is to look at, and reaches it; say what it does not. Changes nothing."""

import json
import time
import urllib.request

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: prometheus_verify
short_description: All targets of Prometheus answer it
notes: ['Saves 3 of 4 round trips and 0.77 of 3.98 s beside stock tasks (docs/results/modules.md).']
options:
  url: {type: str, required: true, description: Where Prometheus is}
  targets: {type: dict, required: true, description: 'Of each job, the addresses that it is to look at'}
  timeout: {type: float, required: true, description: Seconds}
"""

# Whatever proxy this host has, it is not the way to Prometheus.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def active(url):
    """(every target that Prometheus looks at, problem)."""
    try:
        with _OPENER.open(f"{url}/api/v1/targets?state=active", timeout=5) as answer:
            return json.load(answer)["data"]["activeTargets"], None
    except (OSError, ValueError, KeyError) as error:
        return [], f"Prometheus does not answer at {url}: {error}"


def problems(url, targets):
    """What is wrong, as texts. One that has just started answers before it looks at anything."""
    found, problem = active(url)
    if problem:
        return [problem]
    there = {(t["scrapePool"], t["discoveredLabels"]["__address__"]) for t in found}
    missing = [
        f"Prometheus does not look at {address} ({job})"
        for job, addresses in targets.items()
        for address in addresses
        if (job, address) not in there
    ]
    return missing + [
        f"Prometheus does not reach {t['scrapeUrl']}: {t['lastError'] or 'not asked yet'}"
        for t in found
        if t["health"] != "up"
    ]


def main():
    """Ask until all is well, or time is up."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "targets": {"type": "dict", "required": True},
            "timeout": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    targets, end = module.params["targets"], time.monotonic() + module.params["timeout"]
    while (bad := problems(module.params["url"], targets)) and time.monotonic() < end:
        time.sleep(0.5)
    line = f"Prometheus reaches {', '.join(f'{len(held)} of {job}' for job, held in sorted(targets.items()))}"
    module.exit_json(changed=False, problems=bad, lines=[] if bad else [line])


if __name__ == "__main__":
    main()
