"""Has TensorFlow's servers listen on the run's own address: TensorFlow itself has them listen on all of a host's.

It knows no setting for that, and who reaches such a server may run what they like in it. So where its libraries call
`bind` for all addresses of the host, they get a function that takes one: the table by which the dynamic linker leads
their calls (ELF's procedure linkage table) is changed in this process. What Python of a run begins with calls `watch`;
nothing happens before the program imports TensorFlow. Where the table has no `bind`, a line says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import socket
import struct
import sys
from typing import Any, Iterator, List, Tuple

MODULE = "tensorflow"
PT_DYNAMIC = 2
DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL = 2, 5, 6, 23
SYMBOL_BYTES, RELOCATION = 24, struct.Struct("<QQq")
READ_WRITE = 1 | 2
ANY4, ANY6 = bytes(4), bytes(16)
_kept: List[Any] = []
"""What C holds on to must not be collected."""


class _Header(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("in_file", ctypes.c_uint64),
        ("in_memory", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
    ]


class _Object(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_Header)),
        ("count", ctypes.c_uint16),
    ]


_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
_BIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, use_errno=True)


def watch() -> None:
    """Change what TensorFlow binds, as soon as the program has imported it."""
    if address := own_address(os.environ.get("REGATTA_RANK_MAP") or "[]"):
        importlib.import_module("regatta_imports").watch({MODULE: functools.partial(_changed, address)})


def own_address(rank_map: str) -> str | None:
    """The first of the ranks' addresses that is one of this host's; None where none is."""
    for address in json.loads(rank_map):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((address, 0))
            return str(address)
    return None


@contextlib.contextmanager
def _changed(address: str, _module: Any) -> Iterator[None]:
    """Load TensorFlow, then change its libraries."""
    yield
    if not change(f"/{MODULE}/", address):
        print(
            f"regatta: TensorFlow's libraries do not call bind as was known: a server of this process "
            f"listens on all addresses of the host, not on {address} alone",
            file=sys.stderr,
            flush=True,
        )


def change(part: str, address: str) -> int:
    """In all loaded libraries with `part` in their path: bind `address` for all addresses. How many calls lead there.

    Ports that the system chooses (0), and sockets that are bound to one address, stay as they are.
    """
    system: Any = ctypes.CDLL(None, use_errno=True).bind
    system.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32]

    def bind(number: int, place: int, length: int) -> int:
        given = ctypes.string_at(place, length)
        ours = instead(given, address)
        return int(system(number, ours, len(ours)))

    function = _BIND(bind)
    pointer = ctypes.cast(function, ctypes.c_void_p).value
    slots = [slot for base, dynamic in _libraries(part) for slot in _slots(base, dynamic, b"bind")]
    for slot in slots:
        page = os.sysconf("SC_PAGE_SIZE")
        start = slot // page * page
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(slot + 8 - start), READ_WRITE):
            return 0
        ctypes.c_uint64.from_address(slot).value = pointer or 0
    _kept.append(function)
    return len(slots)


def instead(place: bytes, address: str) -> bytes:
    """The address that a socket is bound to in the place of one (`struct sockaddr`) that is all of the host's."""
    if len(place) < 4:
        return place
    family, port = struct.unpack_from("=H", place)[0], struct.unpack_from("!H", place, 2)[0]
    number = socket.inet_aton(address)
    if port and family == socket.AF_INET and place[4:8] == ANY4:
        return place[:4] + number + place[8:]
    if port and family == socket.AF_INET6 and place[8:24] in (ANY6, bytes(10) + b"\xff\xff" + ANY4):
        return place[:8] + bytes(10) + b"\xff\xff" + number + place[24:]
    return place


def _libraries(part: str) -> List[Tuple[int, int]]:
    """Where each loaded library with `part` in its path begins in memory, and where its dynamic section is."""
    found: List[Tuple[int, int]] = []

    def visit(library: Any, _size: int, _data: Any) -> int:
        one = library.contents
        if part.encode() in (one.name or b""):
            for header in one.headers[: one.count]:
                if header.type == PT_DYNAMIC:
                    found.append((one.base, one.base + header.address))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_VISIT(visit), None)
    return found


def _slots(base: int, dynamic: int, name: bytes) -> Iterator[int]:
    """Where a library keeps the addresses of a function of others that it calls."""
    table = {}
    while (tag := ctypes.c_int64.from_address(dynamic).value) != 0:
        table[tag] = ctypes.c_uint64.from_address(dynamic + 8).value
        dynamic += 16
    if DT_JMPREL not in table:
        return
    relocations, symbols, texts = (
        table[tag] if table[tag] >= base else base + table[tag] for tag in (DT_JMPREL, DT_SYMTAB, DT_STRTAB)
    )
    for offset, info, _ in RELOCATION.iter_unpack(ctypes.string_at(relocations, table[DT_PLTRELSZ])):
        symbol = symbols + SYMBOL_BYTES * (info >> 32)
        if ctypes.string_at(texts + ctypes.c_uint32.from_address(symbol).value) == name:
            yield base + offset
