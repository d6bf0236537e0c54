"""The lab itself, on hosts of a lab."""

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import kept
from lab.handle import LabHandle, lab_command, read_lab
from lab.model import PROJECT, STATE
from regatta.hosts import inventories, shared_cores
from regatta.hosts.remote import Remote
from regatta_protocol.operations.services import AskStatus

MakeLab = Callable[..., LabHandle]


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> Iterator[LabHandle]:
    """Three bare hosts with a way out: leave them running and as you found them."""
    made = make_lab(nodes=3)
    yield made
    made.down()


def cgroups_of(name: str) -> list[Path]:
    found = [point / f"regatta-lab-{name}" for point in Path("/sys/fs/cgroup").glob("*") if point.is_dir()]
    return [path for path in [*found, Path(f"/sys/fs/cgroup/regatta-lab-{name}")] if path.exists()]


def processes_of(name: str) -> set[int]:
    files = [file for folder in cgroups_of(name) for file in folder.rglob("cgroup.procs")]
    found = {int(word) for file in files for word in file.read_text().split()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{STATE}/{name}/".encode() in line:
                found.add(int(entry.name))
    return found


def namespaces() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
    return found


def remains(name: str) -> list[str]:
    """Everything on this machine that belongs to a lab of this name."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    tables = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    texts = [*links.splitlines(), *tables.splitlines(), *Path("/proc/self/mounts").read_text().splitlines()]
    found = [line for line in texts if name in line]
    found += [f"process {number}" for number in processes_of(name)]
    places = [STATE / name, PROJECT / "inventory" / name, *cgroups_of(name)]
    places += Path("/run/systemd/nspawn/propagate").glob(f"{name}-*")
    return found + [str(place) for place in places if place.exists()]


def setting(name: str) -> str:
    return Path("/proc/sys/net/ipv4", name).read_text().strip()


def test_every_node_is_a_machine_of_its_own(lab: LabHandle) -> None:
    assert lab.nodes == ("node1", "node2", "node3")
    ids = set()
    for node in lab.nodes:
        out = lab.ssh(node, "hostname; cat /etc/machine-id; sudo -n id -u; cat /proc/1/comm").stdout.split()
        assert out[0] == node
        assert out[2:] == ["0", "systemd"]
        ids.add(out[1])
    assert len(ids) == 3
    assert lab.ssh("node1", "systemctl is-system-running --wait", check=False).stdout.strip() == "running"
    assert "127.0.1.1\tnode1" in lab.ssh("node1", "cat /etc/hosts").stdout
    lab.ssh("node1", f"ping -c1 -W2 {lab.addresses['node3']}")


def test_nodes_do_not_see_each_others_units(lab: LabHandle) -> None:
    for node in ("node1", "node2"):
        lab.ssh(node, "sudo systemd-run -q --unit regatta-same-name sleep 300")
    lab.ssh("node1", "sudo systemctl stop regatta-same-name")
    assert lab.ssh("node2", "systemctl is-active regatta-same-name").stdout.strip() == "active"
    lab.ssh("node2", "sudo systemctl stop regatta-same-name")


def test_only_the_key_of_the_user_opens_a_node(lab: LabHandle) -> None:
    refused = lab.ssh("node1", "true", user="root", check=False)
    assert refused.returncode == 255
    assert "Permission denied (publickey)" in refused.stderr
    secrets = lab.inventory / "secrets"
    assert oct(secrets.stat().st_mode & 0o777) == "0o700"
    assert oct((secrets / "lab_key").stat().st_mode & 0o777) == "0o600"
    assert oct((STATE / lab.name).stat().st_mode & 0o777) == "0o700"


def test_the_way_out(lab: LabHandle) -> None:
    assert "default via" in lab.ssh("node1", "ip route").stdout
    table = subprocess.run(
        ["nft", "list", "table", "ip", f"regatta-lab-{lab.name}"], capture_output=True, text=True, check=True
    )
    assert "masquerade" in table.stdout
    assert setting("ip_forward") == "1"
    route = json.loads(subprocess.check_output(["ip", "-json", "route", "show", "default"]))
    if route and "gateway" in route[0]:
        lab.ssh("node1", f"ping -c1 -W2 {route[0]['gateway']}")


def test_without_egress_beside_another_lab(lab: LabHandle, make_lab: MakeLab) -> None:
    closed = make_lab(nodes=2, egress=False)
    assert "default" not in closed.ssh("node1", "ip route").stdout
    assert "unreachable" in closed.ssh("node1", "ping -c1 -W1 192.0.2.1", check=False).stderr
    started = time.monotonic()
    assert closed.ssh("node1", "getent hosts deb.debian.org", check=False).returncode == 2
    assert time.monotonic() - started < 3
    gateway = ipaddress.IPv4Address(closed.addresses["node1"]) - 10
    closed.ssh("node1", f"sudo ip route add default via {gateway}")
    for target in ("192.0.2.1", lab.addresses["node1"]):
        assert closed.ssh("node1", f"ping -c1 -W1 {target}", check=False).returncode == 1
    assert lab.ssh("node1", f"ping -c1 -W1 {closed.addresses['node1']}", check=False).returncode == 1
    closed.ssh("node1", f"ping -c1 -W1 {closed.addresses['node2']}")
    closed.down()
    assert remains(closed.name) == []
    lab.ssh("node1", "true")
    assert setting("ip_forward") == "1"


def test_a_part_of_a_core_for_each(make_lab: MakeLab) -> None:
    """Two hosts on the same cores, which are enough for both: these do not share them."""
    made = make_lab(nodes=2, cores="0.4")
    with contextlib.closing(Remote(inventories.load(str(made.inventory)))) as remote:
        found = {node.name: remote.call(node, AskStatus(())).facts for node in remote.cluster.nodes}
    assert [(facts["cpu_limit"], facts["cores"]) for facts in found.values()] == [(0.4, 1), (0.4, 1)]
    assert shared_cores.sharing(found) == {"node1": (), "node2": ()}
    changed = lab_command("up", "--name", made.name, "--cores", "0.3")
    assert changed.returncode == 0, changed.stdout
    with contextlib.closing(Remote(inventories.load(str(made.inventory)))) as remote:
        assert [remote.call(node, AskStatus(())).facts["cpu_limit"] for node in remote.cluster.nodes] == [0.3, 0.3]
    bound = lab_command("up", "--name", made.name, "--cores", "1")
    assert "has cores 0.3, which cannot be changed to 1" in bound.stdout
    made.down()
    assert cgroups_of(made.name) == []


def test_a_clash_is_refused(lab: LabHandle, lab_names: Iterator[str]) -> None:
    name = next(lab_names)
    subnet = str(ipaddress.IPv4Network(f"{lab.addresses['node1']}/24", strict=False))
    done = lab_command("up", "--name", name, "--nodes", "1", "--subnet", subnet)
    assert done.returncode == 1
    assert f"belongs to the lab {lab.name}" in done.stdout
    assert "--subnet" in done.stdout
    assert remains(name) == []
    subprocess.run(["ip", "link", "add", f"rg-{name}", "type", "bridge"], check=True)
    try:
        done = lab_command("up", "--name", name, "--nodes", "1")
        assert f"there is an interface rg-{name} that is not of a lab" in done.stdout
        assert lab_command("down", "--name", name).returncode == 0
        assert Path(f"/sys/class/net/rg-{name}").exists()
    finally:
        subprocess.run(["ip", "link", "delete", f"rg-{name}"], check=True)


def test_an_inventory_of_a_persons_own_is_left_alone(lab_names: Iterator[str]) -> None:
    name = next(lab_names)
    mine = PROJECT / "inventory" / name
    mine.mkdir()
    (mine / "hosts.yml").write_text("all:\n")
    try:
        done = lab_command("up", "--name", name)
        assert done.returncode == 1
        assert "is not of a lab" in done.stdout
        lab_command("down", "--name", name)
        assert (mine / "hosts.yml").read_text() == "all:\n"
    finally:
        (mine / "hosts.yml").unlink()
        mine.rmdir()


def test_power_loss_and_clean_stop_keep_the_state(lab: LabHandle) -> None:
    for end in (lab.off, lab.stop):
        lab.ssh("node2", "date +%N >mark; sudo sync; sudo touch /etc/kept")
        mark = lab.ssh("node2", "cat mark").stdout
        end("node2")
        states = dict(line.split()[::2] for line in lab.command("status").splitlines()[1:])
        assert states == {"node1": "runs", "node2": "off", "node3": "runs"}
        with pytest.raises(OSError):
            socket.create_connection((lab.addresses["node2"], 22), timeout=1)
        lab.on("node2")
        assert lab.ssh("node2", "cat mark; ls /etc/kept").stdout == f"{mark}/etc/kept\n"


def test_a_rebuilt_node_has_another_host_key(make_lab: MakeLab) -> None:
    own = make_lab(nodes=1)
    own.rebuild("node1", keep_known_hosts=True)
    changed = own.ssh("node1", "true", check=False)
    assert changed.returncode == 255
    assert "HOST IDENTIFICATION HAS CHANGED" in changed.stderr
    own.rebuild("node1")
    own.ssh("node1", "true")
    own.down()


@pytest.mark.whole
@pytest.mark.whole  # make test itself keeps one, and starts from it
def test_a_kept_lab_starts_with_what_was_done(lab_names: Iterator[str]) -> None:
    name, key = next(lab_names), "0123456789abcdef"
    assert lab_command("up", "--name", name, "--nodes", "1").returncode == 0
    one = read_lab(name)
    known = (one.inventory / "known_hosts").read_text()
    one.ssh("node1", "sudo sh -c 'echo done >/etc/done; rm /etc/debian_version; rm -r /etc/alternatives'")
    (one.inventory / "secrets/token").write_text("secret")
    place = kept.place(name, key)
    try:
        one.command("keep", "--key", key)
        one.ssh("node1", "sudo sh -c 'echo later >/etc/later; echo changed >/etc/done'")
        assert "itself made from a kept one" in lab_command("keep", "--name", name, "--key", key).stdout
        assert oct(place.stat().st_mode & 0o777) == "0o700"
        one.down()
        assert remains(name) == []
        assert lab_command("up", "--name", name, "--kept", key).returncode == 0
        assert (one.inventory / "known_hosts").read_text() == known
        assert (one.inventory / "secrets/token").read_text() == "secret"
        assert one.ssh("node1", "cat /etc/done; ls -d /etc/later /etc/alternatives", check=False).stdout == "done\n"
        one.rebuild("node1")
        assert one.ssh("node1", "cat /etc/done; cat /etc/debian_version", check=False).stdout.strip() not in (
            "",
            "done",
        )
    finally:
        lab_command("down", "--name", name)
        shutil.rmtree(place, ignore_errors=True)
    refused = lab_command("up", "--name", name, "--kept", key)
    assert refused.returncode == 1 and key in refused.stdout
    assert remains(name) == []


def test_up_again_after_a_reboot_grow_and_down(make_lab: MakeLab) -> None:
    one = make_lab(nodes=2)
    one.ssh("node2", "echo kept >mark; sync")
    keys = (one.inventory / "known_hosts").read_text()
    for number in processes_of(one.name):
        with contextlib.suppress(ProcessLookupError):  # ended with another
            os.kill(number, signal.SIGKILL)
    mounts = [str(STATE / one.name / node / "root") for node in one.nodes]
    when(
        lambda: (
            subprocess.run(["umount", *mounts], check=False).returncode == 0 or not any(map(os.path.ismount, mounts))
        )
    )
    subprocess.run(["ip", "link", "delete", f"rg-{one.name}"], check=True)
    subprocess.run(["nft", "delete", "table", "ip", f"regatta-lab-{one.name}"], check=True)
    one.command("up")
    assert one.ssh("node2", "cat mark").stdout == "kept\n"
    assert (one.inventory / "known_hosts").read_text() == keys

    one.command("up", "--nodes", "3")
    grown = read_lab(one.name)
    assert grown.nodes == ("node1", "node2", "node3")
    assert (one.inventory / "known_hosts").read_text().startswith(keys)
    assert grown.ssh("node2", "cat mark").stdout == "kept\n"
    assert "cannot be changed" in lab_command("up", "--name", one.name, "--egress", "no").stdout

    spaces = {str(Path(f"/proc/{number}/ns/net").readlink()) for number in processes_of(one.name)}
    spaces.discard(str(Path("/proc/self/ns/net").readlink()))
    assert len(spaces) == 3
    said = one.command("down")
    assert "cut of node1, node2, node3" in said and "removed in" in said, "a line for each thing, and a summary"
    assert remains(one.name) == []
    assert not spaces & namespaces()
    assert "nothing to remove" in one.command("down")


def start_up(name: str, nodes: int = 3, cache: Path | None = None) -> subprocess.Popen[str]:
    environment = dict(os.environ, **({"REGATTA_CACHE": str(cache)} if cache else {}))
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "up", "--name", name, "--nodes", str(nodes)],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def when(condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    """Wait for a moment; of a command that ended before it, what it wrote is the failure's message."""
    end = time.monotonic() + seconds
    while not condition():
        if process and process.poll() is not None:
            assert condition(), f"the command ended with {process.returncode}: {process.communicate()[0]}"
            return
        if time.monotonic() >= end:
            if process:
                process.terminate()
            pytest.fail(f"the moment did not come: {process.communicate(timeout=60)[0] if process else ''}")
        time.sleep(0.005)


MOMENTS: dict[str, Callable[[str], object]] = {
    "described": lambda name: (STATE / name / "lab.json").exists(),
    "bridge": lambda name: Path(f"/sys/class/net/rg-{name}").exists(),
    "first mount": lambda name: (STATE / name / "node1/root/etc").exists(),
    "first boot": lambda name: any((folder / "node1").exists() for folder in cgroups_of(name)),
    "last boot": lambda name: any((folder / "node3/payload").exists() for folder in cgroups_of(name)),
}


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("last boot", signal.SIGTERM),
        *(pytest.param(one, signal.SIGINT, marks=pytest.mark.whole) for one in MOMENTS),
    ],
)
def test_an_interrupted_up_leaves_nothing(lab_names: Iterator[str], moment: str, number: signal.Signals) -> None:
    name = f"t{os.getpid()}z"
    process = start_up(name)
    when(lambda: MOMENTS[moment](name), process)
    process.send_signal(number)
    out = process.communicate(timeout=30)[0]
    left = remains(name)
    lab_command("down", "--name", name)
    assert process.returncode == 128 + number, out
    assert left == [], out


def test_up_that_was_killed_is_removed_by_down(lab_names: Iterator[str]) -> None:
    name = next(lab_names)
    process = start_up(name)
    when(lambda: MOMENTS["last boot"](name), process)
    process.kill()
    process.communicate()
    assert remains(name)
    assert lab_command("down", "--name", name).returncode == 0
    assert remains(name) == []


def test_an_interrupted_growth_keeps_the_lab(make_lab: MakeLab) -> None:
    one = make_lab(nodes=1)
    process = start_up(one.name, nodes=3)
    when(lambda: MOMENTS["last boot"](one.name), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    one.ssh("node1", "true")
    assert read_lab(one.name).nodes == ("node1",)
    assert [line for line in remains(one.name) if "node3" in line] == []
    one.down()


def test_an_interrupted_base_image_leaves_nothing(lab_names: Iterator[str], tmp_path: Path) -> None:
    name = next(lab_names)
    process = start_up(name, cache=tmp_path)
    when(lambda: list(tmp_path.glob("lab/.*/var/lib")), process)
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 130, out
    assert [path for path in (tmp_path / "lab").iterdir() if path.is_dir()] == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert remains(name) == []
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if str(tmp_path).encode() in line]


FIREWALL = "table ip filter {\n chain FORWARD {\n type filter hook forward priority 0; policy drop;\n }\n}\n"


def test_a_firewall_that_drops_by_default_is_passed_and_left_as_it_was(lab_names: Iterator[str]) -> None:
    """In its own network namespace, where Docker's and ufw's policy cuts no other process off."""
    name = next(lab_names)
    script = f"""
        set -e
        ip link set lo up
        nft "$2"
        before=$(nft list ruleset)
        "$1" -m lab up --name {name} --nodes 2 --egress no
        "$1" -m lab up --name {name}
        nft list chain ip filter FORWARD
        address=$(sed -n 's/,node1 .*//p' inventory/{name}/known_hosts)
        other=$(sed -n 's/,node2 .*//p' inventory/{name}/known_hosts)
        ssh -F /dev/null -i inventory/{name}/secrets/lab_key -o BatchMode=yes \\
            -o UserKnownHostsFile=inventory/{name}/known_hosts ubuntu@$address ping -c1 -W2 $other
        "$1" -m lab down --name {name}
        test "$before" = "$(nft list ruleset)"
    """
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, FIREWALL],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f'comment "regatta-lab-{name}"') == 2
