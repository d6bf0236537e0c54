"""Wait until Prometheus has reached all of its targets; say which it does not reach. Changes nothing."""

import collections
import json
import time
import urllib.request

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: prometheus_verify
short_description: All targets of Prometheus answer it
options:
  url: {type: str, required: true, description: Where Prometheus is}
  timeout: {type: float, required: true, description: Seconds}
"""


def targets(url):
    """(every target, problem)."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/api/v1/targets?state=active", timeout=5) as answer:
            return json.load(answer)["data"]["activeTargets"], None
    except (OSError, ValueError, KeyError) as error:
        return [], f"Prometheus does not answer at {url}: {error}"


def problems(url):
    """(texts, targets a job)."""
    found, problem = targets(url)
    jobs = collections.Counter(target["labels"]["job"] for target in found)
    bad = [
        f"Prometheus does not reach {t['scrapeUrl']}: {t['lastError'] or 'not asked yet'}"
        for t in found
        if t["health"] != "up"
    ]
    return [problem] if problem else bad, jobs


def main():
    """Ask until all is well, or time is up."""
    module = AnsibleModule(
        argument_spec={"url": {"type": "str", "required": True}, "timeout": {"type": "float", "required": True}},
        supports_check_mode=True,
    )
    end = time.monotonic() + module.params["timeout"]
    while True:
        bad, jobs = problems(module.params["url"])
        if not bad or time.monotonic() > end:
            break
        time.sleep(0.5)
    line = f"Prometheus reaches {', '.join(f'{number} of {job}' for job, number in sorted(jobs.items()))}"
    module.exit_json(changed=False, problems=bad, lines=[] if bad else [line])


if __name__ == "__main__":
    main()
