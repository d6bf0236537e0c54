"""Measures how fast this node is, as the account of runs: each measurement is short, and all are rates."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from typing import TYPE_CHECKING, Callable, Dict, List

from regatta.node import rights
from regatta.node.problem import Problem
from regatta_protocol.operations.probe import Listening, Probed

if TYPE_CHECKING:
    from regatta_protocol.place import Place

BLOCK = bytes(1 << 16)
COPIED = 32 << 20
WRITTEN, SYNCS = 32 << 20, 8
PORTS = range(29400, 29500)
"""Those of runs: between nodes they are open."""
WAIT_SECONDS = 10.0


@rights.shared(gives=Probed)
def part(place: Place, part: str, seconds: float) -> Probed:
    """Return rates of one part of the node. Problem where there is no such part, or no room on its disk."""
    if part not in PARTS:
        raise Problem(f"there is nothing to measure by the name {part}: {', '.join(PARTS)}")
    return Probed(PARTS[part](place, seconds))


def _processor(_place: Place, seconds: float) -> Dict[str, float]:
    """Bytes a second that all cores together hash, divided by their number."""
    cores = len(os.sched_getaffinity(0))
    readers: List[int] = []
    for _ in range(cores):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, str(_hashed(seconds)).encode())
            os._exit(0)
        os.close(writer)
        readers.append(reader)
    hashed = 0.0
    for reader in readers:
        hashed += float(os.read(reader, 64) or 0)
        os.close(reader)
        os.wait()
    return {"processor": hashed / cores}


def _hashed(seconds: float) -> float:
    began, done, hashed = time.monotonic(), 0, hashlib.sha256()
    while (took := time.monotonic() - began) < seconds:
        hashed.update(BLOCK)
        done += len(BLOCK)
    return done / took


def _memory(_place: Place, seconds: float) -> Dict[str, float]:
    """Bytes a second that are copied from one place to another."""
    source, target = bytearray(COPIED), bytearray(COPIED)
    target[:] = source
    began, done = time.monotonic(), 0
    while (took := time.monotonic() - began) < seconds:
        target[:] = source
        done += COPIED
    return {"memory": done / took}


def _disk(place: Place, _seconds: float) -> Dict[str, float]:
    """Bytes a second that are written and on the disk, and how many small files a second."""
    folder = os.path.join(place["state"], "home")
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe-") as file:
        began = time.monotonic()
        for _ in range(WRITTEN // len(BLOCK)):
            file.write(BLOCK)
        file.flush()
        os.fsync(file.fileno())
        wrote = time.monotonic()
        for _ in range(SYNCS):
            file.write(BLOCK[:4096])
            file.flush()
            os.fsync(file.fileno())
        return {"disk": WRITTEN / (wrote - began), "syncs": SYNCS / (time.monotonic() - wrote)}


PARTS: Dict[str, Callable[[Place, float], Dict[str, float]]] = {
    "processor": _processor,
    "memory": _memory,
    "disk": _disk,
}


@rights.shared(gives=Probed)
def receive(place: Place, emit: Callable[[Listening], None], peer: str, seconds: float) -> Probed:
    """Receive data of one node, and of no other; bytes a second."""
    with _listening(place["cluster_address"]) as server:
        server.settimeout(WAIT_SECONDS)
        emit(Listening(server.getsockname()[1]))
        while True:
            try:
                connection, (address, *_) = server.accept()
            except TimeoutError:
                raise Problem(f"{peer} did not come in {WAIT_SECONDS:g} s: is the network between them open?") from None
            with connection:
                if address == peer:
                    connection.settimeout(WAIT_SECONDS)
                    return Probed({"network": _received(connection, seconds)})


def _listening(address: str) -> socket.socket:
    for port in PORTS:
        try:
            return socket.create_server((address, port), family=_family(address))
        except OSError:
            continue
    raise Problem(f"no port of {PORTS[0]} to {PORTS[-1]} is free: stop a program that uses one")


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _received(connection: socket.socket, seconds: float) -> float:
    buffer, done = bytearray(1 << 20), 0
    connection.recv_into(buffer)
    began = time.monotonic()
    while (took := time.monotonic() - began) < seconds:
        done += connection.recv_into(buffer)
    return done / took


@rights.shared()
def send(place: Place, address: str, port: int, seconds: float) -> None:
    """Send to another node until it has enough."""
    end = time.monotonic() + seconds + WAIT_SECONDS
    try:
        with socket.create_connection(
            (address, port), timeout=WAIT_SECONDS, source_address=(place["cluster_address"], 0)
        ) as connection:
            while time.monotonic() < end:
                connection.sendall(BLOCK)
    except (BrokenPipeError, ConnectionResetError):
        return
    except TimeoutError:
        raise Problem(f"{address} took no data for {WAIT_SECONDS:g} s: is the network between them open?") from None
