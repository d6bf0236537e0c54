"""Ansible's modules and what they import, loaded as Python for tests."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"


def load(name: str, path: str) -> ModuleType:
    """The module of a file below `ansible/`, under its own name."""
    spec = importlib.util.spec_from_file_location(name, ANSIBLE / path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def gather() -> ModuleType:
    """Preflight's module, with its own imports."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("java", "nvidia"):
            found = load(name, f"module_utils/{name}.py")
            patched.setitem(sys.modules, f"ansible.module_utils.{name}", found)
            patched.setattr(f"ansible.module_utils.{name}", found, raising=False)
        return load("preflight_gather", "roles/preflight/library/preflight_gather.py")
