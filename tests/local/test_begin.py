"""A person with only `pip install`, in an empty folder: the demo on this machine, and what comes next."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from person import PROJECT, Person

from regatta.records import document

pytestmark = pytest.mark.timeout(1500)  # the first test sets a clone up, on a machine that may be busy


@pytest.fixture
def installed(person: Person) -> Iterator[Path]:
    """Their `regatta`, installed from the clone into its own environment; uv takes files that it has."""
    uv, folder = person.base / "bin/uv", person.home / "installed"
    shutil.copy2(PROJECT / ".venv/bin/uv", uv)
    env = {"UV_FIND_LINKS": person.env.get("PIP_FIND_LINKS"), "UV_DEFAULT_INDEX": person.env.get("PIP_INDEX_URL")}
    for words in (("venv", "-q", folder), ("pip", "install", "-q", "--python", folder / "bin/python", person.clone)):
        code, text = person.type(uv, *words, UV_SYSTEM_CERTS="true", **env)
        assert code == 0, text
    yield folder / "bin/regatta"
    assert person.processes() == {}
    assert person.temporary() == []


def test_the_demo_of_this_machine_needs_an_installation_alone(person: Person, installed: Path) -> None:
    folder = person.write(person.home / "empty/.keep", "").parent
    code, text = person.type(installed, "demo", "--local", cwd=folder, REGATTA_INVENTORY=None)
    assert code == 0, text
    assert "The answers of 3 runs are equal" in text and "Hosts of your own: 'regatta init'" in text
    found = [document.load(path) for path in sorted((folder / "results").glob("*.json"))]
    assert len({one.identity.framework for one in found}) == 3
    code, text = person.type(installed, "demo", cwd=folder)
    assert (code, "regatta demo --local" in text) == (2, True), text
    code, text = person.type(installed, "status", cwd=folder, REGATTA_INVENTORY=None)
    assert (code, "'regatta init' asks for your hosts" in text) == (2, True), text
