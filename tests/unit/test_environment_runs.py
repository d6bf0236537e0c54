"""A workload of a project that needs a package which this machine's environment lacks, run under three frameworks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import wheels

from regatta.api.cluster import Cluster
from regatta.errors import RunFailedError
from regatta.paths import PROJECT
from regatta.run.prepare import Preparer, Ready
from regatta.run.request import Request

NODE = PROJECT / ".venv-node/bin/python"
PROGRAM = """\
import os, json
import lacking
where = {lacking.__file__}
if os.environ["REGATTA_FRAMEWORK"] == "ray":
    import ray
    ray.init()
    @ray.remote
    def told():
        import lacking
        return lacking.__file__
    where.add(ray.get(told.remote()))
if os.environ.get("RANK", "0") == "0":
    answer = {"value": lacking.VALUE, "places": len(where)}
    event = {"event": "result", "rank": 0, "t": 0, "answer": answer, "tolerance": {}, "show": []}
    print("@regatta " + json.dumps(event))
"""
CARD = """\
[environment]
requirements = "needs.txt"
[workloads.needy]
about = "Needs what is not there"
command = "program.py"
frameworks = ["single", "torch", "ray"]
"""


SMALL = """\
[environment]
requirements = "needs.txt"
[workloads.small]
about = "Needs a package"
command = "small.py"
frameworks = ["single", "torch"]
"""


def test_packages_are_there_before_the_first_timed_run_and_a_failure_says_what_is_recorded(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels.make(tmp_path / "wheels", "lacking", "1.0", {"lacking.py": "VALUE = 42\n"})
    project = tmp_path / "project"
    project.mkdir()
    (project / "small.py").write_text("import os, lacking\nassert os.environ['REGATTA_FRAMEWORK'] != 'torch'\n")
    (project / "needs.txt").write_text("lacking\n")
    (project / "regatta.toml").write_text(SMALL)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(project)
    there: list[bool] = []
    ready = Preparer.ready

    def looked(preparer: Preparer, request: Request) -> Ready:
        there.append(bool([*here.rglob("lacking.py")] or [*tmp_path.rglob("layers/*/lacking.py")]))
        return ready(preparer, request)

    monkeypatch.setattr(Preparer, "ready", looked)
    said: list[str] = []
    with pytest.raises(RunFailedError), Cluster(str(here), results=tmp_path, say=said.append) as cluster:
        cluster.compare("small", framework="single,torch", workers=1)
    assert there == [True, True]
    assert "1 of 2 runs are recorded" in "\n".join(said)


@pytest.mark.whole  # on hosts: tests/lab/test_environment.py
@pytest.mark.skipif(not NODE.exists(), reason="needs .venv-node: make setup-node")
def test_packages_reach_every_process_under_each_framework(tmp_path: Path, here: Path) -> None:
    wheels.make(tmp_path / "wheels", "lacking", "1.0", {"lacking.py": "VALUE = 42\n"})
    hosts = (here / "hosts.yml").read_text().replace(sys.executable, str(NODE))
    (here / "hosts.yml").write_text(hosts)
    project = tmp_path / "project"
    project.mkdir()
    (project / "program.py").write_text(PROGRAM)
    (project / "needs.txt").write_text("lacking\ntorch\nray\n")
    (project / "regatta.toml").write_text(CARD)
    env = os.environ | {"UV_FIND_LINKS": str(tmp_path / "wheels"), "PIP_NO_INDEX": "1", "REGATTA_INVENTORY": str(here)}
    command = [Path(sys.executable).parent / "regatta", "run", "needy", "--framework", "all", "--workers", "2"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("environment: 1 package beyond the base (lacking 1.0)") == 1
    assert "answers of 3 runs are equal" in done.stdout
    kept = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")]
    assert [one["identity"]["parameters"]["packages"] for one in kept] == [{"lacking": "1.0"}] * 3
    without = subprocess.run(
        [*command, "--no-environment"], cwd=project, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert without.returncode and "No module named 'lacking'" in without.stdout + without.stderr
