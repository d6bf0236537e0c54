"""What sshd lets the account of runs do, in a file of our own: in effect, or sshd is as it was."""

import os
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ssh_mesh_sshd
short_description: Confine the account of runs in sshd, and prove that it is
notes: ['Does what no stock module does: asks sshd itself whether the settings hold, and puts the old ones back.']
options:
  content: {type: str, required: true, description: The file; empty removes it}
  folder: {type: path, required: true, description: Folder that sftp sees as its root}
"""
PATH = "/etc/ssh/sshd_config.d/01-regatta-runs.conf"
LOADED = "/etc/regatta/started/sshd-runs"
RELOAD = ["systemctl", "try-reload-or-restart", "ssh.service"]
INCLUDE = "its /etc/ssh/sshd_config must begin with 'Include /etc/ssh/sshd_config.d/*.conf'"


class SshError(Exception):
    """sshd does not take the settings."""


def run(*words):
    """Output of a command that has to succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise SshError(f"{' '.join(words[:2])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def read(path):
    """A file's text; empty where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def put(path, content):
    """Write a file in one step; without content, remove it."""
    if not content:
        if os.path.exists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def prove(content, folder):
    """Raise SshError where sshd does not do as the file says."""
    run("/usr/sbin/sshd", "-t")
    said = run("/usr/sbin/sshd", "-T", "-C", "user=regatta,host=localhost,addr=127.0.0.1").lower().splitlines()
    if content and ("forcecommand internal-sftp" not in said or f"chrootdirectory {folder}".lower() not in said):
        raise SshError(f"sshd does not confine the account regatta: {INCLUDE}")
    if content and not any(line.startswith("subsystem sftp ") for line in said):
        raise SshError("sshd offers no sftp: /etc/ssh/sshd_config needs the line 'Subsystem sftp internal-sftp'")


def change(content, folder):
    """Put it in effect; where sshd refuses it all is as before."""
    before = read(PATH)
    put(LOADED, "")
    put(PATH, content)
    try:
        prove(content, folder)
    except SshError:
        put(PATH, before)
        raise
    run(*RELOAD)
    put(LOADED, content)


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={"content": {"type": "str", "required": True}, "folder": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    content = module.params["content"]
    changed = read(PATH) != content or read(LOADED) != content
    try:
        if changed and not module.check_mode:
            change(content, module.params["folder"])
    except (SshError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
