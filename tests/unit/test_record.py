"""Records: what is written is what is read, and what does not fit is named."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from regatta.errors import RecordError
from regatta.records import record
from regatta.records.building import Account, build
from regatta.records.clocks import Clocks
from regatta.records.document import load, parse, to_dict, to_json, validate
from regatta.records.record import (
    ClusterFacts,
    ExitInfo,
    Failure,
    NodeFacts,
    NodeUse,
    Record,
    RunIdentity,
    Series,
    Speed,
)
from regatta_protocol.events import Cpu, Memory, OverheadEvent, Phase, Ready, Result, WarningEvent
from regatta_protocol.log import DRIVER

VERSIONS = {"python": "3.11.2", "torch": "2.13.0", "ray": "2.50.0"}
NODES = (
    NodeFacts("node1", "10.0.0.1", (0, 2), "EPYC", 8, 2**34, "6.1.0", "Debian 12", VERSIONS),
    NodeFacts("node2", "10.0.0.2", (1,), None, None, None, None, None, VERSIONS),
)
IDENTITY = RunIdentity(
    run_id="ppr-ray-1",
    workload="ppr",
    framework="ray",
    started="2026-01-31T10:00:00.5Z",
    parameters={"alpha": 0.85, "sources": ("a", "b"), "limit": math.inf},
    seed=7,
    release="abc",
    commit="d24ec8c",
    dirty=True,
)


OVERHEAD = OverheadEvent(
    DRIVER,
    0.0,
    source="the log",
    jobs=2,
    tasks=7,
    wall={"session": 2.0, "tasks": 5.0, "program": 1.0},
    work={"scheduling": 1.0, "running": 9.0},
    within={"garbage collection": 0.5},
    own=("session", "scheduling"),
)
USED = {"cpu_seconds": 3.5, "largest_bytes": 2**20, "interface": "eth0", "received_bytes": 7, "sent_bytes": 9}


def example() -> Record:
    clocks = Clocks(3, driver=True)
    clocks.sync_seconds = 0.5
    clocks.start(0.0)
    clocks.feed(Ready(DRIVER, 0.0), 2.0)
    for rank in range(3):
        clocks.feed(Phase(rank, 0.0, "load", 1.0), 9.0)
        clocks.feed(Phase(rank, 0.0, "compute", 4.0), 9.0)
        clocks.feed(Phase(rank, 0.0, "epoch", 2.0), 9.0)
        clocks.feed(Phase(rank, 0.0, "epoch", 2.0), 9.0)
    clocks.feed(Memory(1, 0.0, 2**30), 9.0)
    clocks.feed(Cpu(1, 0.0, 2.5), 9.0)
    clocks.feed(WarningEvent(1, 0.0, "few rows"), 9.0)
    answer = {"sum": 1.0, "loss": math.nan, "top": [["libc6", 0.25]], "low": -math.inf}
    clocks.feed(OVERHEAD, 9.0)
    clocks.feed(OVERHEAD.changed(jobs=9), 9.0)
    clocks.feed(Result(DRIVER, 0.0, answer, {"sum": 1e-9}, ("best: libc6",)), 9.0)
    clocks.end(8.0)
    return build(
        IDENTITY,
        ClusterFacts("lab", NODES),
        Speed(threads=2, backend="gloo", interfaces={"node1": "eth0", "node2": None}, token=True, cache="warm"),
        clocks,
        ExitInfo("succeeded", 0),
        Account(series=Series("ray", 2, 3), driver_node="node1", used={"node2": USED, "node3": USED}),
    )


def failed() -> Record:
    return structs.replace(
        example(),
        answer=None,
        exit=ExitInfo("failed", -9, Failure("killed by SIGKILL", "node2", 1, ("epoch 1", "epoch 2"))),
        series=None,
    )


def test_build_takes_everything_over() -> None:
    made = example()
    assert made.phases.launch == 2.0
    assert made.phases.collect == 1.0
    assert [(r.rank, r.node, r.peak_bytes) for r in made.ranks] == [
        (0, "node1", None),
        (1, "node2", 2**30),
        (2, "node1", None),
    ]
    assert made.ranks[0].repetitions == {"epoch": [2.0, 2.0]}
    assert made.answer == {"sum": 1.0, "loss": "NaN", "top": [["libc6", 0.25]], "low": "-Infinity"}
    assert made.tolerance == {"sum": 1e-9}
    assert made.show == ("best: libc6",)
    assert made.warnings == ("few rows (rank 1)",)
    document = to_dict(made)
    assert document["cluster"]["rank_map"] == ["node1", "node2", "node1"]
    assert document["cluster"]["versions_equal"] is True
    assert document["identity"]["parameters"] == {"alpha": 0.85, "sources": ["a", "b"], "limit": "Infinity"}


def test_what_a_framework_says_of_itself_is_kept_once() -> None:
    told = example().overhead
    assert told is not None and (told.source, told.whole, told.jobs, told.tasks) == ("the log", True, 2, 7)
    assert (told.share(told.wall), told.share(told.work), told.share({})) == (0.25, 0.1, None)


def test_what_a_run_used_is_kept_by_node() -> None:
    made = example()
    assert made.use == (NodeUse("node2", 3.5, None, 2**20, None, None, "eth0", 7, 9),)
    assert [rank.cpu_seconds for rank in made.ranks] == [None, 2.5, None]
    assert (made.cpu_seconds, made.peak_bytes, made.sent_bytes) == (2.5, 2**30, 9)


@pytest.mark.parametrize("odd", ["many", -1, True, None, [1], 2**64, math.nan])
def test_what_a_node_cannot_have_used_is_not_believed(odd: object) -> None:
    said = {"node1": {"cpu_seconds": odd, "sent_bytes": odd, "interface": 7, "node": "node2", "weather": "fine"}}
    clocks = Clocks(1)
    made = build(IDENTITY, ClusterFacts("lab", NODES), Speed(), clocks, ExitInfo("succeeded", 0), Account(used=said))
    assert made.use == (NodeUse("node1"),)
    assert parse(to_json(made), "r").use == made.use


@pytest.mark.parametrize("version", [1, 2])
def test_older_records_are_read_as_if_new(version: int) -> None:
    document = to_dict(example())
    document["schema_version"] = version
    del document["use"], document["overhead"]
    for rank in document["ranks"]:
        del rank["cpu_seconds"]
        rank["laps"] = rank.pop("repetitions")
        if version == 1:
            del rank["progress"]
    made = parse(json.dumps(document), "old.json")
    assert made.use == ()
    assert made.cpu_seconds is None and made.overhead is None
    assert made.ranks[1].phases == example().ranks[1].phases
    assert [rank.repetitions for rank in made.ranks] == [rank.repetitions for rank in example().ranks]
    assert json.loads(to_json(made))["schema_version"] == record.SCHEMA_VERSION


def test_the_driver_is_on_its_node() -> None:
    clocks = Clocks(0, driver=True)
    clocks.feed(Phase(DRIVER, 0.0, "compute", 1.0), 0.0)
    made = build(IDENTITY, ClusterFacts("lab", NODES), Speed(), clocks, ExitInfo("lost"), Account(driver_node="node2"))
    assert [(r.rank, r.node) for r in made.ranks] == [(-1, "node2")]


def test_unequal_versions_are_seen() -> None:
    other = structs.replace(NODES[1], versions={**VERSIONS, "torch": "2.13.1"})
    assert not ClusterFacts("lab", (NODES[0], other)).versions_equal


@pytest.mark.parametrize("made", [example(), failed()], ids=["succeeded", "failed"])
def test_round_trip(made: Record, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(to_json(made))
    assert load(path) == made
    assert "NaN" not in to_json(made).replace('"NaN"', "")


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(record.schema())
    made = jsonschema.Draft202012Validator(record.schema())
    for one in (example(), failed()):
        made.validate(to_dict(one))
    assert [".".join(map(str, path)) for path in REQUIRED if not misses(made, path)] == []


def misses(made: jsonschema.Draft202012Validator, path: tuple[str | int, ...]) -> bool:
    document = copy.deepcopy(to_dict(failed()))
    del at(document, path[:-1])[path[-1]]
    return not made.is_valid(document)


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, item in items for p in paths(item, (*path, key)))]


FREE = ("parameters", "answer")
ALL_PATHS = [
    p for p in paths(to_dict(failed())) if p and p[-1] != "schema_version" and not any(name in p[:-1] for name in FREE)
]


@pytest.mark.parametrize("path", ALL_PATHS, ids=lambda p: ".".join(map(str, p)))
def test_a_wrong_type_anywhere_is_named(path: tuple[str | int, ...]) -> None:
    document = copy.deepcopy(to_dict(failed()))
    at(document, path[:-1])[path[-1]] = ["wrong", 0.5]
    with pytest.raises(RecordError) as caught:
        validate(document, "results/r.json")
    assert "results/r.json" in str(caught.value)
    name = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    assert name in str(caught.value)


MAPS = ("phases", "repetitions", "progress", "tolerance", "interfaces", "wall", "work", "within", "versions")
REQUIRED = [p for p in ALL_PATHS if isinstance(p[-1], str) and not any(p[-2:-1] == (m,) for m in MAPS)]


@pytest.mark.parametrize("path", REQUIRED, ids=lambda p: ".".join(map(str, p)))
def test_a_missing_field_is_named(path: tuple[str | int, ...]) -> None:
    document = copy.deepcopy(to_dict(failed()))
    del at(document, path[:-1])[path[-1]]
    with pytest.raises(RecordError, match=f"'{path[-1]}' is a required property"):
        validate(document, "r")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("identity", "run_id"), "../evil"),
        (("identity", "run_id"), ""),
        (("identity", "run_id"), "name\n"),
        (("identity", "framework"), "Spark 3"),
        (("identity", "started"), "yesterday"),
        (("cluster", "nodes"), []),
        (("speed", "cache"), "hot"),
        (("speed", "threads"), 0),
        (("phases", "load"), -1),
        (("ranks", 0, "peak_bytes"), True),
        (("exit", "state"), "done"),
    ],
)
def test_a_wrong_value_is_named(path: tuple[str | int, ...], value: object) -> None:
    document = to_dict(example())
    at(document, path[:-1])[path[-1]] = value
    with pytest.raises(RecordError, match=str(path[-1])):
        validate(document, "r")


def test_of_many_keys_the_wrong_one_is_named_and_the_document_stays() -> None:
    document = to_dict(example())
    document["ranks"][1]["repetitions"] = {"a": [1.0], "b": [1.0, -1.0], "c": [1.0]}
    before = copy.deepcopy(document)
    with pytest.raises(RecordError, match=r"r does not fit .*: ranks\[1\]\.repetitions\.b\[1\]: expected 'float' >= 0"):
        validate(document, "r")
    assert document == before


def test_an_unknown_field_is_named() -> None:
    document = to_dict(example()) | {"weather": "fine"}
    with pytest.raises(RecordError, match="weather"):
        validate(document, "r")


@pytest.mark.parametrize("version", [0, record.SCHEMA_VERSION + 1, "1", None, True])
def test_an_unknown_version_is_named(version: object) -> None:
    text = json.dumps(to_dict(example()) | {"schema_version": version})
    with pytest.raises(RecordError, match=f"old.json: schema version {version} is unknown"):
        parse(text, "old.json")


def test_nothing_invalid_is_written() -> None:
    bad = structs.replace(example(), exit=ExitInfo("done"))  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"run ppr-ray-1 .*exit\.state"):
        to_json(bad)


def test_what_json_cannot_hold_is_an_error_of_ours() -> None:
    bad = structs.replace(example(), answer={"x": object()})
    with pytest.raises(RecordError, match="ppr-ray-1"):
        to_json(bad)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "NaN", '{"schema_version": 1}', "[" * 100_000])
def test_other_texts_are_named(text: str) -> None:
    with pytest.raises(RecordError, match=r"odd\.json"):
        parse(text, "odd.json")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_are_refused(constant: str) -> None:
    text = to_json(example()).replace('"NaN"', constant)
    with pytest.raises(RecordError, match=rf"r\.json .*{constant} is not JSON"):
        parse(text, "r.json")


def test_every_truncation_is_named() -> None:
    text = to_json(example()).rstrip()
    for length in range(0, len(text), 97):
        with pytest.raises(RecordError, match=r"r\.json is truncated or not JSON"):
            parse(text[:length], "r.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match=r"binary\.json cannot be read"):
        load(tmp_path / "binary.json")
