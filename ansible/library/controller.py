"""A step on the controller (`python -m regatta.provisioning`): its JSON is the result, its message the failure."""

import json
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: controller
short_description: Run a step of regatta.provisioning where Ansible runs
options:
  python: {type: path, required: true, description: Python that has regatta, ansible_playbook_python}
  step: {type: list, elements: str, required: true, description: Name of the step and its arguments}
  input: {type: json, description: What the step finds on its standard input}
  reads_only: {type: bool, default: false, description: Whether it changes nothing and runs in check mode as well}
"""


def main():
    """Run it."""
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "step": {"type": "list", "elements": "str", "required": True},
            "input": {"type": "json"},
            "reads_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if module.check_mode and not wanted["reads_only"]:
        module.exit_json(changed=True)
    command = [wanted["python"], "-m", "regatta.provisioning", *wanted["step"]]
    done = subprocess.run(command, capture_output=True, text=True, input=wanted["input"] or "", check=False)
    if done.returncode:
        module.fail_json(msg=done.stderr.strip() or f"{wanted['step'][0]} failed with exit code {done.returncode}")
    result = json.loads(done.stdout)
    for line in result.pop("warnings", []):
        module.warn(line)
    module.exit_json(**{"changed": False, **result})


if __name__ == "__main__":
    main()
