"""Frameworks: which there are, how a person names them, and that nothing but an adapter knows one."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regatta.errors import RegattaError, UsageError
from regatta.frameworks import choice, registry
from regatta.frameworks.api import Judge, StartedRun
from regatta.frameworks.plan import Plan, Program, Rank
from regatta.hosts.cluster import Cluster, Node
from regatta.hosts.remote import Remote
from regatta.paths import PROJECT
from regatta.report import theme
from regatta.run import causes, firewall
from regatta.run.outcome import Accounts
from regatta_protocol.operations.services import Act, Acted, UnitState
from regatta_protocol.run import Ended, Failure
from regatta_protocol.states import State

OURS = ("single", "torch", "ray")
IN_PROCESSES = ("multiprocessing", "processes", "joblib-loky", "ray-actors", "ray-pool", "joblib-ray")
PLAIN = ("zeromq", "dask", "mpi")
OF_TENSORFLOW = ("tensorflow", "ray-tensorflow")
OF_ITEMS = (*IN_PROCESSES, *PLAIN)
EVERY = (*OURS, *OF_ITEMS, "ray-tune", "spark", *OF_TENSORFLOW)
NATS = """\
from regatta.frameworks.api import Framework
class Nats(Framework):
    name = "nats"
    def specs(self, plan, cluster):
        return {}
    def available(self, cluster):
        return "no worker has it" if cluster.name == "here" else None
FRAMEWORK = Nats()
"""


@pytest.fixture
def forget() -> Iterator[None]:
    """The registry forgets after a test what it has learned during it."""
    yield
    for known in (registry.find, registry.of_run, registry._brought):
        known.cache_clear()


@pytest.fixture
def nats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    """A package outside that brings an adapter, as it would be installed."""
    (tmp_path / "their_nats.py").write_text(NATS)
    (tmp_path / "their_nats-1.dist-info").mkdir()
    (tmp_path / "their_nats-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: their-nats\nVersion: 1\n")
    entry = "[regatta.frameworks]\nnats = their_nats:FRAMEWORK\nbroken = their_nats:NOTHING\ntorch = their_nats:NATS\n"
    (tmp_path / "their_nats-1.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    for known in (registry.find, registry.of_run, registry._brought):
        known.cache_clear()
    return tmp_path


@pytest.fixture
def cluster(remote: Remote) -> Cluster:
    return remote.cluster


def test_names_import_no_adapter() -> None:
    text = "import sys; from regatta.frameworks import registry; print(*registry.names())\n"
    text += "print(*[name for name in sys.modules if name.endswith('.adapter')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.splitlines() == [" ".join(sorted(EVERY)), ""]


def test_only_the_adapter_that_is_asked_for_is_imported() -> None:
    text = "import sys; from regatta.frameworks import registry; registry.find('torch')\n"
    text += "print(*sorted(name for name in sys.modules if name.endswith('.adapter')))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.split() == ["regatta.frameworks.torch.adapter"]


def test_every_adapter_has_its_name_and_a_place_of_its_own() -> None:
    found = [registry.find(name) for name in registry.names()]
    assert [framework.name for framework in found] == sorted(EVERY)
    assert len({*theme.of_frameworks(EVERY).values()}) == len(EVERY)
    assert [framework.name for framework in found if framework.single] == ["single"]
    drivers = {"ray", "ray-tune", "ray-tensorflow", "spark", *IN_PROCESSES}
    assert [framework.name for framework in found if framework.driver] == sorted(drivers)
    assert [*EVERY] == theme.ordered(EVERY)


def test_the_order_is_single_torch_ray_then_others_by_name() -> None:
    assert theme.ordered(["yarn", "ray", "torch", "nats", "single", "ray"]) == [*OURS, "nats", "yarn"]


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match=f"there is no framework storm: there are {', '.join(sorted(EVERY))}"):
        registry.find("storm")


def test_a_run_of_an_unknown_framework_is_plain_ranks(cluster: Cluster) -> None:
    found = registry.of_run("storm")
    assert (found.name, found.driver, found.single, found.served(cluster), found.units) == (
        "storm",
        False,
        False,
        False,
        (),
    )
    with pytest.raises(UsageError, match="has no framework storm"):
        found.specs(None, cluster)  # type: ignore[arg-type]


def test_a_package_brings_a_framework(nats: Path, cluster: Cluster) -> None:
    assert registry.names() == tuple(sorted(("broken", "nats", *EVERY)))
    assert registry.find("nats").name == "nats"
    assert registry.find("torch").launchers, "ours comes before that of a package"
    with pytest.raises(RegattaError, match=r"the framework broken cannot be loaded: .*NOTHING"):
        registry.find("broken")
    assert registry.of_run("broken").name == "broken", "its records can be read all the same"
    with pytest.raises(UsageError, match="nats cannot be used on here: no worker has it"):
        choice.chosen("nats", [*OURS, "nats"], cluster)
    assert choice.chosen("all", [*OURS, "nats", "storm"], cluster) == OURS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch", ("torch",)),
        ("torch,ray,single", ("torch", "ray", "single")),
        ("ray, torch", ("ray", "torch")),
        ("both", ("torch", "ray")),
        ("all", OURS),
    ],
)
def test_a_list_in_the_order_given(text: str, wanted: tuple[str, ...], cluster: Cluster) -> None:
    assert choice.chosen(text, OURS, cluster) == wanted


@pytest.mark.parametrize(
    ("text", "allowed", "said"),
    [
        ("toch", OURS, "there is no framework 'toch', there are single, torch and ray.*Did you mean torch"),
        ("torch,", OURS, "there is no framework ''"),
        ("torch,ray,torch", OURS, "'torch,ray,torch' names torch twice: name it once"),
        ("ray", ("single", "torch"), "it does not run under ray: choose from single and torch"),
        ("both", ("single", "torch"), "it does not run under ray"),
        ("torch,both", OURS, "there is no framework 'both'"),
    ],
)
def test_what_cannot_be_chosen(text: str, allowed: tuple[str, ...], said: str, cluster: Cluster) -> None:
    with pytest.raises(UsageError, match=said):
        choice.chosen(text, allowed, cluster)


def test_spark_is_there_where_it_was_provisioned(cluster: Cluster, tmp_path: Path) -> None:
    nodes = tuple(replace(node, local=False) for node in cluster.nodes)
    allowed, here = ["single", "spark"], replace(cluster, folder=tmp_path, nodes=nodes)
    assert choice.chosen("all", allowed, here) == ("single",)
    with pytest.raises(UsageError, match=r"spark cannot be used on .*spark_enabled"):
        choice.chosen("spark", allowed, here)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/spark_secret").touch()
    assert choice.chosen("all", allowed, here) == ("single", "spark")


def test_spark_is_asked_for_as_many_cores_as_there_are_ranks(cluster: Cluster) -> None:
    head = cluster.head
    ranks = tuple(Rank(number, number, head) for number in range(3))
    plan = Plan("r", "spark", Program.script("job.py", ["1"]), "rel", ranks, 1, "env")
    made = registry.find("spark").specs(plan, cluster)
    assert list(made) == [head.name]
    spec = made[head.name]
    assert [(one.rank, one.argv[1:]) for one in spec.ranks] == [(-1, ("job.py", "1"))]
    assert "spark.cores.max=3" in shlex.split(spec.env["PYSPARK_SUBMIT_ARGS"])
    release, boot, spark, *_ = spec.env["PYTHONPATH"].split(":")
    assert release.endswith("/releases/rel") and boot.endswith("/boot") and spark == f"{head.root}/spark"


def test_all_are_those_that_bring_no_packages(cluster: Cluster) -> None:
    assert choice.chosen("all", ["single", "zeromq", "ray"], cluster) == ("single", "ray")
    assert choice.chosen("zeromq", ["single", "zeromq"], cluster) == ("zeromq",)
    assert choice.chosen("all", ["mpi", "dask"], cluster) == ("mpi", "dask"), "there are no others"


def test_runs_are_chosen_by_a_framework_that_there_is_or_was() -> None:
    assert choice.recorded("ray", []) == "ray"
    assert choice.recorded("storm", ["torch", "storm"]) == "storm"
    with pytest.raises(
        UsageError,
        match=r"no framework 'storn', there are dask, joblib-loky, .*, torch and zeromq\. Did you mean storm",
    ):
        choice.recorded("storn", ["storm"])


def test_a_launcher_that_none_of_them_has() -> None:
    choice.check_launcher("static", OURS)
    choice.check_launcher("static", ("ray",))
    with pytest.raises(UsageError, match="--launcher must be one of env, static, c10d, not 'mpi'"):
        choice.check_launcher("mpi", OURS)


def test_colours_of_unknown_frameworks_are_spare_ones_and_stay() -> None:
    alone = theme.of_frameworks(["storm"])["storm"]
    found = theme.of_frameworks(["storm", *OURS, "nats", "yarn"])
    assert list(found) == [*OURS, "nats", "storm", "yarn"]
    assert len(set(found.values())) == 6
    assert alone in theme.SPARE and found["torch"] == "#e0632a"


OF_SERVICE = "what provisioning does for a service"
OF_BUILD = "the build of a package: variables and options of provisioning"
A_WORD = "an English word: processes that are counted"
TYPED = "other launchers, and their flags, that people type before a script"
RESULTS = "the folder where Ray's libraries keep results: a path on nodes"
MAY_NAME = {
    "node/cgroup.py": ({"processes"}, A_WORD),
    "run/outcome.py": ({"processes"}, A_WORD),
    "node/members.py": (
        {"dask", "joblib-loky", "multiprocessing", "processes", "single", "torch", "zeromq"},
        "root's program has its own list of what members may start",
    ),
    "node/notes.py": ({"ray"}, "notes of runs that an earlier Regatta started"),
    "node/pruning.py": ({"ray"}, RESULTS),
    "node/shared.py": ({"ray"}, RESULTS),
    "node/sitecustomize_rank.py": ({"torch"}, "any rank may import torch, whatever starts it"),
    "provisioning/__main__.py": ({"spark", "torch"}, f"{OF_SERVICE}; {OF_BUILD}"),
    "provisioning/bundle.py": ({"torch"}, OF_BUILD),
    "provisioning/bundling.py": ({"torch"}, OF_BUILD),
    "provisioning/locks.py": ({"torch"}, OF_BUILD),
    "provisioning/spark.py": ({"pyspark", "spark"}, OF_SERVICE),
    "provisioning/torchlock.py": ({"torch"}, OF_BUILD),
    "provisioning/wheels.py": ({"torch"}, OF_BUILD),
    "records/record.py": ({"single"}, "records of the single process are read, whichever adapters there are"),
    "report/curves.py": ({"single"}, "a field of a chart's rows"),
    "options/foreign.py": ({"mpi", "ray", "spark", "torch"}, TYPED),
    "report/theme.py": ({*EVERY}, "presentation: colours and order of those that are known, with a default"),
    "tasks/notebook.py": ({"ray"}, "the notebook is a driver of Ray, whichever frameworks there are"),
    "tasks/services.py": ({"spark"}, "the command `spark-history`"),
}
"""Files of `regatta/` that name frameworks or workloads, which, and why. All others ask an adapter or a card."""
WORDS = {"ray", "raylet", "spark", "pyspark", "torch", "mpi", "dask", "tensorflow", "zeromq", "joblib", "loky"}
"""Of names those that are no English words: they are found within identifiers and paths, too."""
OWN = re.compile(r"regatta/(frameworks/(\w+/.*|table\.py)|project/.*)")


def names_in(path: Path, known: set[str]) -> set[str]:
    """The frameworks and workloads that identifiers and texts of a file name; not docstrings and sentences."""
    tree = ast.parse(path.read_text())
    bodies = [getattr(node, "body", None) for node in ast.walk(tree)]
    said = {id(one.value) for body in bodies if isinstance(body, list) for one in body if isinstance(one, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            sentence = re.search(r"\s", node.value.strip())
            within = set() if sentence else WORDS & {*re.split(r"[^a-z]+", node.value.lower())}
            found |= {node.value} if node.value in known else within
        for field in ("id", "arg", "attr", "name", "asname"):
            if isinstance(word := getattr(node, field, None), str):
                found |= WORDS & {*re.split(r"[_.]", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower())}
    return found


def test_what_differs_between_frameworks_and_workloads_is_asked_of_them() -> None:
    cards = {path.parent.name for path in (PROJECT / "workloads").glob("*/card.toml")}
    known = {*registry.names(), *cards, *(name.replace("_", "-") for name in cards)}
    assert len(cards) > 10
    files = {path.relative_to(PROJECT).as_posix(): path for path in (PROJECT / "regatta").rglob("*.py")}
    found = {name: names_in(path, known) for name, path in files.items() if not OWN.match(name)}
    assert {name.partition("/")[2]: names for name, names in found.items() if names} == {
        name: names for name, (names, _) in MAY_NAME.items()
    }


def test_a_rank_that_exits_because_another_is_gone_is_not_to_blame(pair: Remote) -> None:
    """Under MPI that is an exit code; whoever has it may have been seen first."""
    failures = [(14, 1.0), (1, 2.0), (14, 3.0)]
    exits = {
        f"node{rank}": Ended(State.FAILED, failure=Failure(rank, code, at=at))
        for rank, (code, at) in enumerate(failures)
    }
    for name, node in (("mpi", "node1"), ("torch", "node0")):
        judge = Judge(StartedRun("r", pair.cluster, pair.cluster.nodes, registry.find(name), {}))
        found = causes.failure(judge, Accounts(exits=dict(exits)))
        assert found and found.node == node


class Walled(Remote):
    """Requests to nodes of which `there` has no firewall."""

    bare = ("there",)

    def call(self, node: Node, asked: Any, **_: Any) -> Any:
        assert asked == Act("status", (firewall.UNIT,))
        return Acted({} if node.name in self.bare else {firewall.UNIT: UnitState("active", "")})


@pytest.mark.parametrize("name", OF_TENSORFLOW)
def test_ranks_that_believe_everybody_need_a_firewall(pair: Remote, name: str) -> None:
    framework = registry.find(name)
    assert "no firewall" in (framework.available(pair.cluster) or "")
    nodes = tuple(replace(node, local=False) for node in pair.cluster.nodes)
    hosts = Walled(replace(pair.cluster, nodes=nodes, workers=nodes, head=nodes[0]))
    assert framework.available(hosts.cluster) is None
    with pytest.raises(UsageError, match="there has no firewall"):
        firewall.check(hosts, framework)
    hosts.bare = ()
    firewall.check(hosts, framework)


def test_tensorflow_is_refused_on_this_machine_alone(here: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").touch()
    card = '[workloads.own]\nabout = "x"\ncommand = "own.py"\nframeworks = ["tensorflow"]\n'
    (tmp_path / "regatta.toml").write_text(card)
    program = str(Path(sys.executable).with_name("regatta"))
    done = subprocess.run(
        [program, "run", "own", f"--inventory={here}", "--workers=2", "--framework=tensorflow"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout
    assert "tensorflow cannot be used on here: its ranks listen on all addresses" in done.stderr
