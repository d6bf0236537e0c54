"""Shared by the runs of one program on a cluster; what only new runs need is loaded with the first of them."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from regatta.hosts.cluster import Cluster
from regatta.hosts.remote import Remote
from regatta.terminal.console import Console

if TYPE_CHECKING:
    from regatta.run.session import Session


class Used:
    """A cluster, with requests to its nodes, the console that shows its runs, and the folder of their records."""

    def __init__(self, cluster: Cluster, console: Console, results: Path) -> None:
        self.cluster, self.console, self.results = cluster, console, results
        self.remote = Remote(cluster)
        self._session: Session | None = None
        self._making = threading.Lock()

    @property
    def session(self) -> "Session":
        """Return what starts, follows and attaches to runs."""
        from regatta.run.session import Session

        with self._making:
            self._session = self._session or Session(self.cluster, self.console, self.results, self.remote)
            return self._session

    def close(self) -> None:
        """Leave nothing open."""
        if self._session is not None:
            self._session.__exit__()
        self.remote.rest(self.cluster.nodes)
