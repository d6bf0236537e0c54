"""A set of runs as one signed file that anybody can check: all records, failed ones too, the code, the plan.

The file is a ZIP archive: `manifest.json` has the SHA-256 of each other member, `manifest.json.sig` its signature by
`ssh-keygen -Y sign` (OpenSSH's PROTOCOL.sshsig), `records/` the records, `code/` the release that ran, `plan/` the
plan and `locks/` the locks of the nodes' environment where these are not in the code. A key for SSH is enough, also one
in an agent.
"""

import hashlib
import json
import re
import subprocess
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regatta import files, paths
from regatta.errors import RecordError
from regatta.program import hint
from regatta.records import calibration, document, stats
from regatta.records.record import Record
from regatta.release import git
from regatta.release.tree import Tree, release_of
from regatta.report.cases import inputs

ENDING = ".regatta.zip"
FORMAT, WITH_PLAN = 1, 2
"""Of the file: one that has the plan beside the code cannot be read by an earlier Regatta."""
MOST = 50_000_000
"""Bytes of a sealed file at most."""
_UNPACKED = 500_000_000
_MANIFEST, _SIGNATURE = "manifest.json", "manifest.json.sig"
_RECORDS, _CODE, _PLAN, _LOCKS = "records/", "code/", "plan/", "locks/"
_NOT_OF_NODES = re.compile(r"controller|dev|docs|.*-test")
_NAMESPACE = "regatta"
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True)
class Sealed:
    """A sealed file's content. `plan`: for `bench` in the folder of the code; `plan_text`: where it is not in there.

    `missing`: sentences on lost records. `rates`: on how often verdicts are false where it ran, if that was measured.
    `locks`: those of the nodes' environment that are in the file and not in the code.
    """

    set: str
    records: tuple[Record, ...]
    plan: str
    release: str
    commit: str | None
    fingerprint: str
    made: str
    code: Mapping[str, tuple[str, bytes]] = field(repr=False)
    missing: tuple[str, ...] = ()
    plan_text: bytes | None = None
    rates: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """How its bench was called, besides the plan."""
        series = [run.series for run in self.records if run.series]
        words: list[str] = []
        if until := next((one.until for one in series if one.until is not None), None):
            words += ["--until", f"{100 * until:g}%", "--max-repeats", str(max(one.total for one in series))]
        if any(one.half for one in series):
            names = sorted({run.identity.framework for run in self.records})
            words += ["--duet", f"{names[0]},{names[-1]}"]
        if any(one.shuffled for one in series):
            words.append("--shuffle-hosts")
        return tuple(words)

    def lines(self) -> Iterator[str]:
        """Its description, for a person."""
        states = Counter(run.exit.state for run in self.records)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        yield f"set {self.set}: {len(self.records)} runs ({told}), sealed {self.made}"
        yield f"code: release {self.release}, {len(self.code)} files" + (
            f", commit {self.commit}" if self.commit else ""
        )
        yield f"signed by {self.fingerprint}"
        if self.locks:
            yield f"locks of Regatta that sealed it, for the nodes' environment: {', '.join(self.locks)}"
        if data := inputs(self.records):
            yield f"data, by SHA-256: {', '.join(f'{name} {told[:16]}' for name, told in data.items())}"
        yield from self.missing
        yield from self.rates or map(str, calibration.of(self.records))


def find(records: Sequence[Record], wanted: str) -> tuple[Record, ...]:
    """All runs of a set: by its id, a unique beginning of it, or the name of the plan (its latest set). RecordError."""
    sets = dict.fromkeys(run.series.set for run in records if run.series and run.series.set)
    plans = {run.series.set: run.series.plan for run in records if run.series and run.series.set}
    chosen = [name for name in sets if name == wanted] or [name for name in sets if plans[name] == wanted][-1:]
    chosen = chosen or [name for name in sets if str(name).startswith(wanted)]
    if len(chosen) != 1:
        known = ", ".join(map(str, sets)) or "none: only runs of 'bench' are in sets"
        raise RecordError(f"'{wanted}' names {len(chosen)} sets of runs. There are {known}")
    return tuple(run for run in records if run.series and run.series.set == chosen[0])


def rates(runs: Sequence[Record], every: Sequence[Record]) -> list[str]:
    """A sentence on how often verdicts are false on each cluster of some runs, by `every` record that is kept."""
    measured = calibration.rates(every)
    clusters = sorted({run.cluster.name for run in runs})
    return [measured.get(name, f"False verdicts on {name}: not measured.") for name in clusters]


def seal(
    runs: Sequence[Record], tree: Tree, plan: str | Path, key: str | None, target: Path, rates: Sequence[str] = ()
) -> Sealed:
    """Write all runs of a set with the code that ran into one signed file. RecordError where that cannot be.

    `plan`: as `bench` takes it in the folder of the code, or a file outside of that, which goes along. `rates`: see
    :class:`Sealed`.
    """
    releases = {run.identity.release for run in runs}
    if releases != {tree.release}:
        commits = sorted({str(run.identity.commit) for run in runs})
        raise RecordError(
            f"the runs used release {', '.join(sorted(map(str, releases)))} (commit {', '.join(commits)}), and "
            f"{tree.root} is {tree.release}: bring this tree to what ran ('git checkout', without changes), then again"
        )
    members = {f"{_RECORDS}{run.run_id}.json": document.to_json(run).encode() for run in runs}
    if isinstance(plan, Path):
        members[_PLAN + plan.name] = plan.read_bytes()
    own = {path for path, _, _ in tree.entries}
    for lock in sorted((paths.PROJECT / "requirements").glob("*.lock")):
        if f"requirements/{lock.name}" not in own and not _NOT_OF_NODES.fullmatch(lock.stem):
            members[_LOCKS + lock.name] = lock.read_bytes()
    links = {}
    for path, kind, content in tree.entries:
        if kind == "l":
            links[path] = str(content)
        else:
            members[_CODE + path] = (tree.root / path).read_bytes()
    told = {
        "format": WITH_PLAN if isinstance(plan, Path) else FORMAT,
        "set": runs[0].series.set if runs[0].series else None,
        "plan": f"../{plan.name}" if isinstance(plan, Path) else plan,
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "release": tree.release,
        "commit": tree.commit,
        "executable": sorted(path for path, kind, _ in tree.entries if kind == "x"),
        "links": links,
        "rates": [*rates],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(members.items())},
    }
    text = json.dumps(told, indent=1).encode()
    signature = _sign(text, key)
    with files.replacing(target) as new:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, held in {_MANIFEST: text, _SIGNATURE: signature, **members}.items():
                archive.writestr(name, held)
        if new.stat().st_size > MOST:
            raise RecordError(
                f"the file would have {new.stat().st_size / 1e6:.0f} MB, more than {MOST / 1e6:.0f}: leave large files "
                "out of the tree (.regattaignore), they are named by their hash in the records"
            )
    return verify(target)


def verify(file: Path, signer: str | None = None) -> Sealed:
    """Check a sealed file: nothing was removed, changed or added since it was signed. RecordError names what was.

    `signer`: the fingerprint (SHA256:...) or the file of the public key of who must have signed it.
    """
    members = _members(file)
    for needed in (_MANIFEST, _SIGNATURE):
        if needed not in members:
            raise RecordError(
                f"{file} has no {needed}: it is not a file of '{hint('results-seal')}', or it was changed"
            )
    fingerprint = _signed_by(file, members)
    if signer is not None and fingerprint != (wanted := _fingerprint_of(signer)):
        raise RecordError(f"{file} is signed by {fingerprint}, not by {wanted}: ask for the file of that person")
    told = json.loads(members[_MANIFEST])
    if told.get("format") not in (FORMAT, WITH_PLAN):
        raise RecordError(f"{file} has format {told.get('format')}, this Regatta reads {WITH_PLAN}: use a newer one")
    _unchanged(file, told["files"], members)
    code = _code(file, told, members)
    records = tuple(
        document.parse(content.decode(), name) for name, content in members.items() if name.startswith(_RECORDS)
    )
    ordered = tuple(sorted(records, key=lambda run: run.identity.started))
    return Sealed(
        set=told["set"],
        records=ordered,
        plan=told["plan"],
        release=told["release"],
        commit=told["commit"],
        fingerprint=fingerprint,
        made=told["made"],
        code=code,
        missing=tuple(missing(ordered)),
        plan_text=members.get(_PLAN + Path(told["plan"]).name),
        rates=tuple(told.get("rates", ())),
        locks=tuple(sorted(name.removeprefix(_LOCKS) for name in members if name.startswith(_LOCKS))),
    )


def unpack(sealed: Sealed, folder: Path) -> None:
    """Write the code into a new folder, and a plan that is not in it beside that; git ignores a folder around both.

    RecordError where the folder is there, or a path leads through a link. SyncError where git refuses.
    """
    alone = not folder.parent.exists()
    try:
        folder.mkdir(parents=True)
        if alone:
            (folder.parent / ".gitignore").write_text("*\n")
        if sealed.plan_text is not None:
            (folder.parent / Path(sealed.plan).name).write_bytes(sealed.plan_text)
        for path, (kind, content) in sorted(sealed.code.items(), key=lambda item: item[1][0] == "l"):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if kind == "l":
                target.symlink_to(content.decode())
            else:
                target.write_bytes(content)
                target.chmod(0o755 if kind == "x" else 0o644)
    except OSError as error:
        raise RecordError(
            f"{error.filename or folder}: {error.strerror or error}. Name another folder with --into"
        ) from None
    git.separate(folder)


def _members(file: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(one.file_size for one in archive.infolist()) > _UNPACKED:
                raise RecordError(f"{file} would unpack to more than {_UNPACKED / 1e6:.0f} MB: it is not read")
            names = archive.namelist()
            if twice := sorted(name for name, count in Counter(names).items() if count > 1):
                raise RecordError(f"{file} was changed: it has {twice[0]} twice")
            return {name: archive.read(name) for name in names}
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise RecordError(f"{file} cannot be read ({error}): fetch it again") from None


def _unchanged(file: Path, wanted: Mapping[str, str], members: Mapping[str, bytes]) -> None:
    found = {name for name in members if name not in (_MANIFEST, _SIGNATURE)}
    wrong = [
        *(f"{name} was removed" for name in sorted(wanted.keys() - found)),
        *(f"{name} was added" for name in sorted(found - wanted.keys())),
        *(
            f"{name} was changed"
            for name in sorted(found & wanted.keys())
            if hashlib.sha256(members[name]).hexdigest() != wanted[name]
        ),
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if wrong[5:] else ""
        raise RecordError(f"{file} is not what was signed: {', '.join(wrong[:5])}{more}. Ask for the file again")


def _code(file: Path, told: Mapping[str, Any], members: Mapping[str, bytes]) -> dict[str, tuple[str, bytes]]:
    """The release's files by path, with their kind. RecordError where they are not the release of the records."""
    executable, links = {*told["executable"]}, told["links"]
    code = {path: ("l", target.encode()) for path, target in links.items()}
    for name, content in members.items():
        if name.startswith(_CODE):
            path = name.removeprefix(_CODE)
            code[path] = ("x" if path in executable else "f", content)
    if bad := sorted(path for path in code if path.startswith("/") or ".." in path.split("/")):
        raise RecordError(f"{file}: the path {bad[0]} leads out of its folder: it is not used")
    entries = [
        [path, kind, content.decode() if kind == "l" else hashlib.sha256(content).hexdigest()]
        for path, (kind, content) in code.items()
    ]
    if (release := release_of(entries)) != told["release"]:
        raise RecordError(f"{file}: its code is release {release}, and its runs used {told['release']}")
    return code


def missing(records: Sequence[Record]) -> Iterator[str]:
    """A sentence for each point and its frameworks that have fewer runs than repeats."""
    found: dict[tuple[str, str, int, bool], set[int]] = {}
    for run in records:
        if run.series and not run.series.warm_up:
            key = (str(run.series.point), run.identity.framework, run.series.total, run.series.until is not None)
            found.setdefault(key, set()).add(run.series.index)
    lacking: dict[tuple[str, int, tuple[int, ...]], list[str]] = {}
    for (point, framework, total, ends), own in found.items():
        looks = stats.looks(total) if ends else (total,)
        planned = next((look for look in looks if look >= max(own)), total)
        if gone := tuple(sorted({*range(1, planned + 1)} - own)):
            lacking.setdefault((point, planned, gone), []).append(framework)
    for (point, planned, gone), names in lacking.items():
        repeats = ", ".join(map(str, gone[:5])) + (" ..." if gone[5:] else "")
        those = f"{', '.join(names)}: {len(gone)} of {planned} repeats{' each' if names[1:] else ''}"
        yield f"missing: {point} under {those} have no record ({repeats})"


def _sign(text: bytes, key: str | None) -> bytes:
    usual = (Path("~/.ssh").expanduser() / name for name in _KEYS)
    chosen = Path(key).expanduser() if key else next(filter(Path.is_file, usual), None)
    if chosen is None or not chosen.is_file():
        named = f"there is no key {key}" if key else f"there is no key in ~/.ssh ({', '.join(_KEYS)})"
        raise RecordError(f"{named}: name one with --key, a private key or the .pub of a key in your agent")
    with tempfile.TemporaryDirectory() as folder:
        message = Path(folder) / _MANIFEST
        message.write_bytes(text)
        _keygen("sign", "-f", str(chosen), "-n", _NAMESPACE, str(message))
        return Path(f"{message}.sig").read_bytes()


def _signed_by(file: Path, members: Mapping[str, bytes]) -> str:
    """The fingerprint of the key that signed, as ssh-keygen reads it from the signature. RecordError where none did."""
    with tempfile.TemporaryDirectory() as folder:
        signature = Path(folder) / "sig"
        signature.write_bytes(members[_SIGNATURE])
        try:
            said = _keygen("check-novalidate", "-n", _NAMESPACE, "-s", str(signature), given=members[_MANIFEST])
        except RecordError:
            raise RecordError(
                f"{file} is not what was signed: its list of files or its signature was changed"
            ) from None
    return _fingerprint_in(said) or ""


def _fingerprint_of(signer: str) -> str:
    if signer.startswith("SHA256:"):
        return signer
    done = subprocess.run(["ssh-keygen", "-l", "-f", signer], capture_output=True, check=False)
    found = _fingerprint_in(done.stdout)
    if done.returncode or found is None:
        raise RecordError(f"{signer} is neither a fingerprint (SHA256:...) nor the file of a public key")
    return found


def _fingerprint_in(said: bytes) -> str | None:
    found = re.search(rb"SHA256:\S+", said)
    return found[0].decode() if found else None


def _keygen(what: str, *words: str, given: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(["ssh-keygen", "-Y", what, *words], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise RecordError("ssh-keygen is not installed: install openssh-client") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines() or ["no reason was given"]
        raise RecordError(f"ssh-keygen could not {what} it: {said[-1]}")
    return done.stdout
