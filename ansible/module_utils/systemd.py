"""Units as the modules that start services see them."""

import subprocess

GOING = ("active", "activating", "reloading")


class UnitError(Exception):
    """systemctl has failed; its words."""


def systemctl(*words):
    """(exit code, output)."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*words):
    """systemctl that has to succeed. Raises UnitError."""
    code, said = systemctl(*words)
    if code:
        raise UnitError(f"systemctl {' '.join(words)} failed; see journalctl on this host: {said}")


def going(unit):
    """Whether a unit runs, or is on its way there."""
    return systemctl("is-active", unit)[1] in GOING


def enabled(unit):
    """Whether a unit is started at boot."""
    return systemctl("is-enabled", "--quiet", unit)[0] == 0
