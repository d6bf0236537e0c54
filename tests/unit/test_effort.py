"""The effort of each framework: what is counted of sources, of packages, and of declarations."""

from pathlib import Path

import kept
import pytest

from regatta.cards import discovery
from regatta.effort import code, counted, installed
from regatta.effort.effort import FirstRun
from regatta.records import bare
from regatta.report import effort as tables

LOOP = '''"""A loop."""
def spread(do, tasks):
    """Do them."""
    return map(do, tasks)   # one after the other
'''
POOL = '''"""A pool."""
import pool
from workloads.common.pool import helper

def spread(do, tasks):
    with pool.Pool() as made:
        return made.map(
            do, tasks
        )
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with two frameworks, and a workload with a module for one of them."""
    written = {
        "workloads/common/frameworks/single.py": LOOP,
        "workloads/common/frameworks/pool.py": POOL,
        "workloads/common/pool/helper.py": "import pool\nx = 1\n",
        "workloads/mine/part.py": "from workloads.mine import pooled\nfrom workloads.common import shared\n",
        "workloads/mine/pooled.py": "# a comment\nimport pool\n\n\ny = 2\n",
        "workloads/common/shared.py": "z = 3\n",
        "workloads/plain/part.py": "z = 3\n",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lines_beyond_the_plain_loop_are_counted_without_comments_and_line_breaks(root: Path) -> None:
    assert code.of_workload("plain", "single", root) == 0
    assert code.of_workload("plain", "pool", root) == 4 + 2  # of the framework's module, and of its helper
    assert code.of_workload("mine", "pool", root) == 4 + 2 + 2  # and of the workload's own module
    assert code.of_workload("mine", "other", root) is None
    assert code.outside("pool", root) == {"pool"}
    assert code.bare(root) == {}


def test_frameworks_of_regatta_are_counted() -> None:
    found = {(one.workload, one.framework): one for one in counted.efforts(discovery.ours().values(), {}, {})}
    assert found["digits", "single"].lines == 0 and found["perfect", "single"].bare is None
    assert 0 < found["digits", "torch"].lines < found["digits", "ray"].lines
    assert found["graph-of-tasks", "ray"].lines > found["render-words", "ray"].lines  # its own module of objects
    assert found["perfect", "multiprocessing"].bare < found["perfect", "zeromq"].bare
    spark = found["ppr", "spark"]
    assert spark.services == ("Spark",) and spark.ports == 5 and spark.ranged
    assert spark.steps == ("regatta provision", "spark_enabled: true", "regatta run")
    assert "dashboard of Spark" in spark.seen and found["ppr", "torch"].seen == ("progress",)


def test_packages_and_their_bytes_are_those_of_the_lists_of_files(tmp_path: Path) -> None:
    for name, needs, size in (("one", "two; extra == 'more'", 10), ("two", "absent", 20), ("three", "one[more]", 300)):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {needs}\n")
        (folder / "RECORD").write_text(
            f'{name}/__init__.py,sha256=x,{size}\n"{name}/a,b.py",,5\n{name}-1.dist-info/RECORD,,\n'
        )
    of = installed.known([tmp_path])
    assert installed.needed(["one>=1"], of) == {"one"}
    assert installed.needed(["three"], of) == {"one", "two", "three"}
    assert installed.needed(["absent"], of) is None
    assert installed.size({"one", "three"}, of) == 320
    assert installed.providing(["one", "else"], of) == ["else", "one"]


def test_the_first_run_of_each_is_the_earliest_that_succeeded() -> None:
    runs = kept.records()
    first = min((run for run in runs if run.identity.workload == "digits"), key=lambda run: run.identity.started)
    failed = kept.failed(first)
    own = ("digits", first.identity.framework)
    assert tables.first_runs([failed, *reversed(runs)])[own] == FirstRun(first.phases.total)
    found = tables.first_runs([failed, *reversed(runs)], {first.cluster.name: 200.0})
    assert found[own].from_bare == 200.0 + first.phases.total


def test_how_long_bare_hosts_took_is_remembered_by_the_name_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGATTA_CACHE", str(tmp_path / "cache"))
    assert bare.known() == {}
    for name, seconds in (("lab", 300.0), ("fleet", 900.0), ("lab", 200.0)):
        bare.keep(name, seconds)
    assert bare.known() == {"lab": 200.0, "fleet": 900.0}
    (tmp_path / "cache/provisioned.json").write_text("{")
    assert bare.known() == {}


def test_a_table_has_a_row_for_each_framework_of_a_workload() -> None:
    chosen = discovery.ours()["digits"]
    table = tables.table(
        counted.efforts([chosen], {}, {("digits", "ray"): FirstRun(49.3, 249.3)}, {("digits", "ray"), ("x", "y")})
    )
    assert len(table.columns) == len(table.rows[0])
    ((workload, framework, *_, seconds, from_bare, _seen),) = table.rows
    assert (workload, framework, seconds, from_bare) == ("digits", "ray", "49.3 s", "4'09''")
