"""The page as a PDF, printed by a browser that is here."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from regatta.errors import RecordError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_SECONDS = 180.0
_DRAWING_MS = 60_000
"""Milliseconds of the page's own clock in which its charts are drawn; it runs ahead where nothing is to be done."""


def browser() -> str | None:
    """The path of a browser that is here and prints; None: there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def write(page: Path, target: Path) -> None:
    """Print all parts of a page into `target`. RecordError without a browser, or where that fails."""
    found = browser()
    if found is None:
        raise RecordError(
            f"no browser is here that prints a PDF ({', '.join(BROWSERS[:3])}): install one ('apt-get install "
            f"chromium'), or open {page} and print it"
        )
    with tempfile.TemporaryDirectory() as profile:
        command = [found, "--headless", f"--user-data-dir={profile}", "--no-pdf-header-footer"]
        command += [f"--virtual-time-budget={_DRAWING_MS}", f"--print-to-pdf={target.resolve()}"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # as root a browser refuses its own
        command.append(f"{page.resolve().as_uri()}#print")
        target.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise RecordError(f"{found} printed nothing within {_SECONDS:g} s: open {page} and print it") from None
    if not target.is_file():
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RecordError(f"{found} printed no {target}: {last}. Open {page} and print it")
