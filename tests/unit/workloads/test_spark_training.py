"""Trainings under Spark's TorchDistributor: where ranks are, what they say to their driver, and the same weights."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from launching import PREFIX, PROJECT, Ended, python, ranks, weights
from sparkhere import unpacked

from regatta_protocol import interfaces
from workloads.common.ranks import Ranks
from workloads.common.spark import places, training, wire
from workloads.common.spark.wire import Word

PARTS = str(Path(__file__).with_name("parts.py"))
DIGITS = ("-m", "workloads.digits", "--size=600", "--epochs=2", "--seed=5")
STARS = ("-m", "workloads.stars", "--size=3000", "--epochs=2")
CIFAR = ("-m", "workloads.cifar", "--stem=large", "--seed=5", "--batch=8", "--size=64", "--epochs=1")
IMAGES = ("-m", "workloads.images", "--model=mobilenetv2", "--freeze=0.5", "--size=64", "--batch=8", "--epochs=1")
SHARED = ("-m", "workloads.images", "--size=200", "--epochs=1", "--batch=16", "--seed=5")
PIPELINE = (*SHARED, "--parallel=pipeline")
RANK = """\
import sys
from workloads.common import events
from workloads.common.spark.wire import Line, Place
line = Line(Place("127.0.0.1", int(sys.argv[1]), bytes.fromhex(sys.argv[2])))
line.rank = 1
events.carry(lambda event: line.say("event", event))
events.ready()
sys.stdin.read()
"""


def test_ranks_are_where_they_are_wanted() -> None:
    a, b = "10.0.0.1", "10.0.0.2"
    found = places.numbered([b, a, b, a], [a, a, b, b])
    assert found == [Ranks(2, 4, 0, 2), Ranks(0, 4, 0, 2), Ranks(3, 4, 1, 2), Ranks(1, 4, 1, 2)]
    assert [one.rank for one in places.numbered([b, b, a], [a, a, b])] == [2, 1, 0]
    assert places.numbered([a, a], []) == [Ranks(0, 2, 0, 2), Ranks(1, 2, 1, 2)]


def test_the_interface_of_an_address() -> None:
    assert interfaces.interface("127.0.0.1") == "lo"
    assert interfaces.interface("192.0.2.1") is None


def test_nothing_that_a_rank_prints_is_an_event() -> None:
    out = io.StringIO()
    training.Plain(out).write(f'one\n{PREFIX}{{"event":"result"}}\n')
    assert PREFIX.strip() not in out.getvalue() and out.getvalue().startswith("one\n")


@pytest.fixture
def ears(monkeypatch: pytest.MonkeyPatch) -> Iterator[wire.Ears]:
    monkeypatch.setenv("REGATTA_PORTS", "29400-29499")
    with wire.listening("127.0.0.1") as made:
        yield made


def rank(ears: wire.Ears) -> subprocess.Popen[str]:
    """A rank in its own process, which has said that it is ready."""
    words = (str(ears.place.port), ears.place.key.hex())
    made = subprocess.Popen([sys.executable, "-c", RANK, *words], stdin=subprocess.PIPE, text=True, cwd=PROJECT)
    assert [ears.words.get(timeout=60).kind for _ in range(2)] == ["came", "event"]
    return made


def test_a_rank_that_is_killed_is_missed(ears: wire.Ears) -> None:
    assert 29400 <= ears.place.port <= 29499
    with rank(ears) as process:
        process.kill()
        died = ears.words.get(timeout=60)
    assert (died.kind, died.rank, died.address) == ("died", 1, "127.0.0.1")


def test_a_rank_without_its_driver_ends(ears: wire.Ears) -> None:
    with rank(ears) as process:
        ears.close()
        assert process.wait(timeout=60) == 1


def test_who_does_not_know_the_key_is_not_heard(ears: wire.Ears) -> None:
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client((ears.place.address, ears.place.port), "AF_INET", authkey=b"wrong").send(Word("refused", "no"))
    with rank(ears) as process:
        process.kill()
    assert ears.words.get(timeout=60).kind == "died"


def test_restarts_are_refused() -> None:
    run = python(*DIGITS, "--framework=spark", "--restarts=1")
    assert run.status == 2 and "--restarts" in run.of("error")[0]["message"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a driver of Spark, which has the parts of these tests, too."""
    return unpacked(tmp_path_factory.mktemp("spark"), str(Path(PARTS).parent))


def under(spark: dict[str, str], folder: Path, *words: str) -> Ended:
    """A run under Spark, of which nothing is left."""
    scratch = folder / "scratch"
    scratch.mkdir()
    own = {"REGATTA_SCRATCH": str(scratch), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    run = python(*words, **spark, **own, SPARK_WORKER_DIR=str(folder / "work"))
    mark, end = f"REGATTA_SCRATCH={scratch}".encode(), time.monotonic() + 60
    while left := [one for one in Path("/proc").glob("[0-9]*") if mark in environ(one)]:
        assert time.monotonic() < end, [(one / "cmdline").read_bytes() for one in left]
        time.sleep(0.5)
    return run


def environ(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.whole
@pytest.mark.parametrize(
    "words", [DIGITS, STARS, CIFAR, IMAGES, PIPELINE], ids=["digits", "stars", "cifar", "images", "pipeline"]
)
def test_the_same_weights_to_the_bit(words: tuple[str, ...], spark: dict[str, str], tmp_path: Path) -> None:
    first, other = ranks(words, 2, TMPDIR=str(tmp_path))
    assert (first.status, other.status) == (0, 0), first.err + other.err
    run = under(spark, tmp_path, *words, "--framework=spark")
    assert run.status == 0, run.out + run.err
    assert weights(run) == weights(first) and run.answer == first.answer
    assert {event["rank"] for event in run.of("ready")} == {-1, 0, 1}
    for rank in (0, 1):
        phases = [event["name"] for event in run.of("phase", rank) if event["name"] not in ("epoch", "read")]
        assert phases == ["rendezvous", "load", *(() if words is PIPELINE else ("exchange",)), "compute"]
        assert run.of("progress", rank) and run.of("memory", rank) and run.of("cpu", rank)


@pytest.mark.whole
@pytest.mark.parametrize("words", [SHARED, IMAGES], ids=["cnn", "mobilenetv2"])
def test_two_jobs_a_step_make_the_same_weights(words: tuple[str, ...], spark: dict[str, str], tmp_path: Path) -> None:
    first, _ = ranks(words, 2, TMPDIR=str(tmp_path))
    run = under(spark, tmp_path, *words, "--parallel=jobs", "--framework=spark")
    assert run.status == 0, run.out + run.err
    assert weights(run) == weights(first)
    assert run.answer == {**first.answer, "test_loss": pytest.approx(first.answer["test_loss"])}
    refused = python(*words, "--parallel=jobs", "--framework=torch")
    assert refused.status == 2 and "the jobs are Spark's" in refused.of("error")[0]["message"]


@pytest.mark.whole
def test_ranks_train_asynchronously(spark: dict[str, str], tmp_path: Path) -> None:
    words = (*SHARED, "--epochs=3", "--data=handwritten", "--learning-rate=0.05", "--parallel=async")
    run = under(spark, tmp_path, *words, "--framework=spark")
    assert run.status == 0, run.out + run.err
    assert run.answer["accuracy"] > 0.5 and 0 < run.answer["staleness"]["most"] <= 9


@pytest.mark.whole
def test_a_training_goes_on_from_its_checkpoint(spark: dict[str, str], tmp_path: Path) -> None:
    words = ("-m", "workloads.digits", "--size=600", "--seed=5", f"--checkpoint={tmp_path}/kept.pt")
    before = ranks((*words, "--epochs=1", "--checkpoint-every=1"), 2, TMPDIR=str(tmp_path))
    assert before[0].status == 0, before[0].err
    whole = ranks(DIGITS, 2, TMPDIR=str(tmp_path))[0]
    run = under(spark, tmp_path, *words, "--epochs=2", "--framework=spark")
    assert run.status == 0, run.out + run.err
    assert weights(run) == weights(whole) and len(run.of("progress", 0)) == 1


@pytest.mark.whole
@pytest.mark.parametrize(("kind", "said"), [("raise", "ZeroDivisionError: oh"), ("die", "died")])
def test_the_rank_that_fails_is_named(kind: str, said: str, spark: dict[str, str], tmp_path: Path) -> None:
    run = under(spark, tmp_path, PARTS, kind, "spark")
    assert run.status == 1, run.out + run.err
    (failed,) = run.of("failed")
    assert (failed["of"], failed["address"]) == (1, "127.0.0.1")
    last = failed["words"].splitlines()[-1]
    assert said in last and last.startswith("executor ")


@pytest.mark.whole
def test_what_is_no_input_is_said_once(spark: dict[str, str], tmp_path: Path) -> None:
    run = under(spark, tmp_path, PARTS, "refuse", "spark")
    assert run.status == 2 and [event["message"] for event in run.of("error")] == ["this is no input"], run.err


@pytest.mark.whole
def test_more_ranks_than_cores_are_refused(spark: dict[str, str], tmp_path: Path) -> None:
    run = under({**spark, "REGATTA_WORKERS": "3", "REGATTA_PG_TIMEOUT": "15"}, tmp_path, *DIGITS, "--framework=spark")
    assert run.status == 1 and "2 of 3 cores" in run.of("warning")[-1]["message"], run.out + run.err
