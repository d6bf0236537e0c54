"""Debian packages that a project needs on nodes."""

from typing import Tuple

from regatta_protocol.operations.operation import Operation
from regatta_protocol.value import Value


class DebianInstalled(Value):
    """Why packages could not be installed; empty if they are there."""

    error: str = ""


class InstallDebian(Operation[DebianInstalled]):
    """Install Debian packages by these names."""

    op = "debian.install"
    names: Tuple[str, ...]
