"""A host is lost for good in the middle of a training, which continues without it."""

import json
import re
from pathlib import Path

import pytest
from clusters import Cluster, finish, record, wait_for
from faulty import new_name, nothing_left, trained_and_kept, whole
from telling import Teller

BOTH = pytest.mark.parametrize("framework", ["torch", "ray"])
WORKERS, LEFT, EPOCHS = 5, 4, 30


@BOTH
@pytest.mark.whole
def test_a_training_goes_on_without_a_lost_host(
    struck: Cluster, project: Path, tell: Teller, tmp_path: Path, framework: str
) -> None:
    tell.begin("host", "a host is powered off, `--restarts 1 --elastic`", framework)
    name, results = new_name(), tmp_path / "results"
    words = ["run-digits", "--framework", framework, "--workers", str(WORKERS), "--size", "3000"]
    words += ["--epochs", str(EPOCHS)]
    process = struck.background(project, *words, "--restarts", "1", "--elastic", "--name", name)
    trained_and_kept(process)
    struck.lab.off("node3")
    try:
        said = finish(process, 300)
    finally:
        struck.lab.on("node3")
        wait_for(lambda: struck.lab.ssh("node3", "true", check=False).returncode == 0, 60)
    assert process.returncode == 0, said
    assert re.search(f"{name}-g2, generation 2 of {name}, without node3, {LEFT} rank", said)
    assert not re.search(rf"/0 +\| epochs 1/{EPOCHS}", said), "the training started again"
    gone_on = record(project.parent / "results", f"{name}-g2")
    whole(struck)
    struck.fab(*words, "--name", new_name(), results=results)
    undisturbed = record(results, "f-")
    for figure in ("accuracy", "losses"):
        assert gone_on["answer"][figure] == pytest.approx(
            undisturbed["answer"][figure], abs=undisturbed["tolerance"][figure]
        )
    first = json.loads((project.parent / "results" / f"{name}.json").read_text())
    assert first["exit"]["state"] == "lost"
    tell.end(
        f"continues from its checkpoint on the hosts that are left, {LEFT} ranks instead of {WORKERS}; accuracy and "
        "losses are those of a run that nothing happened to, within its tolerance"
    )
    nothing_left(struck, project)
