"""TensorFlow's ranks, with and without Ray Train: one is lost, and input that cannot be used."""

import re
import secrets
import struct
from pathlib import Path

import pytest
from clusters import Cluster, read_until
from faulty import explained, strike
from telling import Teller

pytestmark = pytest.mark.whole  # TensorFlow is a layer of 600 MB
WORDS = ("--nodes=node1,node2", "--workers=2")
ENDED_SECONDS = 30
FIND = r"""
for environ in $(sudo grep -lz "^REGATTA_RUN_ID={run}$" /proc/[0-9]*/environ 2>/dev/null); do
    sudo grep -qs libtensorflow "${{environ%environ}}maps" && basename "${{environ%/environ}}"
done
"""


@pytest.mark.parametrize("framework", ["tensorflow", "ray-tensorflow"])
def test_a_worker_of_tensorflow_is_killed(struck: Cluster, project: Path, tell: Teller, framework: str) -> None:
    tell.begin("rank", "a worker of TensorFlow gets SIGKILL", framework)
    run = f"f-{secrets.token_hex(4)}"
    process = struck.fab_background(
        "run-tf-digits", f"--framework={framework}", *WORDS, "--epochs=1000", "--size=1200", f"--name={run}"
    )
    read_until(process, " epochs ")
    (pid,) = struck.lab.ssh("node2", FIND.format(run=run)).stdout.split()
    told = strike(process, lambda: struck.lab.ssh("node2", f"sudo kill -KILL {pid}"))
    # Ray Train gives its workers their numbers as it likes.
    number = r"\d" if framework == "ray-tensorflow" else "1"
    explained(told, "node2", rf"rank {number} on node2: killed by SIGKILL")
    assert told.seconds < ENDED_SECONDS
    tell.end("the run ends everywhere", told.first, told.seconds)


def test_a_config_of_ones_own_is_refused(struck: Cluster, tell: Teller) -> None:
    tell.begin("rank", "a `TF_CONFIG` of a person's own", "tensorflow")
    config = "--env=TF_CONFIG={}"
    done = struck.fab("run-tf-digits", "--framework=tensorflow", *WORDS, config, check=False)
    assert done.returncode != 0
    (message,) = re.findall(r"^error: .*TF_CONFIG.*$", done.stdout, re.M)
    tell.end("it is refused before anything starts", message)


def test_an_idx_file_of_another_size_is_refused(struck: Cluster, tmp_path: Path, tell: Teller) -> None:
    tell.begin("rank", "an IDX file that is shorter than it says", "tensorflow")
    for name, count in (("train", 60), ("t10k", 10)):
        images = struct.pack(">4i", 2051, count, 28, 28) + bytes(count * 784)
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(images[:-100] if name == "train" else images)
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + bytes(count))
    words = [f"--data={tmp_path}", "--framework=tensorflow", *WORDS]
    done = struck.fab("run-tf-digits", *words, check=False)
    assert done.returncode != 0
    (message,) = re.findall(r"^error: .*60 x 28 x 28.*$", done.stdout, re.M)
    assert "train-images-idx3-ubyte" in message
    tell.end("the run ends, and the message names the file", message)
