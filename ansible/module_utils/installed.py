"""Which Debian packages provisioning has installed on this host, and which accounts came with them."""

import json
import os
import pwd
import subprocess

RECORD = "/etc/regatta/installed.json"


def packages():
    """Names of all packages that are installed."""
    command = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}


def accounts():
    """{account: its home}."""
    return {entry.pw_name: entry.pw_dir for entry in pwd.getpwall()}


def recorded():
    """{"packages": [names], "accounts": {name: home}} of all that was installed so far."""
    try:
        with open(RECORD) as file:
            return json.load(file)
    except FileNotFoundError:
        return {"packages": [], "accounts": {}}


def look():
    """Return what there is before something is installed; for `note`."""
    there = accounts()
    return packages(), there, {home for home in there.values() if os.path.isdir(home)}


def note(before, homes_below="/var/lib/"):
    """Add to the record what has come since `before`; homes that are new and below a folder for such go with it."""
    found, (old, names, _) = recorded(), before
    came = packages() - old
    for name, home in accounts().items():
        if name not in names:
            own = os.path.normpath(home).startswith(homes_below) and home not in names.values()
            found["accounts"][name] = home if own else ""
    found["packages"] = sorted(set(found["packages"]) | came)
    os.makedirs(os.path.dirname(RECORD), 0o755, exist_ok=True)
    with open(f"{RECORD}.new", "w") as file:
        json.dump(found, file)
    os.chmod(f"{RECORD}.new", 0o644)
    os.rename(f"{RECORD}.new", RECORD)
