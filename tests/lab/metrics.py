"""Prometheus on the head of a lab, through a tunnel."""

import contextlib
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from clusters import Cluster

from regatta.hosts import inventories, tunnels


class Prometheus:
    """The head's, through a tunnel."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **arguments: str) -> Any:
        """The data of an answer; an error of the query fails."""
        with urllib.request.urlopen(f"{self.base}/{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an instant query."""
        return list(self.ask("query", query=expression)["result"])


@contextlib.contextmanager
def opened(cluster: Cluster) -> Iterator[Prometheus]:
    """That of a cluster, as long as the context lives."""
    chosen = inventories.load(str(cluster.lab.inventory))
    with tunnels.Tunnels(chosen, chosen.head) as ways:
        yield Prometheus(ways.open(9090))
