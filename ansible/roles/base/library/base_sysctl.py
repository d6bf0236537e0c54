"""Load a file of kernel settings where the kernel runs with others, however long ago the file was written."""

import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: base_sysctl
short_description: Kernel settings of a file, in effect
options:
  path: {type: path, required: true, description: The file, as sysctl reads it}
  settings: {type: dict, required: true, description: What is in it}
"""
KERNEL = "/proc/sys"


def differing(settings):
    """Names of the settings that the kernel has not; those that it does not know do not count."""
    found = []
    for name, value in settings.items():
        try:
            with open(f"{KERNEL}/{name.replace('.', '/')}") as file:
                if file.read().split() != str(value).split():
                    found.append(name)
        except OSError:
            pass
    return found


def main():
    """Load it where it is needed."""
    kinds = {"path": "path", "settings": "dict"}
    module = AnsibleModule(
        argument_spec={name: {"type": kind, "required": True} for name, kind in kinds.items()}, supports_check_mode=True
    )
    found = differing(module.params["settings"])
    if found and not module.check_mode:
        command = ["sysctl", "--load", module.params["path"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            module.fail_json(msg=f"{' '.join(command)}: {done.stderr.strip()}")
    module.exit_json(changed=bool(found), loaded=found)


if __name__ == "__main__":
    main()
