"""Javas of a host, and which of them Hadoop runs on."""

import glob
import os
import re
import subprocess

OLDEST, NEWEST = 11, 21
FOLDER = "/usr/lib/jvm"


def version(home):
    """The number that counts (17), or None where it is no Java."""
    try:
        with open(f"{home}/release") as file:
            text = file.read()
    except OSError:
        try:
            done = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        text = done.stdout + done.stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found and os.access(f"{home}/bin/java", os.X_OK) else None


def fits(number):
    """Whether Hadoop runs on a Java of this number."""
    return number is not None and OLDEST <= number <= NEWEST


def installed():
    """[(folder, number)] of all Javas in the usual place, the newest first."""
    found = [(home, number) for home in glob.glob(f"{FOLDER}/*") if (number := version(home))]
    plain = re.compile(r"java-\d+-[^/]*\Z")
    return sorted(found, key=lambda one: (-one[1], not plain.search(one[0]), one[0]))
