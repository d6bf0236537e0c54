"""The nftables table `inet regatta` and the unit that loads it; rules of others stay as they are."""

import os
import pwd
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.started import note, stale

DOCUMENTATION = r"""
module: firewall
short_description: Let members of the cluster in, and everybody to some TCP ports
options:
  members: {type: list, elements: str, required: true, description: IPv4 addresses of the cluster's hosts}
  ports: {type: list, elements: int, required: true, description: Open to everybody, beside those of sshd}
  services: {type: list, elements: str, default: [], description: Ports of members that only some accounts may speak to}
  accounts: {type: list, elements: str, default: [], description: These accounts}
"""
RULES = "/etc/regatta/firewall.nft"
UNIT = "regatta-firewall.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
RULES_TEXT = """\
# Made by Regatta (ansible/roles/firewall).
add table inet regatta
delete table inet regatta
table inet regatta {{
    chain input {{
        type filter hook input priority filter - 5; policy accept;
        iif lo accept
        ct state established,related accept
        ip saddr {{ {members} }} accept
        tcp dport {{ {ports} }} accept
        meta l4proto {{ icmp, icmpv6 }} accept
        udp sport {{ 67, 547 }} udp dport {{ 68, 546 }} accept
        drop
    }}
{output}}}
"""
OUTPUT_TEXT = """\
    # Services believe what a client says it is: only accounts that are meant to speak to them may open connections.
    chain output {{
        type filter hook output priority filter - 5; policy accept;
        ct state established,related accept
        meta skuid {{ {users} }} accept
        ip daddr {{ {members} }} tcp dport {{ {services} }} reject with tcp reset
        oif lo tcp dport {{ {services} }} reject with tcp reset
    }}
"""
UNIT_TEXT = f"""\
# Made by Regatta (ansible/roles/firewall). Before the network is up, and again when nftables.service empties the rules.
[Unit]
Description=Regatta: strangers reach SSH alone
DefaultDependencies=no
After=local-fs.target nftables.service ufw.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service
# A busy host may fail to make its namespace in early boot: without rules it must not stay (Ray and HDFS wait for them).
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
Restart=on-failure
RestartSec=1s
ExecStart=/usr/sbin/nft -f {RULES}
ExecReload=/usr/sbin/nft -f {RULES}
ExecStop=/usr/sbin/nft delete table inet regatta
CapabilityBoundingSet=CAP_NET_ADMIN
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
PrivateDevices=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_NETLINK AF_UNIX
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=sysinit.target
"""


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
        raise FirewallError(f"{' '.join(words)}: {said}")
    return said


def sshd_ports():
    """Where sshd listens by its configuration: whoever came in through it must be able to come in again."""
    code, said = run("/usr/sbin/sshd", "-T")
    found = [line.split()[1] for line in said.splitlines() if line.lower().startswith("port ")] if code == 0 else []
    return {int(port) for port in found} or {22}


def number(account):
    """User id of an account."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        raise FirewallError(f"there is no account '{account}' on this host (firewall_accounts)") from None


def rules(wanted):
    """Text of the rules."""
    ports = sorted({*wanted["ports"], *sshd_ports()})
    members, output = ", ".join(wanted["members"]), ""
    if wanted["services"]:
        users = ", ".join(map(str, sorted({0, *map(number, wanted["accounts"])})))
        output = OUTPUT_TEXT.format(members=members, users=users, services=", ".join(wanted["services"]))
    return RULES_TEXT.format(members=members, ports=", ".join(map(str, ports)), output=output)


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


def settle(files):
    """Write and load them; whether anything had to be done."""
    changes = [written(path, content) for path, content in files.items()]
    if not any(changes) and not stale(UNIT, files) and loaded() and run("systemctl", "is-active", "-q", UNIT)[0] == 0:
        note(UNIT, files)
        return False
    must("nft", "--check", "-f", RULES)
    must("systemctl", "daemon-reload")
    must("systemctl", "enable", "--quiet", UNIT)
    must("systemctl", "restart", UNIT)
    if not loaded():
        raise FirewallError(f"{UNIT} has not loaded its rules")
    note(UNIT, files)
    return True


def main():
    """Make it so."""
    module = AnsibleModule(
        argument_spec={
            "members": {"type": "list", "elements": "str", "required": True},
            "ports": {"type": "list", "elements": "int", "required": True},
            "services": {"type": "list", "elements": "str", "default": []},
            "accounts": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        files = {RULES: rules(module.params), UNIT_FILE: UNIT_TEXT}
    except FirewallError as error:
        if module.check_mode:  # what installs the account has not run
            module.exit_json(changed=True)
        module.fail_json(msg=str(error))
    try:
        if module.check_mode:
            module.exit_json(changed=any(differs(*item) for item in files.items()) or stale(UNIT, files))
        module.exit_json(changed=settle(files))
    except (FirewallError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
