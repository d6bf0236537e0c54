"""Variables that a person gives a run reach its processes; hidden values reach nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regatta.environment import variables
from regatta.errors import UsageError

SCRIPT = """\
import os
print(*(f"{name}={os.environ.get(name)}" for name in ("OWN", "TYPED", "OMP_NUM_THREADS")))
print("secret has", len(os.environ["SECRET"]), "letters, shell's", len(os.environ["FROM_SHELL"]))
"""


def test_values_reach_the_ranks_and_hidden_ones_no_record_and_no_file(tmp_path: Path, here: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "t.py").write_text(SCRIPT)
    (project / "regatta.toml").write_text('[environment.variables]\nOWN = "o"\nTYPED = "of the project"\n')
    secret = tmp_path / "secrets.env"
    secret.write_text("# mine\nexport SECRET='correct horse'\n\n")
    secret.chmod(0o600)
    command = [str(Path(sys.executable).with_name("regatta")), "torchrun", "--workers=2", f"--inventory={here}"]
    command += ["--env", "TYPED=by hand", "--env", "FROM_SHELL", "--env=OMP_NUM_THREADS=3", f"--env-file={secret}"]
    env = os.environ | {"FROM_SHELL": "battery"}
    done = subprocess.run(
        [*command, "t.py"], cwd=project, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("OWN=o TYPED=by hand OMP_NUM_THREADS=3") == 2
    assert done.stdout.count("secret has 13 letters, shell's 7") == 2
    (record,) = (tmp_path / "results").glob("*.json")
    given = json.loads(record.read_text())["identity"]["parameters"]["variables"]
    assert given == {"OWN": "o", "TYPED": "by hand", "OMP_NUM_THREADS": "3"}
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != secret]
    assert texts and not any(b"correct horse" in text or b"battery" in text for text in texts)


@pytest.mark.parametrize(
    ("words", "content", "mode", "said"),
    [
        (["PATH=/x"], None, 0, "--env: PATH is set by Regatta"),
        (["SPARK_HOME=/x"], None, 0, "SPARK_HOME is set by Regatta"),
        (["REGATTA_X=1"], None, 0, "REGATTA_X is set by Regatta"),
        (["1A=2"], None, 0, "'1A' is no name of a variable"),
        (["NO_SUCH_VARIABLE"], None, 0, "this shell has no variable of that name"),
        ([], "A=1\nhunter2\n", 0o600, "line 2: is not NAME=VALUE$"),
        ([], "A=1\n", 0o644, r"others may read it \(mode 0644\): chmod 600"),
    ],
)
def test_what_cannot_be_given_is_said(tmp_path: Path, words: list[str], content: str, mode: int, said: str) -> None:
    file = tmp_path / "own.txt"
    if content:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(UsageError, match=said):
        variables.typed(words, [str(file)] if content else [])


def test_a_file_of_hidden_values_does_not_travel_with_the_code(tmp_path: Path, here: Path) -> None:
    (tmp_path / "t.py").write_text("print(1)")
    (tmp_path / "own.txt").write_text("SECRET=x\n")
    (tmp_path / "own.txt").chmod(0o600)
    (tmp_path / ".regattaignore").write_text("!/own.txt\n")
    command = [str(Path(sys.executable).with_name("regatta")), "torchrun", "--workers=1", f"--inventory={here}"]
    command += ["--env-file=own.txt", "t.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode and ".regattaignore leave it out ('/own.txt')" in done.stderr
    (tmp_path / ".regattaignore").write_text("/own.txt\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
