"""Install an environment at its final path from a wheelhouse, byte-compile it, describe it and pack it."""

import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.disk import settle as settle_disk
from ansible.module_utils.node_lock import exclusive

DOCUMENTATION = r"""
module: python_env_build
short_description: Build and pack a Python environment on this host, without any network
options:
  root: {type: path, required: true, description: Folder of the environments}
  hash: {type: str, required: true, description: Name of the environment}
  wheels: {type: path, required: true, description: Wheelhouse on this host with its manifest.json}
  archive: {type: path, required: true, description: Path of the packed environment}
"""


class BuildError(Exception):
    """The environment cannot be built."""


def check_wheels(folder):
    """Paths of the wheels, each of which is the one that the controller downloaded."""
    with open(f"{folder}/manifest.json") as file:
        listed = json.load(file)
    for name, expected in listed.items():
        total = hashlib.sha256()
        with open(f"{folder}/{name}", "rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        if total.hexdigest() != expected:
            raise BuildError(f"{name}: SHA-256 differs from the manifest; provision again")
    return [f"{folder}/{name}" for name in sorted(listed)]


def unwrap_uv(folder, work):
    """The uv program out of its wheel: the host needs nothing but Python."""
    wheels = glob.glob(f"{folder}/uv-*.whl")
    if len(wheels) != 1:
        raise BuildError("the wheelhouse has no uv; provision again")
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = [item for item in wheel.namelist() if item.endswith(".data/scripts/uv")]
        with wheel.open(name) as source, open(f"{work}/uv", "wb") as target:
            shutil.copyfileobj(source, target)
    os.chmod(f"{work}/uv", 0o755)
    return f"{work}/uv"


def run(command, **extra):
    """Run a command; BuildError has its last words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **extra)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-6:]
        full = [line for line in words if "No space left" in line or "os error 28" in line]
        if full:
            raise BuildError("no space left on the disk for the environment; free some and provision again")
        raise BuildError(f"{os.path.basename(command[0])} failed; provision again: " + " / ".join(words))


def install(uv, path, wheels, work):
    """uv makes the environment and installs all wheels but itself, offline."""
    env = {"PATH": "/usr/bin:/bin", "HOME": work, "UV_CACHE_DIR": f"{work}/cache", "UV_NO_CONFIG": "1"}
    shutil.rmtree(path, ignore_errors=True)
    run([uv, "venv", "--quiet", "--offline", "--python", "/usr/bin/python3", path], env=env)
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps"]
    wanted = [wheel for wheel in wheels if not os.path.basename(wheel).startswith("uv-")]
    run([*command, "--python", f"{path}/bin/python", *wanted], env=env)
    run([uv, "pip", "check", "--quiet", "--offline", "--python", f"{path}/bin/python"], env=env)


def compile_all(path):
    """Byte code for everything, on all cores; a file that no Python can compile is no reason to stop."""
    command = [f"{path}/bin/python", "-m", "compileall", "-q", "-q", "-j", "0", f"{path}/lib"]
    subprocess.run(command, capture_output=True, check=False)


def describe(path, name):
    """Write `regatta-env.json`, which says that the environment is whole."""
    packages = {}
    for item in glob.glob(f"{path}/lib/python*/site-packages/*.dist-info"):
        package, _, version = os.path.basename(item)[: -len(".dist-info")].partition("-")
        packages[package.lower().replace("_", "-")] = version
    described = {"hash": name, "python": platform.python_version(), "packages": dict(sorted(packages.items()))}
    new = f"{path}/.regatta-env.json"
    with open(new, "w") as file:
        json.dump(described, file, indent=1)
        file.write("\n")
    os.rename(new, f"{path}/regatta-env.json")


def pack(root, path, archive):
    """tar | zstd; returns the SHA-256 of the archive."""
    command = ["tar", "--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
    command += ["--use-compress-program", "zstd -3 -T0", "--file", f"{archive}.new"]
    run([*command, "--directory", root, os.path.basename(path)])
    os.rename(f"{archive}.new", archive)
    total = hashlib.sha256()
    with open(archive, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def build(root, name, wheels, archive):
    """The environment at its final path, and packed; returns the SHA-256 of the archive."""
    path, work = f"{root}/env-{name}", f"{os.path.dirname(archive)}/build"
    try:
        paths = check_wheels(wheels)
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work, 0o700)
        os.umask(0o022)
        install(unwrap_uv(wheels, work), path, paths, work)
        shutil.rmtree(work)
        compile_all(path)
        settle_disk(path)
        describe(path, name)
        return pack(root, path, archive)
    except (BuildError, OSError, ValueError):
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)
        raise


def main():
    """Build."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "hash": {"type": "str", "required": True},
            "wheels": {"type": "path", "required": True},
            "archive": {"type": "path", "required": True},
        }
    )
    wanted = module.params
    try:
        with exclusive(module, wanted["root"]):
            sha256 = build(wanted["root"], wanted["hash"], wanted["wheels"], wanted["archive"])
    except (BuildError, OSError, ValueError) as error:
        module.fail_json(msg=f"cannot build the environment: {error}")
    module.exit_json(changed=True, archive=wanted["archive"], sha256=sha256)


if __name__ == "__main__":
    main()
