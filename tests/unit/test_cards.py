"""Cards: what they say, what becomes of it, and that what is wrong with one is named where it is."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regatta import paths
from regatta.api import requests
from regatta.cards import card as cards
from regatta.cards import discovery, reading, values
from regatta.cards.card import Card
from regatta.environment.requirements import Requirements
from regatta.errors import CardError, RegattaError, UsageError
from regatta.experiments.invocation import Invocation
from regatta.experiments.job import Job
from regatta.frameworks.plan import Program
from regatta.projects import place
from regatta.run.request import Request

LEAST: dict[str, Any] = {"about": "x", "command": "x.py", "frameworks": ["torch"]}


def card_of(text: str) -> Card:
    return reading.card(reading.tomllib.loads(text), "here")


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"about": 1}, "about: expected text, got a whole number"),
        ({"comand": "y.py"}, "unknown key 'comand', did you mean 'command'?"),
        ({"command": None}, "say either command"),
        ({"module": "x"}, "say either command"),
        ({"frameworks": []}, "frameworks: name at least one"),
        ({"command": {"ray": "x.py"}}, "command: says nothing for torch"),
        (
            {"options": {"a": {"kind": "whole"}}},
            "options.a: kind: invalid enum value 'whole'; there are text, wh",
        ),
        ({"options": {"a": {"kind": "whole number", "default": 1.5}}}, "options.a.default: must be a whole number"),
        ({"options": {"a": {"default": "c", "choices": ["a", "b"]}}}, "options.a.default: must be a or b, not 'c'"),
        ({"options": {"workers": {}}}, "--workers is a flag of every run command"),
        ({"options": {"a": {"excludes": ["b"]}}}, "options.a.excludes: there is no option b"),
        ({"options": {"a": {"excludes": ["b"]}, "b": {"excludes": ["a"]}}}, "options.b.excludes: a is among options"),
        ({"options": {"a": {"kind": "number", "choices": ["1"]}}}, "options.a.choices: only a text has choices"),
        ({"options": {"a": {"kind": "ranks", "default": True}}}, "options.a.default: a flag has none"),
        ({"options": {"a": {}}, "faults": [{"when": {"a": 1}, "say": "{b}"}]}, "faults[1].say: there is no option b"),
        ({"options": {"a": {"kind": "number", "each_rank": True}}}, "options.a.each_rank: needs"),
        ({"size": "n"}, "size: there is no option n"),
        ({"input": {"option": "data"}}, "input.option: there is no option data"),
        ({"checkpoints": True}, "checkpoints: there is no option checkpoint, checkpoint_every, restarts, elastic"),
        ({"estimate": {"times": ["epochs"]}}, "estimate.times: there is no option epochs"),
        ({"faults": [{"when": {"a": 1}, "say": "no"}]}, "faults[1].when: there is no option a"),
        (
            {"options": {"a": {}}, "faults": [{"when": {"a": "1"}, "say": "no", "frameworks": ["ray"]}]},
            "faults[1].frameworks: it does not run under ray",
        ),
        (
            {"include": ["trainings"]},
            "there is no 'trainings'; there is function, items, parallel, search, training",
        ),
        ({"published": [{"source": "x", "figures": [{"framework": "ray", "time": "2:25"}]}]}, "published[1]: '2:25'"),
        ({"published": [{"source": "x", "figures": [{"framework": "ray"}]}]}, "ray needs a time or a speedup"),
    ],
)
def test_faults_are_named_where_they_are(table: dict[str, Any], said: str) -> None:
    whole = {key: value for key, value in {**LEAST, **table}.items() if value is not None}
    with pytest.raises(CardError) as caught:
        reading.card(whole, "regatta.toml: workloads.mine")
    assert str(caught.value).startswith("regatta.toml: workloads.mine:")
    assert said in str(caught.value)


def test_what_a_card_includes_comes_after_its_own_and_gives_way_to_it() -> None:
    made = card_of(
        'about = "x"\ncommand = "x.py"\nframeworks = ["torch"]\ninclude = ["training"]\n'
        "[options.batch]\ndefault = 7\n[options.mine]\n[estimate]\nseconds = 2.0\n"
    )
    names = list(made.options)
    assert names[0] == "mine" and names.index("seed") < names.index("batch")
    assert made.options["batch"].default == 7 and made.options["batch"].each_rank
    assert made.estimate.seconds == 2.0 and made.estimate.times == ("epochs",)
    assert made.checkpoints and made.group == "train"


def test_words_are_in_the_card_s_order_and_a_rank_s_number_grows_for_one_that_works_alone() -> None:
    card = discovery.ours()["digits"].card
    given: dict[str, cards.Value] = {"scale_batch": True, "epochs": 2, "learning_rate": 1e-3}
    assert values.words(card, given, 4) == ["--epochs=2", "--learning-rate=0.001", "--batch=64", "--scale-batch=4"]
    assert "--batch=256" in values.words(card, given, 4, alone=True)
    assert values.words(card, {**given, "batch": 10}, 4, alone=True)[2] == "--batch=40"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("top", "x", "--top takes a whole number, not 'x'"),
        ("top", "0", "--top must be at least 1, not 0"),
        ("alpha", "1", "--alpha must be below 1, not 1"),
        ("tolerance", "0", "--tolerance must be above 0, not 0"),
        ("tolerance", "nan", "--tolerance must be above 0, not nan"),
        ("engine", "cgs", "--engine must be csr, cg, push or torch-ppr, not 'cgs'"),
        ("sources", "a,,b", "--sources must be words with commas between"),
    ],
)
def test_what_is_typed_is_checked_before_anything_starts(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match="^" + said.replace("(", r"\(")):
        values.typed(name, discovery.ours()["ppr"].card.options[name], text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "cg"}, "--engine cg solves a symmetric system and needs --undirected"),
        ({"engine": "cg", "undirected": True}, None),
        ({"partition": "graph", "engine": "push"}, "--partition graph needs --engine csr: push works on the whole"),
        ({"partition": "graph"}, None),
        ({"sources": "1,2", "count": 3}, "--sources and --count do not go together"),
        ({}, None),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, cards.Value], said: str | None) -> None:
    found = values.together(discovery.ours()["ppr"].card, given)
    assert (found or "").startswith(said or "") and (found is None) == (said is None)


def test_what_a_framework_lacks() -> None:
    ppr = discovery.ours()["ppr"]
    assert values.together(ppr.card, {"engine": "push"}) is None
    every, said = ("single", "torch", "spark"), list[str]()
    assert requests.able(Invocation(ppr, {"engine": "csr"}), every, said.append) == every and not said
    assert requests.able(Invocation(ppr, {"engine": "push"}), every, said.append) == ("single", "torch")
    assert said == ["without spark: --framework spark needs --engine csr: push works on the whole graph"]
    for names, say in ((every, None), (("spark",), said.append)):
        with pytest.raises(UsageError, match="--framework spark needs --engine csr"):
            requests.able(Invocation(ppr, {"engine": "push"}), names, say)


def test_estimates_multiply_what_the_card_says() -> None:
    card = discovery.ours()["digits"].card
    one = card.work(1000, {"epochs": 1})
    assert one == pytest.approx(1000 * card.estimate.seconds)
    assert card.work(1000, {}) == pytest.approx(3 * one)
    assert card.work(1000, {"epochs": 1, "model": "cnn"}) == pytest.approx(12 * one)


def test_workloads_of_a_project_are_found_from_below_it(tmp_path: Path) -> None:
    put(tmp_path, "regatta.toml", '[workloads.sums]\nabout = "x"\ncommand = "x.py"\nframeworks = ["single"]\n')
    put(tmp_path, "workloads/other/card.toml", 'about = "y"\nmodule = "other"\nframeworks = ["torch"]\n')
    put(tmp_path, "deep/down/x.py", "")
    assert discovery.project(tmp_path / "deep/down") == tmp_path
    found = discovery.every(tmp_path / "deep")
    assert set(found) == {*discovery.ours(), "sums", "other"}
    assert found["sums"].own and found["sums"].root == tmp_path and not found["ppr"].own
    assert discovery.project(paths.PROJECT / "regatta") is None
    with pytest.raises(UsageError, match="no workload 'sum', did you mean sums"):
        discovery.find("sum", tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workloads = 3\n", "workloads: expected a table, got a whole number"),
        ("outputs = 3\n", "outputs: must be a list of words, as .*, not 3"),
        ("output = []\n", "unknown key 'output', did you mean 'outputs'?"),
        ('[workloads."../x"]\n', "cannot name a workload"),
        ('[workloads.ppr]\nabout = "x"\ncommand = "x.py"\nframeworks = ["torch"]\n', "is a workload of Regatta's own"),
        ("[workloads", r"regatta\.toml: "),
    ],
)
def test_a_damaged_project_file(tmp_path: Path, text: str, said: str) -> None:
    put(tmp_path, "regatta.toml", text)
    with pytest.raises(RegattaError, match=said) as caught:
        discovery.every(tmp_path)
    assert str(tmp_path / "regatta.toml") in str(caught.value)


def test_each_key_is_documented() -> None:
    said = (paths.PROJECT / "docs/reference/cards.md").read_text()
    tables = [
        getattr(cards, name)
        for name in [
            "Card",
            "Items",
            "Option",
            "Fault",
            "Input",
            "Made",
            "Generator",
            "GeneratedFile",
            "Estimate",
            "Group",
        ]
    ]
    assert [name for table in tables for name in table.__struct_fields__ if f"`{name}`" not in said] == []


def test_what_is_made_from_declarations_is_that_of_these() -> None:
    command = [sys.executable, "-m", "tools.reference", "--check"]
    done = subprocess.run(command, cwd=paths.PROJECT, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_packages_that_a_card_names_are_wished_for_by_its_runs(tmp_path: Path) -> None:
    card = 'about = "x"\nmodule = "other"\nframeworks = ["torch"]\nrequirements = "needs.txt"\n'
    put(tmp_path, "workloads/other/card.toml", card)
    with pytest.raises(CardError, match=r"requirements: there is no file .*workloads/other/needs\.txt"):
        discovery.every(tmp_path)
    put(tmp_path, "workloads/other/needs.txt", "humanize\n")
    found = discovery.every(tmp_path)["other"]
    assert found.requirements == tmp_path / "workloads/other/needs.txt"
    job = Job({"torch": Program((), "other")}, {}, place.of(found.root, found.root), found.requirements)
    request = Request(Program((), "other"), "torch", found.root)
    assert job.request(request, "torch").environment.requirements == found.requirements
    own = replace(request, environment=Requirements(tmp_path / "mine.txt"))
    assert job.request(own, "torch").environment.requirements == tmp_path / "mine.txt"
