"""Requests to nodes: each operation is declared once, done by a function that takes it, and decoded as declared."""

import importlib
import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest

from regatta.errors import RemoteError
from regatta.hosts.remote import Remote
from regatta.node import main
from regatta.release import sync, tree
from regatta_protocol.decoding import decode, encode
from regatta_protocol.operations.launch import Inspect
from regatta_protocol.operations.operation import Operation, Telling, kinds
from regatta_protocol.operations.releases import ChangedFile, Patch, ReleaseEntries
from regatta_protocol.value import fields


@pytest.mark.parametrize("op", main.OPERATIONS)
def test_what_does_an_operation_takes_it_and_gives_its_answer(op: str) -> None:
    declared, done = main.OPERATIONS[op]
    kind, work = main._found("regatta_protocol.operations", declared), main._found("regatta.node", done)
    telling = issubclass(kind, Telling)
    assert issubclass(kind, Operation) and kind.op == op
    assert {*inspect.signature(work).parameters} == {"place", *(["emit"] if telling else []), *fields(kind)}
    answer = kinds(kind)[0]
    assert inspect.signature(work).return_annotation == ("None" if answer is type(None) else _name(answer))


def test_each_operation_can_be_asked() -> None:
    folder = Path(importlib.import_module("regatta_protocol.operations.operation").__file__ or "").parent
    modules = [importlib.import_module(f"regatta_protocol.operations.{path.stem}") for path in folder.glob("*.py")]
    every = {one for module in modules for one in vars(module).values() if isinstance(one, type) and "op" in vars(one)}
    assert {one.op for one in every} == main.OPERATIONS.keys() and len(every) == len(main.OPERATIONS)


def test_an_answer_that_does_not_fit_names_node_operation_and_field(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_payload", _answering({"facts": {}, "data": {"x": "yes"}}))
    with pytest.raises(RemoteError, match=r"here: its answer to inspect does not fit: data\.x: 'yes' is not true"):
        remote.call(remote.cluster.head, Inspect())


def test_names_of_files_that_are_no_text_travel() -> None:
    odd = os.fsdecode(b"odd \xff")
    asked = Inspect(patch=Patch("base", (odd,), {odd: ChangedFile("l", odd, 1)}))
    assert decode(Inspect, json.loads(json.dumps(encode(asked)))) == asked


def test_a_tree_with_such_a_name_is_synced_as_a_patch(remote: Remote, source: Path) -> None:
    sync.sync(remote, tree.read(source), remote.cluster.nodes)
    odd = source / os.fsdecode(b"odd \xff")
    odd.write_text("1")
    first = sync.sync(remote, tree.read(source), remote.cluster.nodes).tree.release
    entries = remote.call(remote.cluster.head, ReleaseEntries(first)).entries
    assert odd.name in [path for path, _, _ in entries]


def _answering(answer: Any) -> bytes:
    """The program of a node that gives this answer to everything."""
    return f"import json\nfor _ in requests: print(json.dumps({ {'done': answer}!r}), flush=True)\n".encode()


def _name(kind: Any) -> str:
    return "Any" if kind is Any else str(kind.__name__)
