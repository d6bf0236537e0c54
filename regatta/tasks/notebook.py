"""The task that opens JupyterLab on the cluster (imports: see `regatta.tasks.runs`)."""

import contextlib
import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any

from regatta.errors import LaunchError, RegattaError
from regatta.options import kinds
from regatta.options.declaration import of as options
from regatta.options.option import NOTEBOOK, Option, typed
from regatta.tasks.launching import advising, command
from regatta.terminal.console import Console
from regatta_protocol.notebook import FOLDER, LISTENS, TOKEN

if TYPE_CHECKING:
    from regatta.hosts.cluster import Cluster

PACKAGES = ("jupyterlab==4.6.1", "ipywidgets==8.1.9")
"""With widgets: bars of tqdm, and Ray warns in the first cell without them."""
USUAL = 8888
START_SECONDS = 60.0
_AGAIN_SECONDS = 0.2
_OPTIONS = options(NOTEBOOK)
_OWN = {
    "port": Option("port of this machine (default 8888, or a free one)", kinds.Whole(least=1)),
    "open": Option("open it in a browser", kinds.SWITCH),
}


class Shown(Console):
    """A console that leads a port of this machine to JupyterLab once that listens, and shows its address."""

    def __init__(self, cluster: "Cluster", port: int | None, token: str, opens: bool) -> None:
        super().__init__()
        self._cluster, self._port, self._token, self._opens = cluster, port, token, opens
        self._tunnels = contextlib.ExitStack()

    def __exit__(self, *error: Any) -> None:
        self._tunnels.close()
        super().__exit__(*error)

    def line(self, node: str, rank: int | None, text: str) -> None:
        """See Console."""
        if text.startswith(LISTENS):
            threading.Thread(target=self._lead, args=(node, int(text.removeprefix(LISTENS))), daemon=True).start()
        else:
            super().line(node, rank, text)

    def _lead(self, node: str, to: int) -> None:
        try:
            self._show(self._address(node, to))
        except (RegattaError, OSError) as error:
            self.error(f"JupyterLab cannot be reached: {error}; Ctrl-C ends the run")

    def _address(self, node: str, to: int) -> str:
        from regatta.hosts import tunnels

        if self._cluster.local:
            return f"http://127.0.0.1:{to}"
        opened = self._tunnels.enter_context(tunnels.Tunnels(self._cluster, self._cluster.node(node)))
        local = opened.open(to, local_port=self._port or tunnels.free_local_port(USUAL))
        return f"http://127.0.0.1:{local}"

    def _show(self, address: str) -> None:
        import webbrowser

        from regatta.run import pages

        ends = time.monotonic() + START_SECONDS
        while True:
            try:
                pages.answering(f"{address}/api")
                break
            except LaunchError:
                if time.monotonic() > ends:
                    raise
                time.sleep(_AGAIN_SECONDS)
        url = f"{address}/lab?token={self._token}"
        print(f"JupyterLab: {url} (Ctrl-C ends it; {FOLDER}/ stays)", flush=True)
        if self._opens:
            webbrowser.open(url)


def _notebook(words: dict[str, Any]) -> None:
    from regatta.api import requests
    from regatta.api.cluster import Cluster
    from regatta.hosts import inventories

    own = typed(_OWN, {name: words.pop(name) for name in _OWN})
    given = typed(_OPTIONS, words)
    where = {name: given.pop(name) for name in requests.OF_CLUSTER if name in given}
    token = os.environ[TOKEN] = secrets.token_urlsafe(24)
    more = {"with_": PACKAGES, "env": (TOKEN,)}
    given |= {name: (*given.get(name, ()), *values) for name, values in more.items()}
    request = requests.own("ray", "workloads.common.notebook", "notebook", given, FOLDER)
    chosen = inventories.load(where.get("inventory"))
    with (
        contextlib.suppress(KeyboardInterrupt),
        Shown(chosen, own.get("port"), token, bool(own.get("open"))) as console,
        Cluster(console=console, **where) as cluster,
        advising(cluster.remote.cluster),
    ):
        cluster.carry_out(request)


notebook = command(
    NOTEBOOK,
    "Open JupyterLab on the cluster, as a run, until Ctrl-C; ray.init() in it joins the cluster.",
    {**_OPTIONS, **_OWN},
    _notebook,
)
