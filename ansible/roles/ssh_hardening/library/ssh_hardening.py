"""sshd's settings in a file of Regatta's, removed again unless the controller confirms that login still works."""

import os
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: ssh_hardening
short_description: Settings of sshd, on trial until they are confirmed
options:
  content: {type: str, required: true, description: The file; empty removes it}
  confirm: {type: bool, default: false, description: Keep what is on trial}
"""
PATH = "/etc/ssh/sshd_config.d/00-regatta.conf"
BEFORE = "/etc/ssh/.regatta-before"
TRIAL = "regatta-ssh-trial"
TRIAL_SECONDS = 120
LAST_COUNTS = {"MaxStartups"}
"""Of several values sshd takes the last, which may be the host's own."""
RELOAD = ["systemctl", "try-reload-or-restart", "ssh.service"]
BACK = f"if [ -s {BEFORE} ]; then cp {BEFORE} {PATH}; else rm -f {PATH}; fi; rm -f {BEFORE}; {' '.join(RELOAD)}"


class SshError(Exception):
    """sshd does not take the settings."""


def run(*words):
    """(exit code, output)."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


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
    new = f"{os.path.dirname(path)}/.{os.path.basename(path)}.new"
    with open(new, "w") as file:
        file.write(content)
    os.chmod(new, 0o644)
    os.rename(new, path)


def on_trial():
    """Whether settings wait for being confirmed."""
    return run("systemctl", "is-active", "--quiet", f"{TRIAL}.timer")[0] == 0


def end_trial():
    """Return what is there stays."""
    run("systemctl", "stop", f"{TRIAL}.timer")
    put(BEFORE, "")


def unlike(content):
    """Names whose value sshd has from elsewhere: its own file says them first, or does not read ours."""
    settings = dict(line.split(None, 1) for line in content.splitlines() if not line.startswith("#"))
    code, said = run("/usr/sbin/sshd", "-T")
    if code:
        raise SshError(f"'sshd -T' fails; correct /etc/ssh/sshd_config: {said}")
    has = dict(line.lower().split(None, 1) for line in said.splitlines() if " " in line)
    wanted = {name: value.lower() for name, value in settings.items() if name not in LAST_COUNTS}
    return [name for name, value in wanted.items() if has.get(name.lower(), value) != value]


def take_back(before):
    """The file is as it was before the trial, and the trial over."""
    put(PATH, before)
    run(*RELOAD)
    end_trial()


def begin_trial(content):
    """Let sshd try them; raises SshError, and all is as before, where it does not take them.

    Whenever this is stopped, either the file is the old one or the timer runs that brings it back.
    """
    if on_trial():
        take_back(read(BEFORE))
    before = read(PATH)
    put(BEFORE, before)
    timer = ["systemd-run", "--quiet", f"--unit={TRIAL}", f"--on-active={TRIAL_SECONDS}", "/bin/sh", "-c", BACK]
    code, said = run(*timer)
    if code:
        put(BEFORE, "")
        raise SshError(f"systemd-run failed, and nothing was changed; see journalctl on this host: {said}")
    os.makedirs(os.path.dirname(PATH), exist_ok=True)
    put(PATH, content)
    try:
        must_take(content)
    except SshError:
        put(PATH, before)
        end_trial()
        raise
    code, said = run(*RELOAD)
    if code:
        raise SshError(f"{' '.join(RELOAD)}: {said}; the old settings come back within {TRIAL_SECONDS} s")


def must_take(content):
    """Raise SshError where sshd does not take the file, or has other values from elsewhere."""
    code, said = run("/usr/sbin/sshd", "-t")
    if code:
        raise SshError(f"sshd does not take them; change ssh_hardening_settings: {said}")
    if wrong := unlike(content):
        raise SshError(
            f"sshd has another {', '.join(wrong)}: its /etc/ssh/sshd_config must begin with "
            "'Include /etc/ssh/sshd_config.d/*.conf', or set ssh_hardening_enabled: false"
        )


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={"content": {"type": "str", "required": True}, "confirm": {"type": "bool", "default": False}},
        supports_check_mode=True,
    )
    content = module.params["content"]
    try:
        if module.params["confirm"]:
            changed = on_trial()
            if not module.check_mode:
                end_trial()
        else:
            changed = read(PATH) != content or on_trial()
            if changed and not module.check_mode:
                begin_trial(content)
    except (SshError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
