"""Install Debian packages with only apt-get: ansible.builtin.apt would first install python3-apt, which stays."""

import contextlib
import os
import re
import socket
import subprocess
import tempfile
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.installed import look, note

DOCUMENTATION = r"""
module: base_packages
short_description: apt-get install, through a proxy for this call only
options:
  names: {type: list, elements: str, required: true, description: 'Missing ones; a|b: the first there is'}
  proxies: {type: list, elements: str, default: [], description: 'HTTP proxies as seen from here, best first; secret'}
  sources: {type: list, elements: str, default: [], description: Lines of apt's that hold only for this call}
  unstarted: {type: list, elements: str, default: [], description: Units of these packages that must not run}
"""
DROP_INS = "/run/systemd/system"
NOT_IN_BUNDLE = "not in the bundle"
"""What the proxy of bundles answers for a package of which it has no file, though its list."""
NOT_NOW = "# Made by Regatta while the package is installed.\n[Unit]\nConditionPathExists=!/\n"
OPTIONS = ["-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2", "-o", "Acquire::Languages=none"]


def apt_get(words, proxy):
    """(exit code, what it said last that tells something)."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    if proxy:
        env.update(http_proxy=proxy, https_proxy=proxy)
    command = ["apt-get", *OPTIONS, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    lacking = {
        found[1] for line in lines if NOT_IN_BUNDLE in line and (found := re.search(r"/([^/_\s]+)_\S*\.deb", line))
    }
    if lacking:
        return done.returncode, f"{NOT_IN_BUNDLE}: {', '.join(sorted(lacking))}"
    telling = [line for line in lines if line.startswith(("E:", "Err:", "W:"))] or lines[-1:]
    return done.returncode, " / ".join(telling[:4])


@contextlib.contextmanager
def unstarted(units):
    """Packages start their services as they are installed, on all addresses: those of `units` they do not."""
    files = [f"{DROP_INS}/{unit}.d/regatta.conf" for unit in units]
    for path in files:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(NOT_NOW)
    try:
        yield
        if units:
            subprocess.run(["systemctl", "disable", "--quiet", *units], capture_output=True, check=False)
    finally:
        for path in files:
            os.unlink(path)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))
        if files:
            subprocess.run(["systemctl", "daemon-reload"], capture_output=True, check=False)


def answers(proxy):
    """Whether the proxy is there: sshd may forbid forwarding, and this host may have its own way."""
    try:
        parts = urlsplit(proxy)
        socket.create_connection((parts.hostname, parts.port or 80), timeout=5).close()
    except (OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def only_from(sources):
    """apt's options for only these sources, with their own lists, however old these are."""
    if not sources:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="regatta-apt-") as folder:
        os.chmod(folder, 0o755)
        os.makedirs(f"{folder}/lists/partial")
        with open(f"{folder}/sources.list", "w") as file:
            file.writelines(f"{line}\n" for line in sources)
        settings = {
            "Dir::Etc::SourceList": f"{folder}/sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": f"{folder}/lists",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::By-Hash": "no",
        }
        yield [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def chosen(names, options):
    """The names, and of `one|other` the first that the sources have. LookupError names what they have not."""
    found = []
    for name in names:
        among = name.split("|")
        if len(among) > 1:
            command = ["apt-cache", *options, "policy", *among]
            said = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False
            )
            has = set(re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: (?!\(none\))", said.stdout, re.M))
            among = [one for one in among if one in has]
        if not among:
            raise LookupError(f"this host's apt sources have none of {name.replace('|', ', ')}")
        found.append(among[0])
    return found


def main():
    """Install."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "proxies": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "sources": {"type": "list", "elements": "str", "default": []},
            "unstarted": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    names = module.params["names"]
    if module.check_mode:
        module.exit_json(changed=True, msg=f"would install {', '.join(names)}")
    proxy = next(filter(answers, filter(None, module.params["proxies"])), "")
    install = ["install", "--yes", "--no-install-recommends"]
    with only_from(module.params["sources"]) as options:
        code, said = apt_get([*options, "update"], proxy)
        if code == 0:
            try:
                names = chosen(names, options)
            except LookupError as error:
                way = "of Java: install one of these versions yourself, and name it (the variables *_java_home)"
                module.fail_json(msg=f"{error}; {way}")
            before = look()
            with unstarted(module.params["unstarted"]):
                code, said = apt_get([*options, *install, *names], proxy)
            note(before)
    if code and said.startswith(NOT_IN_BUNDLE):
        module.fail_json(msg=f"{said}: make it again for this inventory")
    if code:
        shown = urlsplit(proxy).netloc.rpartition("@")[2]
        way = f"through this machine's proxy {shown}" if proxy else "on its own way (no proxy answered)"
        module.fail_json(msg=f"apt-get could not install {', '.join(names)} {way}: {said}")
    module.exit_json(changed=True, msg=f"installed {', '.join(names)}")


if __name__ == "__main__":
    main()
