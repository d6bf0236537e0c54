"""Debian packages that provisioning has installed, and teardown removes."""

import json
import sys
from pathlib import Path
from types import ModuleType

import modules
import pytest

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = modules.load("ansible.module_utils.installed", "module_utils/installed.py")
    monkeypatch.setattr(found, "RECORD", str(tmp_path / "regatta/installed.json"))
    monkeypatch.setitem(sys.modules, "ansible.module_utils.installed", found)
    return found


@pytest.fixture
def gone(installed: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return modules.load("base_packages_gone", "roles/base/library/base_packages_gone.py")


def test_what_came_is_recorded_and_added_up(
    installed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, names = {"bash"}, {"root": "/root"}
    monkeypatch.setattr(installed, "packages", lambda: set(there))
    monkeypatch.setattr(installed, "accounts", lambda: dict(names))
    assert installed.recorded() == {"packages": [], "accounts": {}}
    before = installed.look()
    there |= {"prometheus", "libc-bin"}
    names |= {"prometheus": "/var/lib/prometheus", "other": "/srv/other"}
    installed.note(before)
    before = installed.look()
    there.add("zstd")
    installed.note(before)
    assert installed.recorded() == {
        "packages": ["libc-bin", "prometheus", "zstd"],
        "accounts": {"prometheus": "/var/lib/prometheus", "other": ""},
    }


# Packages that `apt-get --simulate purge` removes with each package.
NEEDS = {"java": set(), "java-common": {"java"}, "nftables": {"the-users-firewall"}, "zstd": set()}


def test_what_others_need_by_now_stays(gone: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def apt_get(*words: str) -> str:
        names = set(words[2:])
        found = names.union(*(NEEDS[name] for name in names))
        return "".join(f"Purg {name}:amd64 [1.0]\n" for name in sorted(found))

    monkeypatch.setattr(gone, "apt_get", apt_get)
    assert gone.removable({"java", "java-common", "zstd"}) == ["java", "java-common", "zstd"]
    assert gone.removable(set(NEEDS)) == ["java", "java-common", "zstd"]
    assert gone.removable({"nftables"}) == []
    assert gone.removable({"java-common"}) == []
    assert gone.removable(set()) == []


def test_the_record_is_of_what_can_be_read_again(installed: ModuleType, tmp_path: Path) -> None:
    installed.note(installed.look())
    assert json.loads(Path(installed.RECORD).read_text()) == {"packages": [], "accounts": {}}
