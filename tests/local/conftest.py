"""One person for all tests: setting up a clone takes a minute."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from person import Person, clone, nobody, share_wheels


@pytest.fixture(scope="session")
def person() -> Iterator[Person]:
    """The person with their clone; at the end nothing of theirs is left."""
    uid = nobody() if os.geteuid() == 0 else None
    made = Person(Path(tempfile.mkdtemp(prefix="regatta-person-", dir="/tmp")), uid)
    try:
        clone(made.clone)
        if uid is not None:
            subprocess.run(["chown", "-R", f"{uid}:{uid}", made.base], check=True)
            made.env |= share_wheels(made.base, uid)
        yield made
    finally:
        made.leave()


@pytest.fixture(scope="session")
def demo(person: Person) -> tuple[int, str]:
    """The status and output of `make demo` in the fresh clone; makes the environments on the way."""
    return person.type("make", "demo", REGATTA_INVENTORY=None)


@pytest.fixture
def ready(person: Person, demo: tuple[int, str]) -> Iterator[Person]:
    """The person with everything set up; after each test nothing of theirs runs, nothing is left."""
    assert demo[0] == 0, demo[1]
    yield person
    assert person.processes() == {}
    assert person.temporary() == []
