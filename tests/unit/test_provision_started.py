"""Modules that start services: what a stopped provisioning wrote and did not start with is made good by the next."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import modules
import pytest

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
SYSTEMCTL = """\
#!/bin/sh
verb=$1; shift
for word; do case $word in -*) ;; *) units="$units $word" ;; esac; done
case $verb in
    start | restart) for unit in $units; do echo > "$UNITS/$unit.active"; echo "$unit" >> "$UNITS/asked"; done ;;
    enable) for unit in $units; do echo > "$UNITS/$unit.enabled"; done ;;
    is-active) if [ -e "$UNITS/${units# }.active" ]; then echo active; else echo inactive; exit 3; fi ;;
    is-enabled) [ -e "$UNITS/${units# }.enabled" ] ;;
    show) cat "$UNITS/${units# }.since" 2>&- || : ;;
esac
"""


class Host:
    """Units that a systemctl of the test keeps, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etc = folder / "etc"
        self.etc.mkdir()

    def write(self, name: str, text: str) -> str:
        path = self.etc / name
        path.write_text(text)
        return str(path)

    def restarted(self) -> list[str]:
        """Units started or restarted since the last call."""
        asked = self.folder / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        return lines


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    units = tmp_path / "units"
    units.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("UNITS", str(units))
    return Host(units)


@pytest.fixture
def utils(host: Host, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`started`, where the modules find it, with a folder of the test's."""
    systemd = modules.load("ansible.module_utils.systemd", "module_utils/systemd.py")
    monkeypatch.setitem(sys.modules, "ansible.module_utils.systemd", systemd)
    found = modules.load("ansible.module_utils.started", "module_utils/started.py")
    monkeypatch.setattr(found, "FOLDER", str(host.folder / "started"))
    monkeypatch.setitem(sys.modules, "ansible.module_utils.started", found)
    return found


UNITS = ["regatta-a.service", "regatta-b.service"]


def test_files_written_and_never_started_with_restart_the_units_next_time(host: Host, utils: ModuleType) -> None:
    start = modules.load("node_start", "library/node_start.py")
    files = [host.write("a.yml", "1"), host.write("b.yml", "1")]
    assert start.settle(UNITS, files, files, False) == (True, [])
    assert host.restarted() == UNITS
    assert start.settle(UNITS, files, [], False) == (False, [])
    assert host.restarted() == []
    host.write("b.yml", "2")  # and here provisioning was stopped
    assert start.settle(UNITS, files, [], True) == (True, UNITS)
    assert host.restarted() == []
    assert start.settle(UNITS, files, [], False) == (True, UNITS)
    assert host.restarted() == UNITS
    assert start.settle(UNITS, files, [], False) == (False, [])


def test_units_of_an_earlier_regatta_go_on_where_they_are_younger_than_their_files(
    host: Host, utils: ModuleType
) -> None:
    start = modules.load("node_start", "library/node_start.py")
    files = [host.write("a.yml", "1")]
    written = int(Path(files[0]).stat().st_mtime)
    for name in UNITS:
        (host.folder / f"{name}.active").touch()
        (host.folder / f"{name}.enabled").touch()
        (host.folder / f"{name}.since").write_text(f"@{written + 5}")
    assert start.settle(UNITS, files, [], False) == (False, [])
    assert host.restarted() == []
    host.write("a.yml", "2")
    assert start.settle(UNITS, files, [], False) == (True, UNITS)
    (host.folder / "started" / UNITS[0]).unlink()
    (host.folder / f"{UNITS[0]}.since").write_text(f"@{written - 5}")
    host.restarted()
    assert start.settle(UNITS, files, [], False) == (True, UNITS)
    assert host.restarted() == UNITS


def hdfs(host: Host, changes: list[str]) -> dict[str, object]:
    names = ["hdfs-site.xml", "hadoop-env.sh", "ready.py", "include", "exclude"]
    own = [f"/etc/systemd/system/regatta-hdfs-{name}.service" for name in ("namenode", "datanode")]
    return {
        "units": ["regatta-hdfs-namenode.service", "regatta-hdfs-datanode.service"],
        "files": [*(str(host.etc / name) for name in names), *own],
        "changes": [str(host.etc / name) for name in changes],
        "lists": [str(host.etc / "include"), str(host.etc / "exclude")],
        "root": "/", "java_home": "/", "conf": "/",
    }  # fmt: skip


def test_hdfs_restarts_for_its_configuration_and_reads_its_lists_again(
    host: Host, utils: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = modules.load("hdfs_start", "roles/hdfs/library/hdfs_start.py")
    refreshed: list[object] = []
    monkeypatch.setattr(start, "refresh", refreshed.append)
    for name in ("hdfs-site.xml", "hadoop-env.sh", "ready.py", "include", "exclude"):
        host.write(name, "1")
    both = hdfs(host, [])["units"]
    assert start.settle(hdfs(host, ["hdfs-site.xml"]), False) == (True, [])
    assert host.restarted() == both
    assert start.settle(hdfs(host, []), False) == (False, [])
    host.write("hadoop-env.sh", "2")
    assert start.settle(hdfs(host, []), False) == (False, [])
    host.write("include", "2")
    assert start.settle(hdfs(host, []), True) == (True, []) and not refreshed
    assert start.settle(hdfs(host, []), False) == (True, []) and len(refreshed) == 1
    assert start.settle(hdfs(host, []), False) == (False, []) and host.restarted() == []
    assert start.settle(hdfs(host, ["hdfs-site.xml"]), True) == (True, both)
    host.write("hdfs-site.xml", "2")
    assert start.settle(hdfs(host, []), True) == (True, both) and host.restarted() == []
    assert start.settle(hdfs(host, []), False) == (True, both)
    assert host.restarted() == both and len(refreshed) == 1


def test_units_that_run_and_restart_are_named_before_and_after(host: Host, utils: ModuleType) -> None:
    start = modules.load("node_start", "library/node_start.py")
    units, files = ["regatta-ray-head.service"], [host.write("token", "1")]
    assert start.settle(units, files, [], False) == (True, [])
    assert start.settle(units, files, [], False) == (False, [])
    host.restarted()
    host.write("token", "2")
    assert start.settle(units, files, [], True) == (True, units) and host.restarted() == []
    assert start.settle(units, files, [], False) == (True, units) and host.restarted() == units
    assert start.settle(units, files, ["unit of the head"], True) == (True, units)
    assert start.settle(units, files, [], False) == (False, [])


def test_kernel_settings_are_loaded_where_the_kernel_has_others() -> None:
    other = modules.load("base_filters", "roles/base/filter_plugins/base.py").other_settings
    shown = "vm.swappiness = 60\nnet.ipv4.tcp_rmem = 4096\t131072\t33554432\n"
    assert other(shown, {"vm.swappiness": "10", "no.such_setting": "1"}) == ["vm.swappiness"]
    assert other(shown, {"vm/swappiness": 60, "net.ipv4.tcp_rmem": "4096 131072 33554432"}) == []
    command = ["sysctl", "--ignore", "vm.swappiness", "no.such"]
    real = subprocess.run(command, capture_output=True, text=True, check=True)
    has = Path("/proc/sys/vm/swappiness").read_text()
    assert other(real.stdout, {"vm.swappiness": has, "no.such": "1"}) == []
    assert other(real.stdout, {"vm.swappiness": f"{has}1"}) == ["vm.swappiness"]
