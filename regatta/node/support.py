"""A node's part of a support bundle: versions, units, last logs, configuration; secrets taken out."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import TYPE_CHECKING, Iterable, Iterator, Sequence

from regatta.node import listing, secret
from regatta.node.problem import Problem
from regatta_protocol.decoding import encode
from regatta_protocol.operations.hosts import Texts, Token

if TYPE_CHECKING:
    from regatta_protocol.place import Place

UNITS = "regatta-*"
LOG_LINES = 2000
MOST_BYTES = 1 << 20
SECRETS = ("{state}/.ssh/id_*", "/etc/regatta/mesh/id_*", "/etc/regatta/cluster.json")
FILES = (
    "/etc/regatta/*",
    "/etc/systemd/system/regatta-*",
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d/*",
    "/etc/hosts",
    "/etc/os-release",
    "/etc/security/limits.d/90-regatta.conf",
)
COMMANDS = {
    "units": ["systemctl", "list-units", "--all", "--no-pager", UNITS],
    "units-show": ["systemctl", "status", "--no-pager", "--lines=0", UNITS],
    "failed": ["systemctl", "--failed", "--no-pager"],
    "disks": ["df", "-h"],
    "memory": ["cat", "/proc/meminfo"],
    "load": ["uptime"],
    "kernel": ["uname", "-a"],
    "addresses": ["ip", "address"],
    "routes": ["ip", "route"],
    "listening": ["ss", "-ltnp"],
    "rules": ["nft", "list", "ruleset"],
    "packages": ["dpkg-query", "-W"],
    "environments": ["ls", "-l", "/opt/regatta"],
    "clock": ["timedatectl"],
}
REMOVED = "(removed)"
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_VAULT = re.compile(r"\$ANSIBLE_VAULT;[^\n]*(?:\n[ \t]*[0-9a-f]+[ \t]*(?=\n|\Z))*")
_URL = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]{0,20}://)(?:[^\s"'<>/@:]*:[^\s"'<>]*|[^\s"'<>/]*)@""")
_LOGIN = re.compile(r"""(?<![\w.%+/:-])[\w.%+-]+:[^\s/"'<>]+@(?=[\w.\[-])""")
_WORD = r"""(?: passw(?:or)?d | passphrase | (?<![a-z])pass(?![a-z]) | (?-i:[a-z]Pass(?![a-z])) | [_.-]pwd(?![a-z])
    | token | secret | api[_.-]?key | access[_.-]?key | encryption[_.-]?key | credential
    | vault | authorization )"""
_KEY = rf"[\w.-]* {_WORD} [\w.-]*"
_VALUE = r"""(?: "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \[[^\]\n]*\] | \{[^}\n]*\} | [^\s]+ )"""
# A line that is one setting: all of its value goes, and what is indented below it.
_SETTING = re.compile(
    rf"""(?ix) ^ ( [ \t]* (?: -[ \t]+ )* (?: export[ \t]+ )? ["']? {_KEY} ["']? [ \t]* [:=]+ [ \t]* ) ( .* ) $"""
)
_PROPERTY = re.compile(rf"(?ix) ^ ( [ \t]* (?=[\w-]*[._]) {_KEY} [ \t]+ ) ( [^\s:=] .* ) $")
# Within a line; what a name begins with need not be read.
_END = rf"{_WORD} [\w.-]{{0,80}}"
_NAMED = re.compile(
    rf"""(?ix) ( {_END} ["']? \s* [:=]+ [ \t]* (?: (?:bearer | basic | digest) [ \t]+ )? | \b (?:bearer | basic) [ \t]+
        | (?<!\w) --[\w.-]{{0,60}}? {_END} [ \t]+ | \b login [ \t]+ \S+ [ \t]+ passw(?:or)?d [ \t]+ ) ( {_VALUE} )"""
)
# The rest of a value with spaces, as YAML and prose have it behind a colon.
_REST = re.compile(rf"(?ix) ( {_END} [\"']? [ \t]* : [ \t]* {re.escape(REMOVED)} ) [ \t]+ [^,}}\]\n=:]+")
_XML = re.compile(r"(<name>([^<\n]*)</name>\s*<value>)([^<]*)")
_ANY = re.compile(r"(?i)pass|pwd|token|secret|key|credential|vault|authorization|bearer|basic")
"""Words of lines that may have a secret: most have none of these."""


def scrub(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, private keys, logins in URLs, and values that are named like secrets."""
    for known in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(known, REMOVED)
    text = _VAULT.sub(REMOVED, _KEY_BLOCK.sub(REMOVED, text))
    text = _LOGIN.sub(f"{REMOVED}@", _URL.sub(rf"\1{REMOVED}@", text))
    text = _XML.sub(lambda found: found[1] + (REMOVED if _ANY.search(found[2]) else found[3]), text)
    return "".join(_settings(text.splitlines(keepends=True)))


def _settings(lines: Iterable[str]) -> Iterator[str]:
    """Lines without the values of settings that are named like secrets, and without what is indented below these."""
    below: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip(" \t"))
        if below is not None and (indent > below or not line.strip()):
            continue
        below = None
        body = line.rstrip("\r\n")
        if not _ANY.search(body):
            yield line
        elif found := _SETTING.match(body) or _PROPERTY.match(body):
            below = indent
            yield f"{found[1]}{REMOVED}{line[len(body) :]}"
        else:
            yield _REST.sub(r"\1", _NAMED.sub(lambda found: found[1] + REMOVED, line))


def held_by(paths: Iterable[str]) -> list[str]:
    """The secrets in files, whole and line by line, as they could turn up elsewhere."""
    found = []
    for pattern in paths:
        for path in glob.glob(pattern):
            if path.endswith(".pub"):
                continue
            text = read(path).strip()
            found += [text, *(line for line in text.splitlines() if len(line) >= 16 and not line.startswith("-----"))]
    return found


def read(path: str) -> str:
    """The beginning of a file as text; why it cannot be read, where it cannot."""
    try:
        with open(path, errors="replace") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        return f"(not read: {error.strerror})"


def run(command: list[str]) -> str:
    """Return what a command says, its errors included."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(not run: {error})"
    return (done.stdout + done.stderr)[-MOST_BYTES:]


def units() -> list[str]:
    """Our services, without the runs: what those print is their users'."""
    listed = subprocess.run(
        ["systemctl", "list-unit-files", "--no-legend", "--no-pager", "regatta-*.service"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    names = [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]
    return [name for name in names if not name.startswith("regatta-run-")]


def runs(place: Place) -> str:
    """The runs of this node, a line each; why they cannot be told, where they cannot."""
    kept = ("id", "state", "started", "ended", "code")
    try:
        return "".join(
            f"{ {key: item[key] for key in kept if key in item} }\n" for item in map(encode, listing.runs(place))
        )
    except (Problem, OSError, RuntimeError) as error:
        return f"(not read: {error})"


def collect(place: Place, tokens: Sequence[Token], more: Sequence[str]) -> Texts:
    """Texts by name. A run's arguments and output may be private, and stay out. `tokens`: secrets of services; `more`:
    patterns of files that services name.

    All files are in folders that root owns; runs' own are read as their account.
    """
    found = {f"commands/{name}.txt": run(command) for name, command in COMMANDS.items()}
    for unit in units():
        found[f"logs/{unit}.log"] = run(["journalctl", "--no-pager", f"--lines={LOG_LINES}", "--unit", unit])
    hidden = [pattern.format(state=place["state"]) for pattern in SECRETS]
    hidden += [token.path for token in tokens if not token.line]
    left_out = {path for pattern in hidden for path in glob.glob(pattern)}
    for pattern in (*FILES, *more):
        for path in glob.glob(pattern):
            if path not in left_out and os.path.isfile(path):
                found[f"files{path}"] = read(path)
    found["environment.json"] = read(os.path.join(place["root"], "env", "regatta-env.json"))
    found["runs.txt"] = runs(place)
    secrets = [*held_by(hidden), *secret.held(place, (), tokens).values()]
    return Texts({name: scrub(text, secrets) for name, text in found.items()})
