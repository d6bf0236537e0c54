"""JupyterLab as the program of a run: on loopback, its token in no argument, its own files in the run's scratch folder.

It needs nothing but `jupyterlab`, which `regatta notebook` brings, and only then.
"""

import json
import os
import socket
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from regatta_protocol.notebook import FOLDER, LISTENS, TOKEN

WITHOUT_NEWS = {"@jupyterlab/apputils-extension:notification": {"checkForUpdates": False, "fetchNews": "false"}}
"""Without this it asks in each run whether it may fetch news from the internet."""
_FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


def settings(port: int, token: str) -> list[str]:
    """JupyterLab's own arguments; they are in no command line."""
    return [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.open_browser=False",
        "--ServerApp.allow_root=True",
        f"--ServerApp.root_dir={Path(FOLDER).resolve()}",
        f"--IdentityProvider.token={token}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
        "--log-level=WARN",
    ]


def found() -> list[str]:
    """Let Jupyter find what its packages have beside their modules, where they are in a layer; more arguments."""
    layer = Path(find_spec("jupyterlab").origin).parents[1]  # type: ignore[union-attr, arg-type]
    os.environ["JUPYTER_PATH"] = str(layer / "share/jupyter")
    os.environ["JUPYTER_CONFIG_PATH"] = str(layer / "etc/jupyter")
    pages = layer / "share/jupyter/lab"
    return [f"--LabApp.app_dir={pages}"] if pages.is_dir() else []


def main() -> None:
    """Serve until it is ended, by `Shut Down` in its menu or with the run."""
    for name in _FOLDERS:
        os.environ[name] = os.path.join(os.environ["REGATTA_SCRATCH"], name.lower())
    defaults = Path(os.environ["JUPYTER_CONFIG_DIR"], "labconfig/default_setting_overrides.json")
    defaults.parent.mkdir(parents=True)
    defaults.write_text(json.dumps(WITHOUT_NEWS))
    Path(FOLDER).mkdir(exist_ok=True)
    token = os.environ.pop(TOKEN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"{LISTENS}{port}", flush=True)
    import_module("jupyterlab.labapp").LabApp.launch_instance([*settings(port, token), *found()])


if __name__ == "__main__":
    main()
