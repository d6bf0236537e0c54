"""Which process of a Ray run failed, out of Ray's own words."""

import json
from dataclasses import replace

import pytest

from regatta.frameworks import registry
from regatta.frameworks.api import StartedRun
from regatta.frameworks.ray import deaths
from regatta.frameworks.ray.deaths import GONE, Death
from regatta.hosts.remote import Remote
from regatta.run import causes
from regatta.run.follow import Follower
from regatta.run.outcome import Failure
from regatta_protocol.run import Ended
from regatta_protocol.run import Failure as Reported
from regatta_protocol.states import State

GONE_WORDS = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The "
    "process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The "
    "worker is crashed unexpectedly due to SIGSEGV or other unexpected errors."
)
DIED = f"""\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: Rank
\tactor_id: 5c1e5d2d6f1a0a7b9b1d2a8e01000000
\tpid: 4711
\tnamespace: 2f4f1ce5
\tip: 127.0.0.2
{GONE_WORDS}"""
RAISED = """\
ray.exceptions.RayTaskError(ValueError): ray::Rank.step() (pid=4711, ip=127.0.0.2, actor_id=5c1e, repr=<x>)
  File "ray_ranks.py", line 16, in step
    struck(order)
ValueError: the rank was told to fail"""
SEGV = "(Rank pid=4711, ip=127.0.0.2) *** SIGSEGV received at time=1763870000 on cpu 1 ***"


@pytest.mark.parametrize(
    ("text", "signals", "cause"),
    [
        (DIED, {}, GONE),
        (DIED, {4711: "SIGSEGV"}, "killed by SIGSEGV"),
        (DIED, {1: "SIGSEGV"}, GONE),
        (DIED.replace(GONE_WORDS, "Worker exits with an exit code 3."), {}, "exited with code 3"),
        (DIED.replace(GONE_WORDS, "The actor died because its node has died."), {}, "its node died"),
        (RAISED, {}, "raised ValueError: the rank was told to fail"),
    ],
)
def test_words_of_a_failed_actor(text: str, signals: dict[int, str], cause: str) -> None:
    assert deaths.in_words(text, signals) == Death(cause, "127.0.0.2", 4711, "Rank")


@pytest.mark.parametrize("text", ["", "ValueError: my own mistake", "Traceback (most recent call last):\n  x"])
def test_a_driver_that_failed_by_itself_is_to_blame(text: str) -> None:
    assert deaths.in_words(text, {}) is None
    assert not deaths.speaks_of_ray(text.split("\n"))


def test_a_signal_is_read_where_ray_tells_it() -> None:
    assert deaths.signal_in(SEGV) == (4711, "SIGSEGV")
    assert deaths.signal_in("pid=4711 got no signal") is None


def actor(number: int, words: str, ended: int, **fields: object) -> dict[str, object]:
    context = {"actor_died_error_context": {"error_message": words, "node_ip_address": "127.0.0.9"}}
    node = {"node_id": f"n{number}", "pid": number, "class_name": "Rank"}
    return {"state": "DEAD", "end_time": ended, "death_cause": context, **node, **fields}


def test_of_what_ray_lists_the_first_that_died_by_itself_counts() -> None:
    actors = [
        actor(1, "The actor is dead because its owner has died.", 1),
        actor(2, GONE_WORDS, 30),
        actor(3, "", 2, death_cause=None),
        actor(4, GONE_WORDS, 10, state="ALIVE"),
    ]
    tasks = [
        {"error_type": "WORKER_DIED", "node_id": "n3", "worker_pid": 5, "func_or_class_name": "f", "end_time_ms": 20}
    ]
    addresses = {"n2": "127.0.0.2", "n3": "127.0.0.3"}
    assert deaths.in_state(actors, [], addresses, {}) == Death(GONE, "127.0.0.2", 2, "Rank")
    assert deaths.in_state(actors, tasks, addresses, {}) == Death(GONE, "127.0.0.3", 5, "f")
    assert deaths.in_state(actors[2:], [{"error_type": None}], addresses, {}) is None


@pytest.fixture
def follower(pair: Remote) -> Follower:
    """A follower of a Ray run of two ranks, one a node, whose driver is on the head."""
    here, there = pair.cluster.nodes
    there = replace(there, local=False)
    cluster = replace(pair.cluster, nodes=(here, there), workers=(here, there))
    handle = StartedRun("r", cluster, (here, there), registry.find("ray"), {0: "here", 1: "there"})
    return Follower(Remote(cluster), handle, lambda *_: None)


def cause(follower: Follower, *lines: str) -> Failure:
    follower._take("lines", "here", [[-1, line] for line in lines])
    failure = Reported(-1, at=1.0, last_lines=lines[-20:])
    follower.told.exits = {"here": Ended(State.FAILED, failure=failure)}
    found = causes.failure(follower.judge, follower.told)
    assert found is not None and found.code == 1
    return found


@pytest.mark.parametrize("text", [DIED, RAISED])
def test_the_first_line_names_the_rank_that_failed(follower: Follower, text: str) -> None:
    found = cause(follower, *text.split("\n"))
    assert (found.node, found.rank) == ("there", 1)
    assert found.text().startswith("rank 1 on there: ")


def test_what_ray_passes_on_of_workers_hides_nothing(follower: Follower) -> None:
    coloured = RAISED.replace("ray::Rank.step()", "\x1b[36mray::Rank.step()\x1b[39m").split("\n")
    own = ["Traceback (most recent call last):", *coloured]
    noise = [f"\x1b[36m(Rank pid=4711, ip=127.0.0.2)\x1b[0m frame {number}" for number in range(60)]
    assert cause(follower, *own, *noise).cause == "raised ValueError: the rank was told to fail"


def test_an_error_that_the_driver_has_got_over_is_not_blamed(follower: Follower) -> None:
    traceback = "Traceback (most recent call last):"
    found = cause(follower, traceback, *DIED.split("\n"), "still working", traceback, "ValueError: my own mistake")
    assert (found.node, found.rank) == ("here", -1)


def test_of_several_ranks_on_a_node_the_process_is_named(follower: Follower) -> None:
    follower.handle.ranks[2] = "there"
    found = cause(follower, *DIED.split("\n"))
    assert (found.node, found.rank) == ("there", None)
    assert "Rank" in found.cause and "4711" in found.cause


def test_what_a_workload_tells_of_its_rank_comes_first(follower: Follower) -> None:
    follower.handle.ranks[2] = "there"
    told = {"event": "failed", "rank": -1, "t": 1.0, "of": 2, "address": "127.0.0.2", "words": DIED}
    follower._take("lines", "here", [[-1, SEGV], [-1, f"@regatta {json.dumps(told)}"]])
    found = cause(follower, "exit 1")
    assert (found.node, found.rank, found.cause) == ("there", 2, "killed by SIGSEGV")
    follower.judge.told = follower.judge.told.changed(words="something else", address=None)
    assert cause(follower).cause == "something else"


def test_a_driver_stays_the_driver(follower: Follower) -> None:
    found = cause(follower, "ValueError: my own mistake")
    assert (found.node, found.rank) == ("here", -1)
