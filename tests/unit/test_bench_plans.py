"""Bench plans: what they may say, what they become, and that every fault is named where it is."""

import dataclasses
from pathlib import Path

import pytest

from regatta.bench import fits, order
from regatta.bench.estimate import Estimates, span
from regatta.bench.fits import Host, check, need
from regatta.cards import reading
from regatta.errors import PlanError
from regatta.experiments import plan_file, plans
from regatta.experiments.plan_file import load, parse
from regatta.experiments.plans import BenchPlan, digest, expand, once
from regatta.frameworks import registry
from regatta.hosts.cluster import Cluster
from regatta.hosts.inventories import build
from regatta.records import stats
from regatta.run import placement

SMALL = """
repeats = 3
[[experiments]]
workload = "ppr"
sizes = [1000, 2000]
workers = [2, 4]
[[experiments]]
workload = "stars"
sizes = [500]
workers = [2]
frameworks = ["ray"]
parameters = { epochs = 1, global_batch = 100 }
"""
GIB = 1 << 30


def plan_of(text: str) -> BenchPlan:
    return parse(reading.tomllib.loads(text), "mine", "mine.toml")


def cluster_of(*names: str) -> Cluster:
    hosts = {n: {"ansible_host": f"10.0.0.{i}", "cluster_address": f"10.0.0.{i}"} for i, n in enumerate(names, 1)}
    listing = {"head": {"hosts": [names[0]]}, "workers": {"hosts": list(names)}, "_meta": {"hostvars": hosts}}
    return build("three", Path("/nowhere"), listing)


@pytest.mark.parametrize("name", plan_file.shipped())
@pytest.mark.parametrize("cores", [2, 6, 12])
def test_shipped_plans_fit_clusters(name: str, cores: int) -> None:
    plan = load(name)
    points = expand(plan, cores)
    assert plan.about
    compared = [point for point in points if name != "bigdl-growing" and point.name != "tune-pbt-4-w2"]  # no single
    assert all(point.frameworks[0] == "single" for point in compared)
    assert all(len(point.frameworks) > 1 for point in compared if name not in ("calibrate", "tune"))
    of_every_point = sum(len(point.frameworks) for point in points)
    assert len(order.ordered(plan, points)) == of_every_point * (plan.repeats + plan.warm_ups)


def test_there_are_the_plans_that_the_documentation_names() -> None:
    assert plan_file.shipped() == (
        "batch-scaling",
        "bigdl-cluster",
        "bigdl-growing",
        "bigdl-jobs",
        "bigdl-local",
        "bigdl-pictures",
        "calibrate",
        "chain-tree",
        "cifar",
        "demo",
        "images-parallel",
        "paper",
        "ray-train-claim",
        "render",
        "scaling",
        "scaling-ray",
        "smoke",
        "spectrum",
        "spectrum-published",
        "task-length",
        "tf",
        "tune",
    )


def test_the_paper_has_the_published_minutes() -> None:
    points = {point.name: point.published for point in expand(load("paper"), 4)}
    assert points["stars-100000-w2"] == {"torch": 145.0, "ray": 170.0}
    assert points["stars-4000000-w4"] == {"torch": 4200.0}
    assert points["ppr-7000000-w2"] == {"torch": 1940.0, "ray": 1610.0}
    assert points["digits-240000-w2"] == {"torch": 333.0, "ray": 370.0}
    assert sum(len(published) for published in points.values()) == 19


def cells(name: str) -> dict[tuple[object, ...], set[int]]:
    """Numbers of workers by dataset, model, epochs, whether the batch grows, and the batch."""
    found: dict[tuple[object, ...], set[int]] = {}
    for point in expand(load(name), 2):
        given = point.parameters
        total = given["batch"] if given.get("scale_batch") else int(given["batch"]) * point.workers
        key = (given.get("dataset", "mnist"), given["model"], given["epochs"], bool(given.get("scale_batch")), total)
        found.setdefault(key, set()).add(point.workers)
    return found


def test_all_cells_of_the_study_of_spark_stand_in_plans() -> None:
    one_machine = cells("bigdl-local")
    trainings = [("cnn", 1), ("cnn", 2), ("cnn", 5), ("lenet", 1), ("lenet", 10), ("mobilenetv2", 1)]
    assert one_machine == {
        **{("mnist", model, epochs, False, 240): {1, 2, 3, 4} for model, epochs in trainings},
        **{("imdb", "text", epochs, False, 240): {1, 2, 3, 4} for epochs in (1, 10)},
    }
    fixed = {**cells("bigdl-cluster"), **cells("bigdl-pictures")}
    for model, batch, many in (("cnn", 240, (1, 2, 5)), ("mobilenetv2", 48, (1, 2, 4)), ("resnet50", 48, (1,))):
        assert all(fixed["mnist", model, epochs, False, batch] == {1, 2, 3} for epochs in many)
    assert all(fixed["patchcamelyon", model, 1, False, 48] == {1, 2, 3} for model in ("cnn", "mobilenetv2"))
    assert fixed["mnist", "cnn", 1, False, 320] == {1, 2}
    five = [("mnist", "cnn"), ("mnist", "mobilenetv2"), ("mnist", "resnet50")]
    five += [("patchcamelyon", "cnn"), ("patchcamelyon", "mobilenetv2")]
    assert cells("bigdl-growing") == {(*one, 1, True, 320): {1, 2, 3} for one in five}
    for name, shown in (("bigdl-local", 32), ("bigdl-growing", 15)):
        points = expand(load(name), 2)
        assert sum("spark" in point.published for point in points) == shown
        factors = {round(point.published_size["spark"] / (point.size or 1), 1) for point in points}
        assert len(factors) == 1, f"{name}: one factor for a whole figure, not {factors}"


def test_plans_have_the_published_sizes() -> None:
    paper = {(point.workload, point.size, point.workers) for point in expand(load("paper"), 4)}
    assert {("stars", 4_000_000, 4), ("digits", 240_000, 4), ("digits", 100_000, 4)} <= paper
    under: dict[tuple[str, int | None], set[str]] = {}
    for point in expand(load("spectrum-published"), 4):
        under.setdefault((point.workload, point.size), set()).update(point.frameworks)
    for workload, size in (("perfect", 100_000), ("cube", 400), ("pi", 1_000_000_000)):
        assert under[workload, size] >= {
            "single",
            "multiprocessing",
            "ray",
            "ray-pool",
            "dask",
            "mpi",
            "zeromq",
            "spark",
        }


def test_published_figures_are_those_of_the_same_options_however_they_are_said() -> None:
    points = {point.name: point.published for point in expand(load("spectrum-published"), 4)}
    assert points["published-loop-100000-w4"] == {"single": 258.87, "multiprocessing": 74.22}
    assert points["published-processes-100000-w4"] == {"single": 258.87, "processes": 143.59}
    assert points["published-numba-100000-w4"] == {}


def test_points() -> None:
    points = expand(plan_of(SMALL), 4)
    assert [point.name for point in points] == [
        *("ppr-1000-w2", "ppr-1000-w4", "ppr-2000-w2", "ppr-2000-w4"),
        "stars-500-w2",
    ]
    assert points[-1].frameworks == ("single", "ray")
    assert points[-1].parameters == {"epochs": 1, "batch": 50}


def test_the_single_process_is_left_out_where_it_cannot_do_the_same() -> None:
    frameworks = {point.name: point.frameworks for point in expand(load("tune"), 2)}
    assert frameworks["tune-grid-12-w2"] == ("single", "multiprocessing", "ray-tune")
    assert frameworks["tune-pbt-4-w2"] == ("ray-tune",)
    with pytest.raises(PlanError, match="no_single: leaves nothing to run"):
        plan_of('[[experiments]]\nworkload = "tune"\nworkers = [2]\nframeworks = []\nno_single = true')


@pytest.mark.parametrize(
    ("workers", "cores", "numbers"),
    [
        ('"1..N"', 3, [1, 2, 3]),
        ('"1,2,4..N"', 6, [1, 2, 4, 6]),
        ('"1,2,4..N"', 8, [1, 2, 4, 8]),
        ('"1,2,4..N"', 1, [1]),
        ('"2,4..N"', 6, [2, 4, 6]),
        ('"2,4..N"', 1, [1]),
        ("[3]", 1, [3]),
    ],
)
def test_workers(workers: str, cores: int, numbers: list[int]) -> None:
    plan = plan_of(f'[[experiments]]\nworkload = "ppr"\nsizes = [1000]\nweak = true\nworkers = {workers}')
    points = expand(plan, cores)
    assert [point.workers for point in points] == numbers
    assert [point.size for point in points] == [1000 * number for number in numbers]


def test_runs_that_two_experiments_share_are_made_once() -> None:
    points = expand(load("scaling"), 4)
    kept, same = once(points)
    assert same == {
        "weak-digits-6000-w2": "strong-digits-6000-w2",
        "weak-ppr-7000000-w4": "strong-ppr-7000000-w4",
    }
    assert kept == tuple(point for point in points if point.name not in same)
    more = dataclasses.replace(points[0], name="more", frameworks=(*points[0].frameworks, "ray"))
    assert once([points[0], more]) == ((more,), {points[0].name: "more"})
    compared = dataclasses.replace(points[0], name="compared", published={"torch": 3.0})
    assert once([compared, points[0]]) == ((compared,), {points[0].name: "compared"})
    assert once([points[0], compared]) == ((points[0], compared), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "experiments: the plan needs at least one [[experiments]] table"),
        ("experiments = 3", "experiments: the plan needs at least one"),
        (SMALL.replace("[[experiments]]", "[[races]]"), "races: is called experiments now"),
        ("repeat = 3\n" + SMALL, "repeat: is unknown; did you mean repeats?"),
        (SMALL.replace("workload = \"ppr\"", "workload = \"pagerank\""), "workload: must be "),
        (SMALL.replace("sizes = [500]", ""), "E[2].sizes: stars needs sizes"),
        (SMALL.replace("sizes = [500]", "sizes = [0, 1.5]"), "E[2].sizes: must be whole numbers of at least 1"),
        (SMALL.replace("workers = [2]", "workers = [-2]"), "E[2].workers: must be whole numbers of at least 1"),
        (SMALL.replace("workers = [2]", "workers = []"), "E[2].workers: is empty"),
        (SMALL.replace("workers = [2]", "workers = [2, 2]"), "E[2].workers: names a number twice"),
        (SMALL.replace("workers = [2]\n", ""), "E[2].workers: is missing"),
        (SMALL.replace("workers = [2]", "workers = \"all\""), 'E[2].workers: "all": say whole numbers'),
        (SMALL.replace("epochs", "epoch"), "E[2].parameters.epoch: is unknown; did you mean epochs?"),
        (SMALL.replace("epochs = 1", "epochs = \"one\""), "E[2].parameters.epochs: must be a whole number, not"),
        (SMALL.replace("epochs = 1", "epochs = true"), "E[2].parameters.epochs: must be a whole number, not True"),
        (SMALL.replace("epochs = 1", "epochs = 0"), "E[2].parameters.epochs: must be at least 1, not 0"),
        (SMALL.replace("epochs = 1", "batch = 1"), "E[2].parameters.batch: is a rank's, global_batch that of all"),
        (SMALL.replace("\"ray\"", "\"storm\""), "and zeromq, not storm"),
        (SMALL.replace("sizes = [500]", "data = \"generated\""), "E[2].data: would be generated while timers run"),
        ("frameworks = [\"spark\"]\n[[experiments]]\nworkload = \"ppr\"\nsizes = [9]\nworkers = [2]\n"
         "parameters = { engine = \"push\" }", "E[1].parameters: --framework spark needs --engine csr: push works"),
        (SMALL + "data = \"x.csv\"", "E[2].sizes: say either sizes"),
        (SMALL + "time_limit = 0", "E[2].time_limit: must be a number above 0, not 0"),
        (SMALL + "with = \"pear\"", "E[2].with: must be a list of words"),
        ("keep = [\"/tmp\"]" + SMALL, "keep: '/tmp' is no folder below the run's working directory"),
        (SMALL + "memory_mb = -1", "E[2].memory_mb: must be a number above 0, not -1"),
        (SMALL + "published = [{ framework = \"torch\", time = \"2:25\" }]", "E[2].published[1].time: must be"),
        ("repeats = 0" + SMALL.replace("repeats = 3", ""), "repeats: must be a whole number of at least 1, not 0"),
        ("warm_ups = 0" + SMALL, "warm_ups: must be at least 1 with cache"),
        ("cache = \"tepid\"" + SMALL, "cache: must be warm or cold, not 'tepid'"),
        ("budget_minutes = 0" + SMALL, "budget_minutes: must be a number above 0, not 0"),
    ],
)  # fmt: skip
def test_faults_are_named_where_they_are(text: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(text)
    assert str(caught.value).startswith("mine.toml: the plan has ")
    assert said.replace("E[", "experiments[") in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(PlanError, match="the plan has 3 faults"):
        plan_of(SMALL.replace("epochs", "epoch").replace("[500]", "[-1]").replace("repeats", "rounds"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SMALL.replace("= [2]", "= [3]"),
            "stars-500-w3: a global_batch of 100 cannot be shared equally by 3 workers: take a multiple of 3",
        ),
        (
            SMALL.replace("[500]", "[60]"),
            "stars-60-w2: 2 workers take 100 at a step, of 60 that there are: take fewer",
        ),
        (
            SMALL + SMALL.replace("repeats = 3", ""),
            "two experiments make a point ppr-1000-w2: give one of them another name",
        ),
    ],
)
def test_points_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        expand(plan_of(text), 4)
    assert said in str(caught.value)


def test_a_plan_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no plan 'nothing': give the path of a TOML file, or batch-scaling"):
        load("nothing")
    file = tmp_path / "broken.toml"
    file.write_text("repeats = \n")
    with pytest.raises(PlanError, match=r"broken\.toml: Invalid value \(at line 1"):
        load(str(file))
    (tmp_path / "Bad Name.toml").write_text(SMALL)
    with pytest.raises(PlanError, match="'Bad Name' cannot name a plan"):
        load(str(tmp_path / "Bad Name.toml"))


def test_a_plan_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL)
    assert load(str(file)) == plan_of(SMALL)


def test_more_repeats_go_on_with_the_same_set_and_other_parameters_do_not() -> None:
    def digest(text: str) -> str:
        plan = plan_of(text)
        return plans.digest(plan, expand(plan, 4))

    assert digest(SMALL) == digest(SMALL.replace("repeats = 3", "repeats = 9\nabout = 'longer'"))
    others = {
        digest(SMALL),
        digest(SMALL.replace("epochs = 1", "epochs = 2")),
        digest("seed = 1" + SMALL),
        digest('with = ["pear"]' + SMALL),
    }
    assert len(others | {digest('cache = "cold"' + SMALL)}) == 5


ONCE = {"demo", "spectrum-published", "bigdl-growing", "bigdl-pictures"}
"""Plans that show times and give no verdict: of runs that take long, or that are only shown."""


@pytest.mark.parametrize("name", [name for name in plan_file.shipped() if name not in ONCE])
def test_a_plan_has_as_many_repeats_as_a_verdict_needs(name: str) -> None:
    assert load(name).repeats >= stats.LEAST_PAIRS


def test_rounds_are_complete_interleaved_and_shuffled_by_the_seed() -> None:
    plan = plan_of(SMALL)
    points = expand(plan, 4)
    entries = order.ordered(plan, points)
    a_round = sum(len(point.frameworks) for point in points)
    rounds = [entries[first : first + a_round] for first in range(0, len(entries), a_round)]
    assert len(rounds) == plan.repeats + plan.warm_ups
    assert [{(e.warm_up, e.repeat) for e in one} for one in rounds] == [{(True, 1)}, *({(False, r)} for r in (1, 2, 3))]
    for one in rounds:
        assert {(e.point.name, e.framework) for e in one} == {(p.name, f) for p in points for f in p.frameworks}
        places = [e.point.name for e in one]
        assert all(
            places.index(p.name) + len(p.frameworks) == places[::-1].index(p.name) * -1 + len(places) for p in points
        )
    assert len({tuple((e.point.name, e.framework) for e in one) for one in rounds}) > 1
    assert order.ordered(plan, points) == entries
    assert order.ordered(plan_of("seed = 5" + SMALL), points) != entries
    longer = order.ordered(plan_of(SMALL.replace("repeats = 3", "repeats = 4")), points)
    assert longer[: len(entries)] == entries


def test_frameworks_that_need_a_core_for_each_worker_are_left_out_where_there_are_fewer() -> None:
    cluster, found = cluster_of("node1"), {"node1": Host(2, 8 * GIB)}
    names = 'workers = [2, 4]\nframeworks = ["ray", "ray-pool"]'
    points = expand(plan_of(f'[[experiments]]\nworkload = "pi"\nsizes = [1000]\n{names}'), 2)
    kept, (said,) = fits.available(cluster, found, points)
    assert [point.frameworks for point in kept] == [("single", "ray", "ray-pool"), ("single", "ray")]
    assert said == f"pi-1000-w4: ray-pool is left out: it starts at most one worker a core, and {cluster.name} has 2"


def test_memory_that_a_node_does_not_have_is_refused() -> None:
    cluster = cluster_of("node1", "node2")
    found = {"node1": Host(2, 8 * GIB), "node2": Host(2, GIB)}
    points = expand(plan_of('[[experiments]]\nworkload = "stars"\nsizes = [1000]\nworkers = [4]\nmemory_mb = 600'), 4)
    with pytest.raises(PlanError) as caught:
        check(cluster, found, points)
    lines = str(caught.value).splitlines()
    assert [line.split(" needs ")[0] for line in lines[1:]] == [
        "  stars-1000-w4: torch with 2 rank(s) on node2",
        "  stars-1000-w4: ray with 2 rank(s) on node2",
    ]
    assert "needs 1.3 GB (memory_mb), and it has 1.1 GB" in lines[1]
    huge = expand(plan_of('[[experiments]]\nworkload = "ppr"\nsizes = [100_000_000_000]\nworkers = [1]'), 4)
    with pytest.raises(
        PlanError, match=r"single with 1 rank\(s\) on node1 needs .* \(by estimate; memory_mb says other"
    ):
        check(cluster, found, huge)
    assert need(huge[0], "single", 1, head=True) > 1000 * GIB


def test_crowded_cores_are_a_warning_and_a_thousand_ranks_are_impossible() -> None:
    cluster, found = cluster_of("node1"), {"node1": Host(2, 64 * GIB)}
    many = plan_of('[[experiments]]\nworkload = "ppr"\nsizes = [1000]\nworkers = [4]')
    assert check(cluster, found, expand(many, 2)) == [
        "node1 runs 4 ranks on 2 core(s): they take turns, which lengthens times"
    ]
    with pytest.raises(PlanError, match=r"ppr-9000-w1000: 1000 workers on 2 core\(s\): take fewer workers"):
        check(cluster, found, expand(plan_of('[[experiments]]\nworkload = "ppr"\nsizes = [9000]\nworkers = [1000]'), 2))


def test_an_estimate_without_records_is_rough() -> None:
    plan = plan_of(SMALL)
    entry = order.ordered(plan, expand(plan, 4))[0]
    seconds, known = Estimates().seconds(entry)
    assert seconds > 0
    assert not known


def test_the_estimate_of_all_runs_is_the_sum_of_each() -> None:
    plan = plan_of(SMALL)
    entries, estimates = order.ordered(plan, expand(plan, 4)), Estimates()
    assert len({estimates.seconds(entry) for entry in entries}) > 2
    assert estimates.total(entries) == pytest.approx(sum(estimates.seconds(entry)[0] for entry in entries))


def test_an_estimate_knows_how_little_the_handwritten_digits_are() -> None:
    entries = {}
    for data in ('data = "handwritten"', 'data = "/mnist"'):
        plan = plan_of(f'[[experiments]]\nworkload = "images"\nworkers = [1]\n{data}')
        entries[data] = order.ordered(plan, expand(plan, 4))[0]
    little, whole = (Estimates().seconds(entry)[0] for entry in entries.values())
    assert little < whole / 5


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("2'25''", 145), ("85'", 5100), ("7''", 7), ("", None), ("2:25", None), ("2'25", None)]
)
def test_published_times(text: str, seconds: float | None) -> None:
    assert reading.seconds(text) == seconds


def test_a_duet_has_both_beside_each_other_and_changes_halves_each_time() -> None:
    plan = dataclasses.replace(plan_of(SMALL), duet=("torch", "ray"), repeats=6)
    points = expand(plan, 2)
    assert {point.frameworks for point in points} == {("torch", "ray")}, "points that have both, without the others"
    entries = order.ordered(plan, points)
    for one, other in zip(entries[::2], entries[1::2], strict=True):
        assert (one.point, one.repeat, one.warm_up, one.duet) == (other.point, other.repeat, other.warm_up, other.duet)
        assert (one.half, other.half) == (1, 2) and {one.framework, other.framework} == {"torch", "ray"}
    first = [one.framework for one in entries[::2] if not one.warm_up and one.point is points[0]]
    assert all(before != after for before, after in zip(first[::2], first[1::2], strict=True))
    key = entries[3].key
    left = order.remaining(entries, {entry.key for entry in entries} - {key})
    assert left == entries[2:4], "of a duet both run again"
    assert order.remaining(entries, {entry.key for entry in entries}) == ()
    with pytest.raises(PlanError, match=r"no point has both dask and ray \(--duet\)"):
        expand(dataclasses.replace(plan, duet=("dask", "ray")), 2)


def test_shuffled_hosts_have_another_order_in_each_repeat_and_the_same_in_a_pair() -> None:
    plan = dataclasses.replace(plan_of(SMALL), shuffled=True, repeats=6)
    cluster = cluster_of("node1", "node2", "node3")
    names = [node.name for node in cluster.workers]
    points, orders = expand(plan, 6), {}
    for entry in order.ordered(plan, points):
        orders.setdefault((entry.point.name, entry.repeat, entry.warm_up), set()).add(entry.hosts(plan, names))
    assert all(len(one) == 1 for one in orders.values()), "both runs of a pair"
    first = [only for (name, *_), (only,) in orders.items() if name == points[0].name]
    assert len({*first}) > 2 and all(sorted(only) == names for only in first)
    entry = order.ordered(plan, points)[0]
    assert entry.hosts(dataclasses.replace(plan, shuffled=False), names) == tuple(names)
    assert entry.series(plan, "set").shuffled and digest(plan, points) != digest(plan_of(SMALL), points)
    turned = cluster.ordered(names[::-1])
    ranks = placement.placed(registry.find("torch"), 2, turned, dict.fromkeys(names, 1))
    assert [rank.node.name for rank in ranks] == ["node3", "node2"] and turned.head == cluster.head
    assert cluster.ordered(()) == cluster


def test_a_duet_of_the_same_has_two_repeats_each_time() -> None:
    plan = dataclasses.replace(load("calibrate"), duet=("single", "single"), repeats=8)
    entries = [entry for entry in order.ordered(plan, expand(plan, 2)) if not entry.warm_up]
    assert [entry.duet for entry in entries] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [sorted((a.repeat, b.repeat)) for a, b in zip(entries[::2], entries[1::2], strict=True)] == [
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 8],
    ]
    assert len({entry.key for entry in entries}) == 8
    assert {*plans_digests(plan)} == {True}


def plans_digests(plan: BenchPlan) -> list[bool]:
    """A set of duets is another set than that of one run after the other."""
    alone = dataclasses.replace(plan, duet=())
    return [digest(plan, expand(plan, 2)) != digest(alone, expand(alone, 2))]


def test_hosts_without_halves_and_services_are_refused() -> None:
    cluster = cluster_of("node1", "node2")
    found = {"node1": Host(5, 4 * GIB), "node2": Host(1, None)}
    with pytest.raises(PlanError, match="--duet: node2 have one core"):
        fits.halves(cluster, found, ("single", "torch"))
    found["node2"] = Host(2, None)
    assert fits.halves(cluster, found, ("single", "torch")) == {"node1": Host(2, 2 * GIB), "node2": Host(1, None)}
    with pytest.raises(PlanError, match="--duet: ray would work in a service, which"):
        fits.halves(cluster, found, ("ray", "torch"))
