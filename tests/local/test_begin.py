"""A person with `pip install` alone, in an empty folder: the demo on this machine, and what comes next."""

from pathlib import Path

import pytest
from person import Person

from regatta.records import document

pytestmark = pytest.mark.timeout(1500)  # the first test sets a clone up, on a machine that may be busy


@pytest.fixture
def installed(ready: Person) -> Path:
    """Their `regatta`, installed from the clone into an environment of its own; uv takes files that it has."""
    uv, folder = ready.clone / ".venv/bin/uv", ready.home / "installed"
    for words in (("venv", "-q", folder), ("pip", "install", "-q", "--python", folder / "bin/python", ready.clone)):
        code, text = ready.type(uv, *words, UV_FIND_LINKS=ready.env.get("PIP_FIND_LINKS"))
        assert code == 0, text
    return folder / "bin/regatta"


def test_the_demo_of_this_machine_needs_an_installation_alone(ready: Person, installed: Path) -> None:
    folder = ready.write(ready.home / "empty/.keep", "").parent
    code, text = ready.type(installed, "demo", "--local", cwd=folder, REGATTA_INVENTORY=None)
    assert code == 0, text
    assert "The answers of 3 runs are equal" in text and "Hosts of your own: 'regatta init'" in text
    found = [document.load(path) for path in sorted((folder / "results").glob("*.json"))]
    assert len({one.identity.framework for one in found}) == 3
    code, text = ready.type(installed, "demo", cwd=folder)
    assert (code, "regatta demo --local" in text) == (2, True), text
    code, text = ready.type(installed, "status", cwd=folder, REGATTA_INVENTORY=None)
    assert (code, "'regatta init' asks for your hosts" in text) == (2, True), text
