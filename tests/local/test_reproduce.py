"""Each plan of Regatta's, scaled and with one repeat: run, sealed, checked and reproduced in another folder."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from person import Person, clone
from scaled_plans import OF_SPARK, ran, scaled

from regatta.experiments import plan_file

pytestmark = [pytest.mark.whole, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def signer() -> Iterator[Person]:
    """Who runs the tests, with a clean clone and a key: ssh-keygen signs only for accounts that have a name."""
    made = Person(Path(tempfile.mkdtemp(prefix="regatta-signer-", dir="/tmp")), None)
    try:
        clone(made.clone)
        for words in (("make", "setup-node"), ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made.base / "key")):
            code, said = made.type(*words)
            assert code == 0, said
        yield made
    finally:
        made.leave()


@pytest.mark.parametrize("name", sorted({*plan_file.shipped()} - {*OF_SPARK}))
def test_a_plan_is_sealed_and_reproduced(signer: Person, name: str) -> None:
    plan = signer.write(signer.clone / f"{name}-scaled.toml", scaled(name))
    here, there, file = (signer.base / f"{name}{end}" for end in ("-here", "-there", ".regatta.zip"))
    for words in (
        ("bench", f"./{plan.name}"),
        ("results-seal", plan.stem, "--plan", plan.name, "--key", signer.base / "key", "--out", file),
        ("results-verify", file, "--signer", signer.base / "key.pub"),
        ("reproduce", file, "--into", there, "--yes"),
    ):
        code, said = signer.type(signer.fab, *words, REGATTA_RESULTS=str(here))
        assert code == 0, said
    assert ran(there / "results") == ran(here)
    assert not Path("/tmp/dask-scratch-space").exists(), "dask leaves it unless it gets another folder"
