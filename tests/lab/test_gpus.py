"""A host that seems to have a card: the driver's files and nvidia-smi answer as one NVIDIA H200's have."""

import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, wait_for
from metrics import opened

FACTS = Path(__file__).parents[1] / "unit/gpus/h200.xml"
NAME, CARD = "NVIDIA H200", "/sys/bus/pci/devices/0000:c1:00.0"
MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
ROW = f"0, GPU-97b9, {NAME}, 25, 1024, 143771, 38, 80.69"
SMI = f"""#!/bin/sh
case $1 in -q) cat /var/lib/h200.xml ;; --query-gpu=index,uuid,name,*) echo '{ROW}' ;; *) exit 6 ;; esac
"""
LOADED = f"""\
mount -t tmpfs driver /proc/driver
mkdir /proc/driver/nvidia
echo '{MODULE}' > /proc/driver/nvidia/version
"""
MADE = f"""\
{LOADED}
mount -t tmpfs devices /sys/bus/pci/devices
mkdir {CARD}
echo 0x10de > {CARD}/vendor
echo 0x2335 > {CARD}/device
echo 0x030200 > {CARD}/class
printf %s {shlex.quote(FACTS.read_text())} > /var/lib/h200.xml
printf %s {shlex.quote(SMI)} > /usr/bin/nvidia-smi
chmod 755 /usr/bin/nvidia-smi
"""
GONE = "rm -f /usr/bin/nvidia-smi /var/lib/h200.xml; umount /proc/driver /sys/bus/pci/devices"
RAY = "import ray\nray.init()\nprint('GPUs', ray.cluster_resources().get('GPU', 0))\n"


@pytest.fixture(scope="module")
def with_card(cluster: Cluster) -> Iterator[Cluster]:
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
def test_a_card_is_seen_by_status_top_prometheus_and_ray(with_card: Cluster, tmp_path: Path) -> None:
    cluster = with_card
    assert f"{NAME} 140 GiB, driver 580.159.04" in cluster.fab("status").stdout
    shown: list[str] = []

    def on_top() -> bool:
        shown.append(cluster.fab("top", "--once").stdout)
        return NAME in shown[-1]

    wait_for(on_top, 60)
    assert "25" in shown[-1] and "38" in shown[-1], shown[-1]
    with opened(cluster) as prometheus:
        wait_for(lambda: bool(prometheus.query("regatta_gpu_utilization_ratio")), 120)
        (series,) = prometheus.query("regatta_gpu_memory_used_bytes")
    assert (series["metric"]["node"], series["metric"]["name"]) == ("node3", NAME)
    assert float(series["value"][1]) == 1 << 30
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "script.py").write_text(RAY)
    ran = cluster.regatta(folder, "rayrun", "--name", f"card-{secrets.token_hex(2)}", "script.py")
    assert "GPUs 1.0" in ran.stdout, ran.stdout


@pytest.mark.whole
def test_a_card_that_falls_off_the_bus_is_named(with_card: Cluster) -> None:
    said = "Unable to determine the device handle for GPU0: 0000:C1:00.0: GPU is lost."
    with_card.lab.ssh("node3", f"printf '#!/bin/sh\\necho {said}; exit 15\\n' | sudo tee /usr/bin/nvidia-smi")
    status = with_card.fab("status", check=False).stdout
    assert "UNUSABLE" in status and "GPU is lost" in status, status
