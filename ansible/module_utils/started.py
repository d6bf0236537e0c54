"""The files that units were last started with, kept on the disk: a provisioning that was stopped between files and
start is made good by the next one.
"""

import hashlib
import os

from ansible.module_utils.systemd import systemctl

FOLDER = "/etc/regatta/started"


def digest(files):
    """One hash of the contents of all files; one that is missing counts as such."""
    total = hashlib.sha256()
    for path in files:
        try:
            with open(path, "rb") as file:
                total.update(hashlib.sha256(file.read()).digest())
        except FileNotFoundError:
            total.update(b"-")
    return total.hexdigest() + "\n"


def stale(unit, files):
    """Whether a unit runs with other files than those that are there.

    Where nothing is kept about it (an earlier Regatta started it), a unit that was started after all files were
    written runs with these.
    """
    try:
        with open(os.path.join(FOLDER, unit)) as file:
            return file.read() != digest(files)
    except FileNotFoundError:
        return not _younger(unit, files)


def note(unit, files):
    """Keep what a unit has been started with."""
    os.makedirs(FOLDER, 0o755, exist_ok=True)
    path = os.path.join(FOLDER, unit)
    text = digest(files)
    try:
        with open(path) as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.chmod(f"{path}.new", 0o644)
    os.rename(f"{path}.new", path)


def _younger(unit, files):
    shown = systemctl("show", "--timestamp=unix", "--property=ExecMainStartTimestamp", "--value", unit)[1]
    if not (shown.startswith("@") and shown[1:].isdigit() and all(os.path.exists(path) for path in files)):
        return False
    return int(shown[1:]) > max(os.stat(path).st_mtime for path in files)
