"""GPUs of a node: NVIDIA's cards, and their parts (MIG), with driver and memory, as nvidia-smi tells.

A host on which the driver's module is not loaded is asked nothing. Memory is None where the driver does not tell it,
as of cards that share the host's.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import threading
import time
from typing import Any, Dict, List, Mapping, Sequence

LOADED = "/proc/driver/nvidia/version"
SECONDS = 15.0
STALE_SECONDS = 30.0
OF_CARD = ("index", "uuid", "name")
FIGURES = {
    "utilization.gpu": ("utilization", 0.01),
    "memory.used": ("memory_used", float(1 << 20)),
    "memory.total": ("memory_total", float(1 << 20)),
    "temperature.gpu": ("temperature", 1.0),
    "power.draw": ("power", 1.0),
}
"""What nvidia-smi is asked for: our name of it, and by what its figure is multiplied (per cent and MiB there)."""
OF_PROGRAMS = (13, 31, 43, 45, 68, 109)
"""Xids that programs cause: the card is well (github.com/NVIDIA/k8s-device-plugin, internal/rm/health.go)."""
_XID = re.compile(r"NVRM: Xid \((PCI:[0-9a-fA-F:.]+)\): (\d+)((?:, .*)?)")
_MODULE = re.compile(r"^NVRM version:.* Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", re.M)
_PART = re.compile(r"^\s+MIG .*\(UUID: (MIG-[^)]+)\)\s*$")
_CARD = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)\s*$")


def look() -> Dict[str, Any]:
    """{driver, cards: [{index, name, uuid, bytes, visible}], problem, sick}; {} where no driver is loaded.

    `visible`: the card's name in CUDA_VISIBLE_DEVICES. `problem`: why the driver tells of no cards; else None. `sick`:
    the last error of a card since the host was started, see `last_error`; else None.
    """
    try:
        with open(LOADED) as file:
            found = _MODULE.search(file.read())
    except OSError:
        return {}
    told: Dict[str, Any] = {"driver": found.group(1) if found else None, "cards": [], "problem": None}
    told["sick"] = last_error(
        _run("journalctl", "--dmesg", "--boot", "--output=cat", "--grep=NVRM: Xid", "--lines=100")[1]
    )
    code, said = _smi("-q", "-x")
    if code:
        return {**told, "problem": _problem(code, said)}
    try:
        cards = parse(said)
    except ValueError as error:
        return {**told, "problem": f"what nvidia-smi tells cannot be read: {error}"}
    if any(card["parts"] is not None for card in cards):
        return {**told, "cards": with_parts(cards, _smi("-L")[1])}
    return {**told, "cards": with_parts(cards, "")}


def figures() -> List[Dict[str, Any]]:
    """A card each: {index, uuid, name}, and of `FIGURES` (a part of 1, bytes, degrees Celsius, watts) what it tells."""
    code, said = _smi(f"--query-gpu={','.join([*OF_CARD, *FIGURES])}", "--format=csv,noheader,nounits")
    if code:
        return []
    told = csv.DictReader(said.splitlines(), [*OF_CARD, *FIGURES], skipinitialspace=True)
    return [_figures(row) for row in told if None not in row.values()]


def _figures(row: Mapping[str, str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {name: row[name] for name in OF_CARD}
    for field, (name, unit) in FIGURES.items():
        if re.fullmatch(r"\d+(\.\d+)?", row[field].strip()):
            found[name] = float(row[field]) * unit
    return found


class Meter:
    """The figures of the cards as they were read last. A driver that hangs stops no other work: a thread reads.

    It reads when it is asked, at most every `seconds`; where no driver is loaded nothing is started.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: List[Dict[str, Any]] = []
        self._read = self._began = float("-inf")
        self._reader: threading.Thread | None = None

    def look(self) -> List[Dict[str, Any]]:
        """Return the last figures, and have new ones read; none where the last are older than `STALE_SECONDS`."""
        now = time.monotonic()
        reading = self._reader is not None and self._reader.is_alive()
        if not reading and now - self._began >= self._seconds and os.path.exists(LOADED):
            self._began = now
            self._reader = threading.Thread(target=self._take, daemon=True)
            self._reader.start()
        return self._last if now - self._read < STALE_SECONDS else []

    def _take(self) -> None:
        self._last = figures()
        self._read = time.monotonic()


def last_error(journal: str) -> str | None:
    """The last line about an Xid that no program causes, as NVIDIA's own health check of devices counts them."""
    lines = [(int(found.group(2)), found) for line in journal.splitlines() if (found := _XID.search(line))]
    return next(
        (
            f"Xid {number} of {found.group(1)}{found.group(3)}"
            for number, found in reversed(lines)
            if number not in OF_PROGRAMS
        ),
        None,
    )


def parse(text: str) -> List[Dict[str, Any]]:
    """The cards in the XML of `nvidia-smi -q -x`, in its order; `parts`: memory of each MIG part, None without MIG.

    ValueError where it is no such XML.
    """
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    return [_card(index, gpu) for index, gpu in enumerate(root.iter("gpu"))]


def _card(index: int, gpu: Any) -> Dict[str, Any]:
    parts = [_bytes(part.findtext("fb_memory_usage/total")) for part in gpu.iterfind("mig_devices/mig_device")]
    mig = (gpu.findtext("mig_mode/current_mig") or "").strip() == "Enabled"
    minor = (gpu.findtext("minor_number") or "").strip()
    return {
        "index": index,
        "minor": int(minor) if minor.isdigit() else index,
        "name": (gpu.findtext("product_name") or "").strip() or "NVIDIA GPU",
        "uuid": (gpu.findtext("uuid") or "").strip(),
        "bytes": _bytes(gpu.findtext("fb_memory_usage/total")),
        "parts": parts if mig else None,
    }


def with_parts(cards: Sequence[Dict[str, Any]], listed: str) -> List[Dict[str, Any]]:
    """The devices that a run can have: cards, and of those in MIG mode their parts by the UUIDs of `nvidia-smi -L`."""
    parts = _parts(listed)
    found = []
    for card in cards:
        whole = {name: card[name] for name in ("index", "minor", "name", "uuid", "bytes")}
        if card["parts"] is None:
            found.append({**whole, "visible": str(card["index"])})
            continue
        sizes = dict(enumerate(card["parts"]))
        for number, uuid in enumerate(parts.get(card["uuid"], ())):
            name = f"{card['name']} (MIG)"
            found.append({**whole, "uuid": uuid, "bytes": sizes.get(number), "visible": uuid, "name": name})
    return found


def _parts(listed: str) -> Dict[str, List[str]]:
    """The UUIDs of the parts of each card, by the card's."""
    found: Dict[str, List[str]] = {}
    own: List[str] = []
    for line in listed.splitlines():
        card, part = _CARD.match(line), _PART.match(line)
        if card:
            own = found.setdefault(card.group(2), [])
        elif part:
            own.append(part.group(1))
    return found


def _bytes(text: str | None) -> int | None:
    """`40960 MiB` in bytes; None of `N/A`, `[N/A]` and whatever is no such size."""
    found = re.fullmatch(r"\s*(\d+) MiB\s*", text or "")
    return int(found.group(1)) << 20 if found else None


def _problem(code: int, said: str) -> str:
    first = next((line.strip() for line in said.splitlines() if line.strip()), f"exit code {code}")
    if "version mismatch" in said:
        return f"{first}: the driver's libraries were updated, and its module is still the old one: restart the host"
    return f"nvidia-smi: {first}"


def _smi(*words: str) -> tuple[int, str]:
    return _run("nvidia-smi", *words)


def _run(*command: str) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except FileNotFoundError:
        return 127, "it is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {SECONDS:g} s"
    return done.returncode, done.stdout if not done.returncode else f"{done.stdout}\n{done.stderr}"
