"""Each plan of Regatta's, scaled and with one repeat: run, sealed, checked and reproduced in another folder."""

from pathlib import Path

import pytest
from person import Person
from scaled_plans import OF_SPARK, ran, scaled

from regatta.experiments import plan_file

pytestmark = [pytest.mark.whole, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def key(person: Person) -> Path:
    """A key of theirs, that signs."""
    path = person.base / "signs"
    code, said = person.type("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
    assert code == 0, said
    return path


@pytest.mark.parametrize("name", sorted({*plan_file.shipped()} - {*OF_SPARK}))
def test_a_plan_is_sealed_and_reproduced(ready: Person, key: Path, name: str) -> None:
    plan = ready.write(ready.clone / f"{name}-scaled.toml", scaled(name))
    here, there, file = ready.base / f"{name}-here", ready.base / f"{name}-there", ready.base / f"{name}.regatta.zip"
    for words in (
        ("bench", f"./{plan.name}"),
        ("results-seal", plan.stem, "--plan", plan.name, "--key", key, "--out", file),
        ("results-verify", file, "--signer", f"{key}.pub"),
        ("reproduce", file, "--into", there, "--yes"),
    ):
        code, said = ready.type(ready.fab, *words, REGATTA_RESULTS=str(here))
        assert code == 0, said
    assert ran(there / "results") == ran(here)
