"""The nftables table `inet regatta` and the unit that loads it; other rules stay as they are."""

import os
import pwd
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.started import note, stale

DOCUMENTATION = r"""
module: firewall
short_description: Rules that are loaded at once and at each boot
options:
  rules: {type: str, required: true, description: Of nftables; they may use $sshd (its ports) and $accounts (numbers)}
  path: {type: path, required: true, description: Path of the rules}
  unit: {type: str, required: true, description: Text of the unit that loads them}
  accounts: {type: list, elements: str, default: [], description: Names for $accounts, besides root}
  present: {type: list, elements: str, default: [], description: Further ones, of those that this host has}
"""
UNIT = "regatta-firewall.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"


class FirewallError(Exception):
    """The rules cannot be loaded."""


def run(*words):
    """(exit code, output)."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*words):
    """Output of a command that has to succeed."""
    code, said = run(*words)
    if code:
        raise FirewallError(f"'{' '.join(words)}' failed; see 'journalctl -u {UNIT}' there: {said}")
    return said


def sshd_ports():
    """Return where sshd listens by its configuration: whoever came in through it must be able to come in again."""
    code, said = run("/usr/sbin/sshd", "-T")
    found = [line.split()[1] for line in said.splitlines() if line.lower().startswith("port ")] if code == 0 else []
    return {int(port) for port in found} or {22}


def number(account):
    """User id of an account."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        raise FirewallError(f"there is no account '{account}' on this host: correct firewall_accounts") from None


def there(accounts):
    """User ids of those of these accounts that this host has."""
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return {known[account] for account in accounts if account in known}


def rules(wanted):
    """Text of the rules."""
    ports = ", ".join(map(str, sorted(sshd_ports())))
    numbers = ", ".join(map(str, sorted({0, *map(number, wanted["accounts"]), *there(wanted["present"])})))
    return f"define sshd = {{ {ports} }}\ndefine accounts = {{ {numbers} }}\n{wanted['rules']}"


def differs(path, content):
    """Whether a file is to be written."""
    try:
        with open(path) as file:
            return file.read() != content
    except OSError:
        return True


def written(path, content):
    """Whether a file had to be written; it is whole at any time."""
    if not differs(path, content):
        return False
    new = f"{path}.new"
    with open(new, "w") as file:
        file.write(content)
    os.chmod(new, 0o644)
    os.rename(new, path)
    return True


def loaded():
    """Whether the table is there and the unit will load it at the next start."""
    return run("nft", "list", "table", "inet", "regatta")[0] == 0 and run("systemctl", "is-enabled", "-q", UNIT)[0] == 0


def settle(path, files):
    """Write and load them; whether anything had to be done."""
    changes = [written(path, content) for path, content in files.items()]
    if not any(changes) and not stale(UNIT, files) and loaded() and run("systemctl", "is-active", "-q", UNIT)[0] == 0:
        note(UNIT, files)
        return False
    must("nft", "--check", "-f", path)
    must("systemctl", "daemon-reload")
    must("systemctl", "enable", "--quiet", UNIT)
    must("systemctl", "restart", UNIT)
    if not loaded():
        raise FirewallError(f"{UNIT} has not loaded its rules; see 'journalctl -u {UNIT}' there")
    note(UNIT, files)
    return True


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={
            "rules": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "unit": {"type": "str", "required": True},
            "accounts": {"type": "list", "elements": "str", "default": []},
            "present": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        files = {wanted["path"]: rules(wanted), UNIT_FILE: wanted["unit"]}
    except FirewallError as error:
        if module.check_mode:  # what installs the account has not run
            module.exit_json(changed=True)
        module.fail_json(msg=str(error))
    try:
        if module.check_mode:
            module.exit_json(changed=any(differs(*item) for item in files.items()) or stale(UNIT, files))
        module.exit_json(changed=settle(wanted["path"], files))
    except (FirewallError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
