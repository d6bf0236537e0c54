"""Read everything that provisioning wants to know about a host, in one round trip. Changes nothing."""

import glob
import json
import os
import platform
import pwd
import re
import shutil
import subprocess
import time

from ansible.module_utils import java, nvidia
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: preflight_gather
short_description: Facts and obstacles of one host, for the report of the preflight role
options:
  address: {type: str, required: true, description: The private address that the host must have}
  paths: {type: list, elements: str, required: true, description: Folders whose free space matters}
  sent: {type: float, required: true, description: When the controller asked (Unix time)}
  packages: {type: list, elements: str, default: [], description: Debian packages to look for}
  drivers: {type: list, elements: str, default: [], description: "Packages of NVIDIA's driver, for hosts with cards"}
  brought: {type: bool, default: false, description: Whether packages come with us and not from its repositories}
  accounts: {type: list, elements: str, default: [], description: Accounts of services to look for}
  javas: {type: dict, default: {}, description: 'Of variables that name a Java: {home, oldest, newest}'}
  root: {type: str, default: /opt/regatta, description: Folder of the environment}
  state: {type: str, default: /var/lib/regatta, description: Folder in which runs work}
  password: {type: str, default: '', description: Password of sudo}
"""

APT_LISTS = "/var/lib/apt/lists"
ANY_JAVA = r"openjdk-(\d+)-jre-headless"
ADMIN_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
# By release: the first sshfs with the fixes of CVE-2026-47187 and CVE-2026-48711.
SSHFS_FIXED = {("debian", "12"): "3.7.3-1.2~deb12u1"}


def run(*command, given=""):
    """(exit code, output) of a command; 127 where it is not installed. `given` is its standard input."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return 127, ""
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout


def read(path):
    """A small text file; empty where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def os_release():
    """`/etc/os-release` as a dict."""
    with open("/etc/os-release") as file:
        pairs = (line.strip().partition("=") for line in file if "=" in line)
        return {key: value.strip('"') for key, _, value in pairs}


def as_root(password, *command):
    """As `run`, as root; where sudo asks, the password is tried once."""
    if os.geteuid() == 0:
        return run(*command)
    if not password:
        return run("sudo", "-n", *command)
    return run("sudo", "-S", "-p", "", *command, given=f"{password}\n")


def sudo_works(password):
    """Whether this user is root or becomes it, with the password where there is one."""
    return as_root(password, "true")[0] == 0


def gpu_files(gpus):
    """The files of the cards, in order; after a boot nvidia-smi makes them when it is first used."""
    there = sorted(glob.glob("/dev/nvidia[0-9]*"), key=lambda path: (len(path), path))
    made = gpus["module"] and shutil.which("nvidia-smi")
    return there or ([f"/dev/nvidia{number}" for number in range(len(gpus["cards"]))] if made else [])


def listeners(root, password):
    """TCP ports in use: [{port, process, unit}]; process and unit are empty where we may not see them."""
    words = ("ss", "-H", "-ltnp")
    found = []
    for line in (as_root(password, *words) if root else run(*words))[1].splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        who = re.search(r'\("([^"]+)",pid=(\d+)', line)
        found.append(
            {
                "port": int(fields[3].rpartition(":")[2]),
                "process": who.group(1) if who else "",
                "unit": unit_of(who.group(2)) if who else "",
            }
        )
    return found


def sshd_ports(ports, root, password):
    """Return where sshd listens; where systemd listens for it (ssh.socket of Ubuntu), where its configuration says."""
    found = {entry["port"] for entry in ports if entry["process"] == "sshd"}
    if not found and root:
        said = as_root(password, "/usr/sbin/sshd", "-T")[1]
        named = {int(number) for number in re.findall(r"^port (\d+)$", said, re.MULTILINE)}
        found = named & {entry["port"] for entry in ports}
    return sorted(found)


def unit_of(pid):
    """The systemd unit that a process belongs to."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            units = re.findall(r"([^/\n]+\.(?:service|scope))", file.read())
    except OSError:
        return ""
    return units[-1] if units else ""


def disk(path):
    """Free bytes at a path that may not exist yet, and which filesystem that is."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    info = os.statvfs(path)
    return {"free": info.f_bavail * info.f_frsize, "device": os.stat(path).st_dev}


def interface_of(address):
    """The interface that holds an address, and all addresses of the host."""
    try:
        links = json.loads(run("ip", "-j", "address")[1] or "[]")
    except ValueError:
        links = []
    held = {info["local"]: link["ifname"] for link in links for info in link["addr_info"] if "local" in info}
    return held.get(address, ""), sorted(a for a in held if not a.startswith(("127.", "::1", "fe80")))


def one_machine():
    """What no two machines have alike; '' where that is not known. Clones of a disk differ in the boot, containers on
    one kernel in the others."""
    parts = read("/etc/machine-id").strip(), read("/proc/sys/kernel/random/boot_id").strip(), platform.node()
    return " ".join(parts) if all(parts) else ""


def memory():
    """Bytes of memory."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal:"))


def missing_packages(names):
    """Those of the packages that are not installed; of `one|other`, either does, and of Java one of another origin."""
    if not names:
        return []
    single = [one for name in names for one in name.split("|")]
    listed = run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *single)[1]
    there = {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}
    javas = [number for _, number in java.installed()]
    return [name for name in names if not there & set(name.split("|")) and not other_java(name, javas)]


def unobtainable(missing, lists=APT_LISTS):
    """Those of missing packages `one|other` that no repository of this host has, where apt has lists of them."""
    found = []
    for name in missing:
        if "|" not in name or not glob.glob(f"{lists}/*_Packages*"):
            continue
        said = run("env", "LC_ALL=C", "apt-cache", "policy", *name.split("|"))[1]
        if not re.search(r"^  Candidate: (?!\(none\))", said, re.M):
            found.append(name)
    return found


def driver(names, gpus, brought=False):
    """(missing packages of NVIDIA's driver, its version: of what is there, or else of what apt would install).

    The version is '' where apt has none, and None where none is to be installed: without a card, or where a driver
    of another origin is loaded. What apt would install does not count where packages are `brought`.
    """
    if not names or not gpus["cards"]:
        return [], None
    missing = missing_packages(names)
    if gpus["module"] and names[0] in missing:
        return [], None
    said = [run("env", "LC_ALL=C", "apt-cache", "policy", name)[1] for name in names[0].split("|")]
    found = [
        match[1]
        for what in ("Installed", *([] if brought else ["Candidate"]))
        for policy in said
        if (match := re.search(rf"^  {what}: (?:\d+:)?(\d+(?:\.\d+)+)", policy, re.M))
    ]
    return missing, next(iter(found), "")


def old_sshfs(packages, release):
    """Version of an sshfs without the fixes of 2026 that is there, or that apt would install; '' where it has them.

    One that is there tells by its options. Of one that is not, only the version is known, and which one has the fixes
    on few systems: elsewhere the next preflight tells.
    """
    if "sshfs" not in packages:
        return ""
    code, version = run("dpkg-query", "--show", "--showformat=${Version}", "sshfs")
    if code == 0 and version:
        return "" if "contain_symlinks" in run("sh", "-c", "sshfs --help 2>&1")[1] else version
    fixed = SSHFS_FIXED.get((release.get("ID"), release.get("VERSION_ID")))
    offered = re.search(r"^  Candidate: (\S+)", run("env", "LC_ALL=C", "apt-cache", "policy", "sshfs")[1], re.M)
    if not fixed or not offered or offered[1] == "(none)":
        return ""
    return offered[1] if run("dpkg", "--compare-versions", offered[1], "lt", fixed)[0] == 0 else ""


def other_java(name, javas):
    """Whether a Java is there that is none of the packages `one|other` and is between the oldest and the newest."""
    wanted = [int(found.group(1)) for one in name.split("|") if (found := re.fullmatch(ANY_JAVA, one))]
    return "|" in name and bool(wanted) and any(min(wanted) <= number <= max(wanted) for number in javas)


def wrong_javas(wanted):
    """{variable: what is there} of the Javas that variables name, where they are none of the right version."""
    found = {}
    for variable, one in wanted.items():
        number = java.version(one["home"])
        if number is None or not int(one["oldest"]) <= number <= int(one["newest"]):
            there = f"Java {number}" if number else "no Java"
            found[variable] = f"{there} in {one['home']}, and Java {one['oldest']} to {one['newest']} is needed"
    return found


def container():
    """Name of the container technology, empty on a host that is no container (virtual or not)."""
    code, name = run("systemd-detect-virt", "--container")
    return name.strip() if code == 0 else ""


def time_service():
    """The running service that keeps the clock right, or empty."""
    for name in ("chrony", "chronyd", "systemd-timesyncd", "ntpsec", "ntp", "openntpd"):
        if run("systemctl", "is-active", "--quiet", name)[0] == 0:
            return name
    return ""


def own_firewall(password):
    """The firewall of the user's that is active, and from where it accepts everything: {name, lets_in}."""
    listed = as_root(password, "ufw", "status")[1] if shutil.which("ufw", path=ADMIN_PATH) else ""
    if listed.startswith("Status: active"):
        allowed = re.findall(r"^Anywhere(?: \(v6\))?\s+ALLOW(?: IN)?\s+(\S+)", listed, re.MULTILINE)
        return {"name": "ufw", "lets_in": ["0.0.0.0/0" if source == "Anywhere" else source for source in allowed]}
    if as_root(password, "firewall-cmd", "--state")[0] == 0:
        return {
            "name": "firewalld",
            "lets_in": as_root(password, "firewall-cmd", "--zone=trusted", "--list-sources")[1].split(),
        }
    return {"name": "", "lets_in": []}


def host_keys():
    """Public host keys as `type key`."""
    keys = []
    for path in sorted(glob.glob("/etc/ssh/ssh_host_*_key.pub")):
        with open(path) as file:
            keys.append(" ".join(file.read().split()[:2]))
    return keys


def has_user(name):
    """Whether an account exists."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def has_shell(name):
    """Whether an account exists that may log in."""
    return has_user(name) and not pwd.getpwnam(name).pw_shell.endswith("nologin")


def layout():
    """Number of the layout that provisioning has left here, 1 from before it had one, 0 without any."""
    try:
        return int(json.loads(read("/etc/regatta/node.json") or "{}")["layout"])
    except (KeyError, TypeError, ValueError):
        return int(os.path.exists("/etc/regatta/node.json"))


def roots(path):
    """Whether a folder is root's, or not there."""
    try:
        return os.lstat(path).st_uid == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False


def main():
    """Answer with the facts."""
    module = AnsibleModule(
        argument_spec={
            "address": {"type": "str", "required": True},
            "paths": {"type": "list", "elements": "str", "required": True},
            "sent": {"type": "float", "required": True},
            "packages": {"type": "list", "elements": "str", "default": []},
            "drivers": {"type": "list", "elements": "str", "default": []},
            "javas": {"type": "dict", "default": {}},
            "accounts": {"type": "list", "elements": "str", "default": []},
            "brought": {"type": "bool", "default": False},
            "root": {"type": "str", "default": "/opt/regatta"},
            "state": {"type": "str", "default": "/var/lib/regatta"},
            "password": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    clock = time.time()
    password = wanted["password"]
    release, root = os_release(), sudo_works(password)
    interface, addresses = interface_of(wanted["address"])
    ports = listeners(root, password)
    gpus = nvidia.look()
    missing = missing_packages(wanted["packages"])
    drivers, offered = driver(wanted["drivers"], gpus, wanted["brought"])
    sshd = sshd_ports(ports, root, password)
    module.exit_json(
        changed=False,
        clock=clock,
        sent=wanted["sent"],
        address=wanted["address"],
        os={
            "id": release.get("ID", ""),
            "version": release.get("VERSION_ID", ""),
            "name": release.get("PRETTY_NAME", ""),
        },
        python=platform.python_version(),
        machine=platform.machine(),
        one_machine=one_machine(),
        glibc=platform.libc_ver()[1] or os.confstr("CS_GNU_LIBC_VERSION").split()[-1],
        sudo=root,
        password_given=bool(password),
        user=pwd.getpwuid(os.getuid()).pw_name,
        systemd=os.path.isdir("/run/systemd/system"),
        container=container(),
        cores=len(os.sched_getaffinity(0)),
        memory=memory(),
        shm=os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize if os.path.isdir("/dev/shm") else 0,
        disks={path: disk(path) for path in wanted["paths"]},
        interface=interface,
        addresses=addresses,
        listeners=ports,
        ssh_port=22 if 22 in sshd or not sshd else sshd[0],
        host_keys=host_keys(),
        own_firewall=own_firewall(password) if root else {"name": "", "lets_in": []},
        hostname=platform.node(),
        hosts_file=read("/etc/hosts"),
        missing_packages=missing + drivers,
        unobtainable=[] if wanted["brought"] else unobtainable(missing),
        old_sshfs=old_sshfs(wanted["packages"], release),
        wrong_javas=wrong_javas(wanted["javas"]),
        apt=bool(shutil.which("apt-get")),
        nvidia={**gpus, "offered": offered},
        gpu_files=gpu_files(gpus),
        time_service=time_service(),
        fuse=os.path.exists("/dev/fuse") or run("modprobe", "--dry-run", "--quiet", "fuse")[0] == 0,
        has_user=has_user("regatta"),
        user_has_shell=has_shell("regatta"),
        has_relay_user=has_user("regatta-relay"),
        missing_accounts=[name for name in wanted["accounts"] if not has_user(name)],
        units=sorted(os.path.basename(path) for path in glob.glob("/etc/systemd/system/regatta-*.service")),
        configuration=sorted(glob.glob("/etc/regatta/*") + glob.glob("/etc/regatta/*/*")),
        layout=layout(),
        state_is_roots=roots(wanted["state"]),
        has_config=os.path.isdir("/etc/regatta"),
        has_environment=os.path.exists(os.path.join(wanted["root"], "env", "regatta-env.json")),
    )


if __name__ == "__main__":
    main()
