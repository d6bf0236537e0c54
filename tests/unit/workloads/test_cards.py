"""Cards: what may stand in one, and the command line that comes from it."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from workloads.common import cardfile, commandline
from workloads.common.card import Card
from workloads.common.cardfile import CardError
from workloads.common.items import command
from workloads.common.search import asked
from workloads.common.search.trial import FOLDER

PROJECT = Path(__file__).resolve().parents[3]
SHIPPED = sorted(path.parent.name for path in (PROJECT / "workloads").glob("*/card.toml"))
ALL_KINDS = """
description = "100 % of it"
group = { kind = "actors", when = { wide = true, how = ["slow", "odd"] } }
[options.name]
kind = "text"
default = "x"
[options.how]
kind = "text"
default = "slow"
choices = ["slow", "fast", "odd"]
help = "100 % slow"
[options.max_steps]
kind = "whole number"
least = -1
below = 9
default = 4
[options.rate]
kind = "number"
above = 2
default = 3
help = "a rate"
[options.least_share]
kind = "number"
below = 1
[options.wide]
kind = "true or false"
[options.items]
kind = "list"
[options.file]
kind = "path"
required = true
[options.kept]
kind = "path"
of_run = true
[options.times]
kind = "ranks"
[[faults]]
when = { how = "fast", wide = true, items = false }
say = "--how {how} and --wide need --items"
[[faults]]
when = { max_steps = [0, 1], items = true }
say = "--items needs more than --max-steps {max_steps}"
"""

Parse = Callable[..., dict[str, Any]]


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return read(tmp_path, ALL_KINDS)


def read(folder: Path, text: str) -> Card:
    path = folder / "card.toml"
    path.write_text(text)
    return cardfile.read(path)


def given(card: Card, *words: str) -> dict[str, Any]:
    return vars(commandline.parser(card, "workloads.some").parse_args(words))


def said(capfd: pytest.CaptureFixture[str], card: Card, *words: str) -> str:
    """Return what a command line says that does not take these words."""
    with pytest.raises(SystemExit) as ended:
        given(card, *words)
    assert ended.value.code == 2
    (event,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("@regatta ")]
    message: str = json.loads(event.removeprefix("@regatta "))["message"]
    return message


def test_defaults(card: Card) -> None:
    found = given(card, "--file=f")
    assert found == {
        **{"name": "x", "how": "slow", "max_steps": 4, "rate": 3.0, "least_share": None, "wide": False, "items": ()},
        **{"file": "f", "kept": None, "times": None, "framework": "auto"},
    }
    assert isinstance(found["rate"], float)


def test_values(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGATTA_RUN_ID", "r7")
    words = "--name= --how=fast --max-steps=-1 --rate=2.5 --least-share=-1e9 --wide --items=a,b --file={run} --times=3"
    assert given(card, *words.split(), "--kept={run}.pt", "--framework=torch") == {
        **{"name": "", "how": "fast", "max_steps": -1, "rate": 2.5, "least_share": -1e9, "wide": True},
        **{"items": ("a", "b"), "file": "{run}", "kept": str(Path("r7.pt").absolute()), "times": 3},
        "framework": "torch",
    }
    assert given(card, "--file=f", "--kept=hdfs:///{run}", "--times")["times"] == 0
    assert given(card, "--file=f", "--kept=hdfs:///{run}")["kept"] == "hdfs:///r7"
    monkeypatch.setenv("REGATTA_FIRST_RUN", "r6")
    assert given(card, "--file=f", "--kept=hdfs:///{run}")["kept"] == "hdfs:///r6"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: --file"),
        ("--how=quick", "argument --how: invalid choice: 'quick'"),
        ("--max-steps=-2", "argument --max-steps: -2 is less than -1"),
        ("--max-steps=9", "argument --max-steps: 9 is not less than 9"),
        ("--max-steps=1.5", "argument --max-steps: invalid whole number: '1.5'"),
        ("--rate=2", "argument --rate: 2 is not more than 2"),
        ("--rate=nan", "argument --rate: nan is not more than 2"),
        ("--rate=inf", "argument --rate: inf is not a finite number"),
        ("--rate=much", "argument --rate: invalid number: 'much'"),
        ("--least-share=1", "argument --least-share: 1 is not less than 1"),
        ("--least-share=-inf", "argument --least-share: -inf is not a finite number"),
        ("--items=a,,b", "argument --items: an empty item in 'a,,b'"),
        ("--times=0", "argument --times: 0 is less than 1"),
        ("--wide=yes", "argument --wide: ignored explicit argument 'yes'"),
        ("--file", "argument --file: expected one argument"),
        ("--fil=f", "the following arguments are required: --file"),
        ("--file=f --framework=boat", "argument --framework: invalid choice: 'boat'"),
    ],
)
def test_wrong_words(card: Card, capfd: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert said(capfd, card, *words.split()).startswith(message)


def test_help_names_defaults(card: Card) -> None:
    text = " ".join(commandline.parser(card, "workloads.some").format_help().split())
    assert "python -m workloads.some" in text and "100 % of it" in text
    assert "--how {slow,fast,odd} 100 % slow (default slow)" in text
    assert "--rate X a rate (default 3)" in text and "[--times [N]]" in text


def test_options_that_exclude_each_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    three = '[options.b]\nkind = "text"\n[options.c]\nkind = "text"\n[options.d]\nkind = "text"\n'
    card = read(tmp_path, '[options.a]\nkind = "text"\nexcludes = ["b", "c"]\n' + three)
    assert given(card, "--a=1", "--d=1")["a"] == "1"
    for words in (("--a=1", "--b=2"), ("--c=1", "--b=2")):
        assert "not allowed with argument" in said(capfd, card, *words)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("--how=fast --wide", "--how fast and --wide need --items"),
        ("--how=fast --wide --items=a", None),
        ("--how=fast", None),
        ("--how=odd --wide", None),
        ("--max-steps=1 --items=a", "--items needs more than --max-steps 1"),
        ("--max-steps=0 --items=a", "--items needs more than --max-steps 0"),
        ("--max-steps=2 --items=a", None),
        ("--max-steps=0", None),
    ],
)
def test_options_that_do_not_go_together(card: Card, words: str, fault: str | None) -> None:
    assert card.fault(given(card, "--file=f", *words.split()), "torch") == fault


def test_a_fault_of_one_framework_alone(tmp_path: Path) -> None:
    rule = '[[faults]]\nframeworks = ["spark"]\nwhen = { a = "x" }\nsay = "spark has no {a}"\n'
    card = read(tmp_path, '[options.a]\nkind = "text"\n' + rule)
    assert card.fault(given(card, "--a=x"), "torch") is None
    assert card.fault(given(card, "--a=x"), "spark") == "spark has no x"


def test_parts_are_grouped_where_the_card_says_so(card: Card, tmp_path: Path) -> None:
    for words, group in (("--wide", "actors"), ("--wide --how=odd", "actors"), ("--wide --how=fast", None), ("", None)):
        assert card.group_of(given(card, "--file=f", *words.split())) == group
    assert read(tmp_path, 'group = "train"').group_of({}) == "train"
    assert read(tmp_path, "").group_of({}) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a =", "Invalid value"),
        ("options = 1", "options: 1 is not a table"),
        ("[options]\nx = 1", "options.x: 1 is not a table"),
        ('[options.x]\nkind = "odd"', "options.x.kind: 'odd' is none of text, path, whole number, number, list, "),
        ('group = { kind = "train", when = 1 }', "group.when: 1 is not a table"),
        ('[options.x-y]\nkind = "text"', "options.x-y: no name for an option"),
        ('[options.framework]\nkind = "text"', "options.framework: no name for an option"),
        ('[options.x]\nkind = "number"\nleast = "1"', "options.x.least: '1' is not a number"),
        ('[options.x]\nkind = "number"\nabove = true', "options.x.above: True is not a number"),
        ('[options.x]\nkind = "number"\ndefault = "1"', "options.x.default: must be a number, not '1'"),
        ('[options.x]\nkind = "whole number"\ndefault = 1.5', "options.x.default: must be a whole number, not 1.5"),
        ('[options.x]\nkind = "list"\ndefault = [1]', "options.x.default: must be text, not [1]"),
        ('[options.x]\nkind = "ranks"\ndefault = 1', "options.x.default: a flag has none"),
        ('[options.x]\nkind = "text"\nrequired = 1', "options.x.required: 1 is not true or false"),
        ('[options.x]\nkind = "text"\nhelp = 1', "options.x.help: 1 is not text"),
        (
            '[options.x]\nkind = "text"\nchoices = ["a"]\ndefault = "b"',
            "options.x.default: must be a, not 'b'",
        ),
        ('[options.x]\nkind = "number"\nchoices = ["1"]', "options.x.choices: only a text has choices"),
        ('[options.x]\nkind = "text"\nexcludes = ["y"]', "options.x.excludes: there is no option y"),
        (
            '[options.x]\nkind = "text"\nexcludes = ["y"]\n[options.y]\nkind = "text"\nexcludes = ["x"]',
            "options.y.excludes: x is among options that exclude each other already",
        ),
        (
            '[options.x]\nkind = "text"\nexcludes = ["y"]\n[options.y]\nkind = "text"\nrequired = true',
            "options.y: required, and excluded by another option",
        ),
        ('group = "crowd"', "group: no kind 'crowd', there are actors, train"),
        ('group = { kind = "train", when = { x = 1 } }', "group.when: there is no option x"),
        ('[[faults]]\nwhen = { x = 1 }\nsay = "no"', "faults[1].when: there is no option x"),
        ('[[faults]]\nsay = "no"', "faults[1].when: says nothing: 'no'"),
        ("[[faults]]\nwhen = { x = 1 }", "faults[0].say: is missing"),
        ('[options.x]\n[[faults]]\nwhen = { x = 1 }\nsay = "no {y}"', "faults[1].say: there is no option y: 'no {y}'"),
        ('[options.x]\n[[faults]]\nwhen = { x = 1 }\nsay = "no {"', "faults[1].say: "),
        ('include = "training"', "include: 'training' is not a list"),
        ('include = ["odd"]', "include: odd.toml: No such file or directory"),
    ],
)
def test_wrong_cards(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CardError) as found:
        read(tmp_path, text)
    assert str(found.value).startswith(f"{tmp_path}/card.toml: {message}")


def test_a_workload_without_a_card() -> None:
    with pytest.raises(CardError, match=r"workloads/common/card.toml: No such file or directory"):
        cardfile.of_package("workloads.common")


def test_what_a_card_includes_comes_behind_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardfile, "_FOLDER", tmp_path)
    (tmp_path / "common.toml").write_text(
        'group = "train"\nunit = "rows"\n'
        '[options.first]\nkind = "text"\n[options.both]\nkind = "whole number"\nleast = 1\ndefault = 5\n'
        '[[faults]]\nwhen = { first = "b" }\nsay = "second"\n[estimate]\ntimes = ["both"]\nbytes = 3\n'
    )
    text = (
        'unit = "edges"\ninclude = ["common"]\n'
        '[options.own]\nkind = "text"\n[options.both]\ndefault = 7\n'
        '[[faults]]\nwhen = { own = "a" }\nsay = "first"\n[estimate]\nbytes = 4\n'
    )
    card = read(tmp_path, text)
    assert [option.name for option in card.options] == ["own", "first", "both"]
    assert (card.options[2].kind, card.options[2].least, card.options[2].default) == ("whole number", 1, 7)
    assert [fault.say for fault in card.faults] == ["first", "second"]
    table = cardfile.whole(tmp_path / "card.toml")
    assert (table["unit"], table["group"], "include" in table) == ("edges", "train", False)
    assert table["estimate"] == {"bytes": 4, "times": ["both"]}
    (tmp_path / "common.toml").write_text('include = ["common"]')
    with pytest.raises(CardError, match=r"include: common.toml includes others itself"):
        read(tmp_path, text)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_options_of_a_card_are_those_of_its_workload(name: str) -> None:
    card = cardfile.of_package(f"workloads.{name}")
    assert cardfile.whole(PROJECT / "workloads" / name / "card.toml")["module"] == f"workloads.{name}"
    own = {option.name for option in card.options}
    if card.search:
        table = cardfile.whole(PROJECT / "workloads" / name / "card.toml")["search"]
        trial = importlib.import_module(f"workloads.{name}.trial")
        takes = {*inspect.signature(trial.train).parameters} - {*table["space"], asked.SEED, FOLDER}
        assert own - {*asked.SHARED} == takes
        return
    module = importlib.import_module(
        f"workloads.{name}.{'work' if (PROJECT / 'workloads' / name / 'work.py').exists() else 'part'}"
    )
    shared = {*command.SHARED} if card.items else {"restarts"}
    assert own - shared == {field.name for field in fields(module.Options)}
