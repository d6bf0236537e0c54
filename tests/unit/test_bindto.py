"""A library that binds all addresses of the host binds one: TensorFlow's server, by the example of gRPC's."""

import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from regatta.node import bindto
from regatta.paths import PROJECT

NODE = PROJECT / ".venv-node/bin/python"
SERVER = """
import json, os, socket, sys
from concurrent import futures
from regatta.node import bindto
import grpc

changed = bindto.change("/grpc/", sys.argv[1])
with socket.socket() as sock:
    sock.bind((sys.argv[1], 0))
    port = sock.getsockname()[1]
server = grpc.server(futures.ThreadPoolExecutor(1))
server.add_insecure_port(f"0.0.0.0:{port}")
chosen = server.add_insecure_port("127.0.0.1:0")
server.start()

def answers(address, port):
    with socket.socket() as sock:
        return sock.connect_ex((address, port)) == 0

heard = [answers(address, port) for address in ("127.0.0.2", "127.0.0.3")]
print(json.dumps([changed, *heard, answers("127.0.0.1", chosen)]))
server.stop(0)
"""


@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
def test_a_server_for_all_addresses_listens_on_one() -> None:
    command = [NODE, "-c", SERVER, "127.0.0.2"]
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1, true, false, true]", done.stderr


def test_only_all_addresses_with_a_port_are_replaced() -> None:
    four = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 29400) + bytes(12)
    assert bindto.instead(four, "10.0.0.1") == four[:4] + bytes([10, 0, 0, 1]) + bytes(8)
    six = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", 29400, 0) + bytes(20)
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1])
    assert bindto.instead(six, "10.0.0.1") == six[:8] + mapped + bytes(4)
    for kept in (
        four[:2] + bytes(14),
        four[:4] + bytes([127, 0, 0, 1]) + bytes(8),
        six[:8] + bytes(15) + b"\1" + bytes(4),
        struct.pack("=H", socket.AF_UNIX) + b"/tmp/x\0",
        b"",
    ):
        assert bindto.instead(kept, "10.0.0.1") == kept


def test_the_own_address_is_that_of_a_rank_on_this_host() -> None:
    assert bindto.own_address('["192.0.2.7", "127.0.0.1"]') == "127.0.0.1"
    assert bindto.own_address('["192.0.2.7"]') is None and bindto.own_address("[]") is None


def test_what_runs_begin_with_has_it_where_it_is_to_be(tmp_path: Path) -> None:
    """TensorFlow is found as ever, and where nothing can be changed a line says so; another program hears nothing."""
    boot = tmp_path / "boot"
    (tmp_path / "tensorflow").mkdir(parents=True)
    (tmp_path / "tensorflow/__init__.py").write_text("print('imported')\n")
    boot.mkdir()
    (boot / "sitecustomize.py").write_bytes((PROJECT / "regatta/node/boot.py").read_bytes())
    for name in ("bindto", "imports"):
        (boot / f"regatta_{name}.py").write_bytes((PROJECT / f"regatta/node/{name}.py").read_bytes())
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{boot}", "REGATTA_RANK_MAP": '["127.0.0.1"]'}
    done = subprocess.run(["python3", "-c", "import tensorflow"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "imported\n" and "not on 127.0.0.1 alone" in done.stderr
    done = subprocess.run(["python3", "-c", "import json"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
