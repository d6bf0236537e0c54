"""A host that seems to have two cards: the driver's files and nvidia-smi answer as those of NVIDIA H200s have."""

import os
import re
import secrets
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, finish, read_until, wait_for
from metrics import opened

FACTS = Path(__file__).parents[1] / "unit/gpus/h200.xml"
NAME, CARDS = "NVIDIA H200", "/sys/bus/pci/devices/0000:c1:00.0 /sys/bus/pci/devices/0000:c2:00.0"
MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
ROWS = "".join(f"{number}, GPU-97b{number}, {NAME}, 25, 1024, 143771, 38, 80.69\\n" for number in (0, 1))
SMI = f"""#!/bin/sh
case $1 in -q) cat /var/lib/h200.xml ;; --query-gpu=index,uuid,name,*) printf '{ROWS}' ;; *) exit 6 ;; esac
"""
ONE = FACTS.read_text()
END = ONE.index("</gpu>") + len("</gpu>")
ANOTHER = (
    ONE[ONE.index("<gpu id") : END].replace("0200</uuid>", "0201</uuid>").replace("<minor_number>0", "<minor_number>1")
)
TWO = ONE[:END] + ANOTHER + ONE[END:]
LOADED = f"""\
mount -t tmpfs driver /proc/driver
mkdir /proc/driver/nvidia
echo '{MODULE}' > /proc/driver/nvidia/version
"""
MADE = f"""\
{LOADED}
mount -t tmpfs devices /sys/bus/pci/devices
for card in {CARDS}; do
    mkdir $card
    echo 0x10de > $card/vendor
    echo 0x2335 > $card/device
    echo 0x030200 > $card/class
done
printf %s {shlex.quote(TWO)} > /var/lib/h200.xml
printf %s {shlex.quote(SMI)} > /usr/bin/nvidia-smi
chmod 755 /usr/bin/nvidia-smi
touch /dev/nvidia0 /dev/nvidia1
"""
GONE = "rm -f /dev/nvidia0 /dev/nvidia1 /usr/bin/nvidia-smi /var/lib/h200.xml; umount /proc/driver /sys/bus/pci/devices"
HAS = """\
import os, time
print("has", os.environ["CUDA_VISIBLE_DEVICES"], "and", sorted(os.sched_getaffinity(0)), flush=True)
time.sleep(600)
"""
BUILD = "/opt/regatta/env/regatta-env.json"
RAY = "import ray\nray.init()\nprint('GPUs', ray.cluster_resources().get('GPU', 0))\n"


@pytest.fixture(scope="module")
def with_cards(cluster: Cluster) -> Iterator[Cluster]:
    lab = cluster.lab
    lab.ssh("node3", f"sudo sh -ec {shlex.quote(MADE)}")
    try:
        cluster.make("provision")
        cluster.fab("up")
        # systemd gives the unit a /proc of its own, without what is mounted there.
        inside = "sudo nsenter --mount --target $(systemctl show -P MainPID regatta-metrics)"
        lab.ssh("node3", f"{inside} sh -ec {shlex.quote(LOADED)}")
        yield cluster
    finally:
        lab.ssh("node3", f"sudo sh -c {shlex.quote(GONE)}", check=False)
        cluster.make("provision")
        cluster.fab("up")


@pytest.mark.whole
def test_cards_are_seen_by_status_top_prometheus_and_ray(with_cards: Cluster, tmp_path: Path) -> None:
    cluster = with_cards
    assert f"2 x {NAME} 140 GiB, driver 580.159.04" in cluster.fab("status").stdout
    shown: list[str] = []

    def on_top() -> bool:
        shown.append(cluster.fab("top", "--once").stdout)
        return NAME in shown[-1]

    wait_for(on_top, 60)
    assert "25" in shown[-1] and "38" in shown[-1], shown[-1]
    with opened(cluster) as prometheus:
        wait_for(lambda: bool(prometheus.query("regatta_gpu_utilization_ratio")), 120)
        series, _ = prometheus.query("regatta_gpu_memory_used_bytes")
    assert (series["metric"]["node"], series["metric"]["name"]) == ("node3", NAME)
    assert float(series["value"][1]) == 1 << 30
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "script.py").write_text(RAY)
    ran = cluster.regatta(folder, "rayrun", "--name", f"card-{secrets.token_hex(2)}", "script.py")
    assert "GPUs 2.0" in ran.stdout, ran.stdout


@pytest.mark.whole
def test_runs_share_a_host_by_its_cards(with_cards: Cluster, tmp_path: Path) -> None:
    """The hosts' torch has no CUDA: its description is changed for this test."""
    cluster, folder, mark = with_cards, tmp_path / "project", secrets.token_hex(2)
    head = cluster.lab.nodes[0]
    folder.mkdir()
    (folder / "has.py").write_text(HAS)
    cluster.lab.ssh(head, f"sudo sed -i.was s/+cpu/+cu126/ {BUILD}")

    def begin(name: str) -> "subprocess.Popen[str]":
        words = ("--workers", "1", "--gpus", "1", "--name", f"{name}-{mark}")
        return cluster.background(folder, "torchrun", *words, "has.py")

    try:
        first, second = begin("first"), begin("second")
        own = [re.findall(r"has (\d) and \[(.*)\]", read_until(process, "has "))[0] for process in (first, second)]
        assert {card for card, _ in own} == {"0", "1"}
        assert not {*own[0][1].split(", ")} & {*own[1][1].split(", ")}, own
        third = begin("third")
        assert f"first-{mark} (" in read_until(third, "waits for its turn")
        cluster.regatta(folder, "cancel", f"first-{mark}")
        assert f"has {own[0][0]} and [{own[0][1]}]" in read_until(third, "has ")
        finish(first)
        alone = cluster.regatta(
            folder, "torchrun", "--workers", "1", "--gpus", "1", "--name", f"alone-{mark}", "--detach", "has.py"
        )
        assert f"behind second-{mark}" in alone.stdout, alone.stdout
        os.killpg(second.pid, signal.SIGINT)
        finish(second)
        wait_for(lambda: "has " in cluster.regatta(folder, "logs", f"alone-{mark}", check=False).stdout, 60)
        assert f"has {own[1][0]} and [{own[1][1]}]" in cluster.regatta(folder, "logs", f"alone-{mark}").stdout
        cluster.regatta(folder, "cancel", f"alone-{mark}")
        os.killpg(third.pid, signal.SIGINT)
        finish(third)
    finally:
        cluster.lab.ssh(head, f"sudo mv {BUILD}.was {BUILD}")


@pytest.mark.whole
def test_a_card_that_falls_off_the_bus_is_named(with_cards: Cluster) -> None:
    said = "Unable to determine the device handle for GPU0: 0000:C1:00.0: GPU is lost."
    with_cards.lab.ssh("node3", f"printf '#!/bin/sh\\necho {said}; exit 15\\n' | sudo tee /usr/bin/nvidia-smi")
    status = with_cards.fab("status", check=False).stdout
    assert "UNUSABLE" in status and "GPU is lost" in status, status
