"""Events: what is read, what is refused, and that no text makes the parser raise."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regatta_protocol.events import (
    Chosen,
    Cpu,
    ErrorEvent,
    Event,
    Exchanged,
    Memory,
    Phase,
    Progress,
    RankFailed,
    Ready,
    Result,
    UnknownEvent,
    WarningEvent,
    parse_line,
)
from regatta_protocol.log import DRIVER

KINDS = ["ready", "phase", "progress", "result", "memory", "cpu", "warning", "failed", "error"]
NAMES = ["event", "rank", "t", "name", "seconds", "what", "done", "total", "answer", "tolerance", "show"]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def line(event: str, rank: object = 0, t: object = 10.5, **fields: object) -> str:
    return "@regatta " + json.dumps({"event": event, "rank": rank, "t": t, **fields})


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (line("ready", rank=3), Ready(3, 10.5)),
        (line("phase", name="load", seconds=2), Phase(0, 10.5, "load", 2.0)),
        (line("progress", what="epoch", done=1, total=3), Progress(0, 10.5, "epoch", 1, 3)),
        (
            line("progress", what="epoch", done=1, total=3, loss=0.5, residual=1e-9),
            Progress(0, 10.5, "epoch", 1, 3, residual=1e-9, loss=0.5),
        ),
        (
            line("progress", what="sources", done=0, total=2, residual=0.5, iterations=7),
            Progress(0, 10.5, "sources", 0, 2, residual=0.5, iterations=7.0),
        ),
        (
            line("result", rank=DRIVER, answer={"sum": 1}, tolerance={"sum": 1e-9}, show=["one"]),
            Result(DRIVER, 10.5, {"sum": 1}, {"sum": 1e-9}, ("one",)),
        ),
        (line("result", answer={}), Result(0, 10.5, {}, {}, ())),
        (line("memory", peak_bytes=2**40), Memory(0, 10.5, 2**40)),
        (line("cpu", seconds=1.5), Cpu(0, 10.5, 1.5)),
        (line("exchanged", sent_bytes=12, times=3), Exchanged(0, 10.5, 12, 3)),
        (
            line("chosen", option="partition", value="graph", why="it is faster"),
            Chosen(0, 10.5, "partition", "graph", "it is faster"),
        ),
        (line("warning", message="few rows"), WarningEvent(0, 10.5, "few rows")),
        (
            line("failed", rank=DRIVER, of=1, address="10.0.0.2", words="gone"),
            RankFailed(DRIVER, 10.5, of=1, address="10.0.0.2", words="gone"),
        ),
        (line("error", message="no such file"), ErrorEvent(0, 10.5, "no such file")),
        (line("tide", height=3), UnknownEvent(0, 10.5, "tide", {"height": 3})),
    ],
)
def test_every_kind_of_the_contract(text: str, event: Event) -> None:
    assert parse_line(text) == event


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_the_contracts_word(kind: str) -> None:
    numbers = {"seconds": 1, "done": 1, "total": 1, "peak_bytes": 1}
    fields = {"name": "n", "what": "w", "answer": {}, "message": "m", "of": 1, "words": "w", **numbers}
    parsed = parse_line(line(kind, **fields))
    assert parsed is not None
    assert parsed.kind == kind
    assert not (isinstance(parsed, WarningEvent) and "malformed" in parsed.message)


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "\x1b[36m(Worker pid=81, ip=10.0.0.2)\x1b[0m {}",
        "\x1b[36m{}\x1b[0m",
        "loading ... {}",
        "no newline before{}",
        "{} [repeated 3x across cluster]",
        "{}\r\n",
        "@regatta {{broken {}",
    ],
)
def test_found_anywhere_in_a_line(around: str) -> None:
    assert parse_line(around.format(line("ready", rank=1))) == Ready(1, 10.5)


@pytest.mark.parametrize(
    "text", ["", "epoch 1", "@regatta", "@regatta ready", "regatta {}", "@regatta [1]", "@Regatta {}"]
)
def test_log_is_not_an_event(text: str) -> None:
    assert parse_line(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@regatta {", "not JSON"),
        ('@regatta {"event": "ready", "rank": 0', "not JSON"),
        ("@regatta {}", "'rank'"),
        (line("ready", rank="0"), "'rank'"),
        (line("ready", rank=True), "'rank'"),
        (line("ready", rank=-2), "'rank'"),
        (line("ready", rank=1.5), "'rank'"),
        (line("ready", t="now"), "'t'"),
        (line("ready", t=math.inf), "'t'"),
        (line("phase", name="load", seconds="1"), "'seconds'"),
        (line("phase", name="load", seconds=-1), "'seconds'"),
        (line("phase", name="load", seconds=math.nan), "'seconds'"),
        (line("phase", name="load", seconds=10**400), "'seconds'"),
        (line("phase", name=1, seconds=1), "'name'"),
        (line("progress", what="x", done=None, total=1), "'done'"),
        (line("progress", what="x", done=1, total=1, loss="low"), "'loss'"),
        (line("result", answer=[1]), "'answer'"),
        (line("result", answer={}, tolerance=1), "'tolerance'"),
        (line("result", answer={}, tolerance={"a.b": "1"}), "'a.b'"),
        (line("result", answer={}, tolerance={"a": -1}), "'a'"),
        (line("result", answer={}, show="text"), "'show'"),
        (line("result", answer={}, show=[1]), "'show'"),
        (line("memory", peak_bytes=1.5), "'peak_bytes'"),
        (line("memory", peak_bytes=-1), "'peak_bytes'"),
        (line("warning", message=None), "'message'"),
        ("@regatta " + '{"a":' * 100 + "1" + "}" * 100, "nested"),
        ("@regatta " + '{"a":' * 100_000, "not JSON"),
        ('@regatta {"rank": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_malformed_is_a_warning_that_names_the_field(text: str, says: str) -> None:
    event = parse_line(text)
    assert isinstance(event, WarningEvent)
    assert "malformed" in event.message
    assert says in event.message


def test_malformed_event_keeps_its_rank_and_names_its_kind() -> None:
    event = parse_line(line("phase", rank=2, name="load"))
    assert isinstance(event, WarningEvent)
    assert event.rank == 2
    assert "'phase'" in event.message


def test_a_diverged_loss_is_kept() -> None:
    event = parse_line(line("progress", what="epoch", done=1, total=2, loss=math.nan))
    assert isinstance(event, Progress)
    assert event.loss is not None
    assert math.isnan(event.loss)


@settings(deadline=None)
@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_line(text)
    after = parse_line("@regatta {" + text)
    assert after is None or isinstance(after, Event)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES) | st.text(),
        values | st.sampled_from(KINDS),
    )
)
def test_every_object_gives_an_event(fields: dict[str, object]) -> None:
    event = parse_line("@regatta " + json.dumps(fields))
    assert isinstance(event, Event)
    assert event.rank >= DRIVER
    assert math.isfinite(event.t)


@settings(deadline=None)
@given(st.text().filter(lambda s: "@regatta" not in s), st.floats(0, 1e9), st.integers(-1, 1000))
def test_any_prefix_and_suffix(noise: str, seconds: float, rank: int) -> None:
    text = noise + line("phase", rank=rank, name="load", seconds=seconds) + noise
    assert parse_line(text) == Phase(rank, 10.5, "load", seconds)
