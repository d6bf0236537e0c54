"""Write a word into the shared folder as runs would, or read those of all nodes."""

import json
import secrets
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: shared_folder_verify
short_description: The folder is the same one on every node
options:
  point: {type: path, required: true, description: Path at which the folder is seen}
  node: {type: str, required: true, description: Name of this node}
  words: {type: dict, default: {}, description: Word of each node that is to be there; none writes this node's}
"""
FOLDER = ".verify"
SECONDS = 40
WELL = "Shared folder: what each node writes, every node reads"
WRITE = """
import os, sys
folder, name, word = sys.argv[1:]
os.makedirs(folder, 0o700, exist_ok=True)
with open(f"{folder}/{name}.new", "w") as file:
    file.write(word)
os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
"""
READ = """
import json, sys
folder, *names = sys.argv[1:]
def read(name):
    try:
        with open(f"{folder}/{name}") as file:
            return file.read()
    except FileNotFoundError:
        return None
print(json.dumps({name: read(name) for name in names}))
"""


def of_run(script, *words):
    """(output, problem or None) of a Python script, as the account of runs."""
    command = ["runuser", "-u", "regatta", "--", "/usr/bin/python3", "-c", script, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd="/", check=False)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {SECONDS} s"
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return done.stdout, said[-1] if done.returncode else None


def main():
    """Write, or read."""
    module = AnsibleModule(
        argument_spec={
            "point": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "words": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    folder, node, words = f"{module.params['point']}/{FOLDER}", module.params["node"], module.params["words"]
    if not words:
        word = secrets.token_hex(8)
        _, problem = of_run(WRITE, folder, node, word)
        module.exit_json(changed=False, word=word, problem=problem)
    said, problem = of_run(READ, folder, *words)
    if problem:
        module.exit_json(changed=False, problems=[f"shared folder: {problem}"])
    found = json.loads(said)
    other = [name for name, word in words.items() if found[name] != word]
    text = f"shared folder: {module.params['point']} is not the folder that {', '.join(other)} has written to"
    module.exit_json(changed=False, problems=[text] if other else [], lines=[WELL])


if __name__ == "__main__":
    main()
