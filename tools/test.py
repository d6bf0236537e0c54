"""`tools/test.py first|rest|whole [--only PART]`: the parts of a tier of tests, two at a time, with what they cost.

`first` is `make test`, `rest` is `make test-lab`, `whole` is `make test-whole`. It prints what is running and how long
that took last time; at the end a line a part, the slowest tests, and what was left out and why. Lab tests need root and
systemd-nspawn: where they cannot run they are named and left out, but fail where CI is set.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

PROJECT = Path(__file__).resolve().parent.parent
CONTROLLER, NODE = ".venv/bin/python", ".venv-node/bin/python"
IMPORTS = f"{PROJECT}{os.pathsep}{PROJECT / 'tests'}"
"""Where programs of tests/lab find what they import, beside their own folder."""
EVERY = 20.0
"""Seconds between two progress lines."""
PATIENCE = 180.0
"""Seconds for a part that was interrupted to remove what it has made."""
PARTS = ("lint", "unit", "local", "lab")
AT_ONCE = 2
"""Parts that run side by side: they keep two cores busy."""


@dataclass
class Suite:
    """Something to run."""

    name: str
    command: Sequence[str]
    refused: str = ""
    log: IO[bytes] | None = None
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    seconds: float = 0.0
    told: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def times(self) -> Path:
        """The file in which the part leaves how long its tests took."""
        return self.folder / f"{self.name.replace(' ', '-')}.json"

    @property
    def now(self) -> str:
        """The test that runs now."""
        with contextlib.suppress(OSError):
            return f" ({self.times.with_suffix('.now').read_text()})"
        return ""

    @property
    def good(self) -> bool:
        """Whether it ended well; that no test was there (5) is no failure where tests were chosen by name."""
        fine = (0, 5) if os.environ.get("PYTEST_ADDOPTS") else (0,)
        return self.process is not None and self.process.returncode in fine


def pytest(python: str, *words: str) -> list[str]:
    """The command that runs pytest with these arguments, by the Python that is named."""
    return [python, "-m", "pytest", "-q", *words]


def spread() -> list[str]:
    """Words that share tests among processes: this part's share of the cores. Two are kept busy without."""
    share = (os.cpu_count() or 1) // AT_ONCE
    return ["-n", str(share), "--dist", "loadfile"] if share > 1 else []


def unit_controller(which: str) -> list[str]:
    """The command that runs the controller's unit tests of these marks."""
    return pytest(CONTROLLER, "tests/unit", "--ignore", "tests/unit/workloads", "-m", which, *spread())


def chosen(tier: str, only: str | None) -> list[Suite]:
    """The parts of a tier as they begin; `only` names one, of the tier or, where that has none, of `rest`."""
    first = [
        Suite("lint", ["tools/lint.sh"]),
        Suite("lab", pytest(CONTROLLER, "tests/lab", "-m", "first and not whole")),
        Suite("unit controller", unit_controller("not whole")),
        Suite("unit workloads", pytest(NODE, "tests/unit/workloads", "-m", "not frameworks and not whole")),
    ]
    rest = [
        Suite("local", pytest(CONTROLLER, "tests/local", "-m", "not whole")),
        Suite("lab", pytest(CONTROLLER, "tests/lab", "-m", "not first and not whole")),
        Suite("unit workloads", pytest(NODE, "tests/unit/workloads", "-m", "frameworks and not whole")),
    ]
    whole = [
        Suite("unit controller", unit_controller("whole")),
        Suite("unit workloads", pytest(NODE, "tests/unit/workloads", "-m", "whole")),
        Suite("local", pytest(CONTROLLER, "tests/local", "-m", "whole")),
        Suite("lab", pytest(CONTROLLER, "tests/lab", "-m", "whole or provisioning", "--ignore", "tests/lab/faults")),
    ]
    parts = {"first": first, "rest": rest, "whole": whole}[tier]

    def named(parts: Sequence[Suite]) -> list[Suite]:
        return [part for part in parts if only in (None, part.name.split()[0])]

    return named(parts) or named(rest)


def lab_lacks() -> str:
    """Why no lab can run here; empty where one can."""
    done = subprocess.run([CONTROLLER, "-m", "lab", "check"], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def refuse(parts: Sequence[Suite]) -> None:
    """Mark lab tests that cannot run here."""
    for part in parts:
        if part.name == "lab":
            part.refused = lab_lacks()


def cache() -> Path:
    """Return where times are kept."""
    base = os.environ.get("REGATTA_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "regatta"
    return Path(base).expanduser() / "tests"


def recall(tier: str) -> dict[str, float]:
    """Seconds that each part took last time."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((cache() / f"{tier}.json").read_text()))
    return {}


def keep(tier: str, known: dict[str, float]) -> None:
    """Write down what each part took."""
    with contextlib.suppress(OSError):
        cache().mkdir(parents=True, exist_ok=True)
        (cache() / f"{tier}.json").write_text(json.dumps(known))


def say(text: str = "") -> None:
    """Print a line at once, also where output is kept in blocks."""
    print(text, flush=True)


def _ends_with_us() -> None:
    """The part gets SIGINT if this program is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGINT)


def start(part: Suite, known: dict[str, float]) -> None:
    """Start a part; what it prints is kept until it ends."""
    last = f", {known[part.name]:.0f} s last time" if part.name in known else ""
    say(f"== {part.name}: begins{last}")
    part.log = (part.folder / f"{part.name.replace(' ', '-')}.log").open("w+b")
    path = f"{PROJECT / '.venv/bin'}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "REGATTA_TEST_TIMES": str(part.times)}
    part.began = time.monotonic()
    part.process = subprocess.Popen(
        part.command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=part.log,
        stderr=part.log,
        start_new_session=True,
        preexec_fn=_ends_with_us,  # noqa: PLW1509 (there are no threads here)
    )


def ended(part: Suite) -> bool:
    """Whether the part has ended; then what it printed is shown."""
    assert part.process and part.log
    if part.process.poll() is None:
        return False
    part.seconds = time.monotonic() - part.began
    part.log.seek(0)
    say(f"\n== {part.name}: {'ended' if part.good else 'FAILED'} after {part.seconds:.0f} s; it said:")
    sys.stdout.buffer.write(part.log.read())
    sys.stdout.flush()
    part.log.close()
    with contextlib.suppress(OSError, ValueError):
        part.told = json.loads(part.times.read_text())
    return True


def run(parts: Sequence[Suite], known: dict[str, float]) -> None:
    """Run all parts, `AT_ONCE` side by side, and print from time to time what is running."""
    waiting = [part for part in parts if not part.refused]
    going: list[Suite] = []
    spoken = time.monotonic()
    while waiting or going:
        while waiting and len(going) < AT_ONCE:
            going.append(waiting.pop(0))
            start(going[-1], known)
        time.sleep(0.1)
        for part in [part for part in going if ended(part)]:
            going.remove(part)
            spoken = time.monotonic()
        if time.monotonic() > spoken + EVERY:
            spoken = time.monotonic()
            say("   now: " + "; ".join(f"{part.name} {spoken - part.began:.0f} s{part.now}" for part in going))


def interrupt(parts: Sequence[Suite]) -> None:
    """End what runs, and let it remove what it has made."""
    going = [part for part in parts if part.process and part.process.poll() is None]
    for part in going:
        assert part.process
        os.killpg(part.process.pid, signal.SIGINT)
    end = time.monotonic() + PATIENCE
    for part in going:
        assert part.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            part.process.wait(max(0, end - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(part.process.pid, signal.SIGKILL)
        ended(part)


def clean(parts: Sequence[Suite]) -> bool:
    """Remove labs of sessions that were killed and could not do so themselves; whether nothing failed."""
    if not any(part.name == "lab" and part.process for part in parts):
        return True
    env = os.environ | {"PYTHONPATH": IMPORTS}
    return subprocess.run([CONTROLLER, "tests/lab/leftovers.py"], env=env, check=False).returncode == 0


def report(parts: Sequence[Suite], tier: str, known: dict[str, float], began: float) -> bool:
    """Print what it cost, and return whether all went well."""
    say("\n== seconds")
    for part in parts:
        if part.process:
            last = f"last time {known[part.name]:.0f}" if part.name in known else ""
            word = "ok" if part.good else "FAILED"
            say(f"{part.seconds:8.1f}  {part.name:16} {word:6} {last:15} {part.told.get('counts', '')}".rstrip())
    say(f"{time.monotonic() - began:8.1f}  in all")
    tests = sorted(
        ((seconds, name) for part in parts for name, seconds in part.told.get("tests", {}).items()), reverse=True
    )
    if tests:
        say("\n== the slowest ten tests")
    for seconds, name in tests[:10]:
        say(f"{seconds:8.1f}  {name}")
    left = [(name, why) for part in parts for name, why in part.told.get("skipped", {}).items()]
    if left:
        say("\n== left out")
    for name, why in left:
        say(f"  {name}: {why}")
    good = all(part.good for part in parts if part.process)
    for part in parts:
        if part.refused and (os.environ.get("CI") or os.environ.get("REGATTA_REQUIRE_LAB")):
            say(f"\nThe lab tests cannot run here, and must:\n{part.refused}")
            good = False
        elif part.refused:
            say(f"\nSKIPPED: the lab tests (tests/lab), because this machine cannot make hosts:\n{part.refused}")
    keep(tier, known | {part.name: part.seconds for part in parts if part.process})
    return good


def _stop(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run a tier; 0 where all of it went well."""
    parser = argparse.ArgumentParser(description="Run the tests.")
    parser.add_argument("tier", choices=("first", "rest", "whole"))
    parser.add_argument("--only", choices=PARTS, help="one part")
    asked = parser.parse_args()
    os.chdir(PROJECT)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked.tier == "whole":
        os.environ["REGATTA_FRESH"] = "1"
    began, known, parts = time.monotonic(), recall(asked.tier), chosen(asked.tier, asked.only)
    refuse(parts)
    with tempfile.TemporaryDirectory(prefix="regatta-tests-") as folder:
        for part in parts:
            part.folder = Path(folder)
        try:
            run(parts, known)
        except KeyboardInterrupt:
            say("\nstopping; what was made is removed first")
            interrupt(parts)
            return 130
        finally:
            removed = clean(parts)
        return 0 if report(parts, asked.tier, known, began) and removed else 1


if __name__ == "__main__":
    sys.exit(main())
