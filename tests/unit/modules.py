"""Ansible's modules and what they import, loaded as Python for tests."""

import importlib.util
from pathlib import Path
from types import ModuleType

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"


def load(name: str, path: str) -> ModuleType:
    """The module of a file below `ansible/`, under its own name."""
    spec = importlib.util.spec_from_file_location(name, ANSIBLE / path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
