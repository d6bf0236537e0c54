"""The output of other programs may have any bytes: none of them ends a command or a request."""

import ast
from pathlib import Path

import pytest

from regatta.node import services
from regatta.paths import PROJECT


def strict(path: Path) -> list[int]:
    """Lines of calls that decode what a program says, and fail where it is no text."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    calls = [node for node in nodes if ast.unparse(node.func).startswith("subprocess.")]
    given = [(call.lineno, {word.arg for word in call.keywords}) for call in calls]
    return [line for line, words in given if words & {"text", "universal_newlines"} and "errors" not in words]


def test_output_of_programs_is_never_decoded_strictly() -> None:
    sources = list((PROJECT / "regatta").rglob("*.py"))
    assert len(sources) > 200
    called = {path.name: strict(path) for path in sources if "subprocess." in path.read_text()}
    assert not {name: lines for name, lines in called.items() if lines}


def test_a_unit_with_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemctl"
    program.write_bytes(
        b"#!/bin/sh\nprintf 'Id=caf\\351\\nLoadState=loaded\\nActiveState=active\\nActiveEnterTimestamp=\\n'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (state,) = services.act({}, "status", ["one"]).units.values()
    assert state.state == "active"
