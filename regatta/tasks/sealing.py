"""Tasks that give results to other people, and repeat theirs (imports: see `regatta.tasks.runs`)."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from invoke.context import Context

from regatta import paths
from regatta.errors import RegattaError, UsageError
from regatta.hosts import inventories
from regatta.program import hint
from regatta.tasks.common import JSON_HELP, records_dir, task

if TYPE_CHECKING:
    from regatta.records.record import Record
    from regatta.report.sealed import Sealed

SIGNER_HELP = "who must have signed it: a fingerprint (SHA256:...) or the file of a public key"


@task(
    name="results-seal",
    positional=["set"],
    help={
        "set": "the set of runs that 'bench' named, a unique beginning, or a plan's name (its latest set)",
        "plan": "the plan's file, where it is not one of Regatta's",
        "out": "the file to write (default: SET.regatta.zip)",
        "key": "the SSH key that signs: a private key, or the .pub of one in your agent (default: that of ~/.ssh)",
    },
)
def results_seal(c: Context, set: str, plan: str | None = None, out: str | None = None, key: str | None = None) -> None:
    """Make one signed file of a set of runs: all records, failed ones too, the code and the plan."""
    from regatta.experiments import plan_file
    from regatta.records.store import Store
    from regatta.release import tree
    from regatta.report import sealed

    every = Store(records_dir()).list().records
    runs = sealed.find(every, set)
    rates = sealed.rates(runs, every)
    series = runs[0].series
    name = plan or (series and series.plan) or ""
    target = Path(out or f"{series and series.set}{sealed.ENDING}").expanduser()
    if name in plan_file.shipped():
        made = sealed.seal(runs, tree.read(paths.PROJECT), name, key, target, rates)
    else:
        file = Path(name).expanduser().resolve()
        if not file.is_file():
            raise UsageError("the plan of this set is not one of Regatta's: give its file with --plan")
        code = tree.read(tree.find_root(Path.cwd()))
        if code.release not in {run.identity.release for run in runs}:
            regattas = tree.read(paths.PROJECT)  # workloads of Regatta's ran
            code = regattas if regattas.release == runs[0].identity.release else code
        inside = file.is_relative_to(code.root.resolve())
        own = f"./{file.relative_to(code.root.resolve())}" if inside else file
        made = sealed.seal(runs, code, own, key, target, rates)
    print("\n".join(made.lines()))
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB. Anybody checks it: {hint('results-verify', target.name)}")


@task(
    name="results-verify",
    positional=["file"],
    help={"file": "a file of results-seal", "signer": SIGNER_HELP, "json": JSON_HELP},
)
def results_verify(c: Context, file: str, signer: str | None = None, json: bool = False) -> None:
    """Check that a sealed file is what was signed, and say what it holds and who signed it."""
    from regatta.report import answers, sealed
    from regatta.report.cases import cases
    from regatta.report.summary import summarise

    found = sealed.verify(Path(file).expanduser(), signer)
    said = answers.lines(summarise(cases(found.records)))
    if json:
        from regatta.tasks import shown

        shown.say(shown.sealed(found, said))
        return
    print("\n".join([*found.lines(), *said]))
    if signer is None:
        print("the signature says that nothing was changed, not who that is: compare the fingerprint, or use --signer")


@task(
    positional=["file"],
    help={
        "file": "a file of results-seal",
        "signer": SIGNER_HELP,
        "into": "a new folder for its code and the results (default: SET)",
        "yes": "do not ask before its code runs (also CONFIRM=yes)",
        "json": f"at the end {JSON_HELP}",
    },
)
def reproduce(
    c: Context,
    file: str,
    inventory: str | None = None,
    signer: str | None = None,
    into: str | None = None,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Run the plan of a sealed file on your hosts, and say which of its verdicts hold here."""
    from regatta.errors import DeclinedError
    from regatta.records.store import Store
    from regatta.report import reproduced, sealed
    from regatta.terminal.confirm import confirmed

    found = sealed.verify(Path(file).expanduser(), signer)
    told = sys.stderr if json else sys.stdout
    hosts = inventories.choose(inventory).resolve()
    print("\n".join(found.lines()), file=told)
    if not confirmed(f"run the code of {found.fingerprint} on {hosts.name}", yes):
        raise DeclinedError("nothing was run")
    folder = Path(into or found.set).expanduser().resolve()
    code, results = folder / "code", folder / "results"
    if not code.exists():
        sealed.unpack(found, code)
    ended = _bench(code, [found.plan, *found.words, "--retry"], hosts, results, told)
    here = [run for run in Store(results).list().records if run.series and run.series.plan]
    if ended and not here:
        raise RegattaError(
            f"the bench ended with code {ended} before its first run: solve what it says, then once more"
            f"{_read(found, code)}"
        )
    if other := {str(run.identity.release) for run in here} - {found.release}:
        ran = ", ".join(sorted(other))
        print(f"note: here release {ran} ran, there {found.release}: another version of Regatta?", file=told)
    for line in (*reproduced.other_versions(found.records, here), *reproduced.other_data(found.records, here)):
        print(f"note: {line}", file=told)
    verdicts = reproduced.compare(found.records, here)
    for line in (*(verdict.line for verdict in verdicts), *sealed.missing(here)):
        print(line, file=told)
    if json:
        from regatta.tasks import shown

        shown.say(shown.reproduced(verdicts))
    if why := unfinished(ended, here):
        raise RegattaError(f"{why}: the same command continues with the rest")


def _read(found: "Sealed", code: Path) -> str:
    """What the runs of a sealed set have read, for who must get it; paths of a plan are those from its code."""
    from regatta.report.cases import inputs

    data = ", ".join(f"{name} (SHA-256 {told})" for name, told in inputs(found.records).items())
    return f". Its runs read {data}: ask who sealed it for what is missing (paths are from {code})" if data else ""


def unfinished(ended: int, here: "Sequence[Record]") -> str | None:
    """Why a bench that ended with this code is not whole; None where it is."""
    from regatta.report import sealed

    if ended:
        return f"the bench ended with code {ended}"
    return "runs are missing here, as the plan's budget is used up" if any(sealed.missing(here)) else None


def _bench(code: Path, words: list[str], hosts: Path, results: Path, told: TextIO) -> int:
    """The bench of a plan, and its options, in the folder of its code; by that code, where it is Regatta itself."""
    env = {**os.environ, "REGATTA_RESULTS": str(results)}
    if (code / "regatta" / "cli.py").is_file():
        env["PYTHONPATH"] = str(code)
        node = paths.PROJECT / ".venv-node"
        if node.is_dir() and not (code / node.name).is_symlink():
            (code / node.name).symlink_to(node.resolve())
    program = "from regatta.cli import main; main()"
    command = [sys.executable, "-c", program, "bench", *words, "--inventory", str(hosts)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(command, cwd=code, env=env, **pipes) as running:  # type: ignore[call-overload]
        for line in running.stdout:  # other people's code never writes to the terminal itself
            print(line, end="", flush=True, file=told)
    return int(running.returncode)
