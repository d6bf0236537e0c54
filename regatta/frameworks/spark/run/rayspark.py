"""Keeps a Ray that a run starts on Spark (`ray.util.spark`) to the run: to its ports, its folder, and its end.

Ray itself takes ports at random, has its dashboard listen on all addresses, leaves files in /tmp that all such clusters
of a host share, and never ends where its script fails. The first file of Python in a run under Spark calls `watch`;
nothing happens before the program imports `ray.util.spark`. Executors get the functions below with the tasks that start
nodes of Ray, by their names, so they are at the top of this module.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
from typing import Any, Dict, Iterator, List, Tuple

MODULE = "ray.util.spark.cluster_init"
PORTS = "REGATTA_RAY_PORTS"
FOLDER = "REGATTA_RAY_FOLDER"
SLOT = 100
SERVICES = 30
"""Of a slot, so many ports are for what a node of Ray consists of; the others are for its workers."""
OF_NODES = (
    "--node-manager-port",
    "--object-manager-port",
    "--dashboard-agent-grpc-port",
    "--dashboard-agent-listen-port",
    "--runtime-env-agent-port",
    "--metrics-export-port",
)
OF_HEAD, ALSO_OF_HEAD = ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"), "--dashboard-port"
ADDRESS, OWN_ADDRESS, PAGE, FILES = "--address", "--node-ip-address", "--dashboard-host", "--temp-dir"
_held: List[Slot] = []


class Slot:
    """Ports of this host, from `first` on, that no other node of Ray takes while this process lives."""

    def __init__(self, ports: str) -> None:
        first, last = map(int, ports.split("-"))
        for start in range(first, last + 2 - SLOT, SLOT):
            self._holder = socket.socket()
            try:
                self._holder.bind(("", start))
            except OSError:
                self._holder.close()
                continue
            self.first, self._given = start, start
            return
        raise RuntimeError(
            f"this host has {(last + 1 - first) // SLOT} nodes of Ray on Spark, and ports for no more ({ports}): let "
            "each have more cores (num_cpus_worker_node)"
        )

    def port(self) -> int:
        """The next port for one of the node's services."""
        for _ in range(SERVICES):
            self._given = self._given + 1 if self._given < self.first + SERVICES - 1 else self.first + 1
            with socket.socket() as sock, contextlib.suppress(OSError):
                sock.bind(("", self._given))
                return self._given
        raise RuntimeError(
            f"ports {self.first + 1} to {self.first + SERVICES - 1} of this host are all in use: end what listens "
            "there, or start the run again"
        )


def slot() -> Slot:
    """That of this process."""
    if not _held:
        _held.append(Slot(os.environ[PORTS]))
    return _held[0]


def watch() -> None:
    """Change how Ray starts on Spark, as soon as the program imports it."""
    if PORTS in os.environ and FOLDER in os.environ:
        importlib.import_module("regatta_imports").watch({MODULE: changed})


@contextlib.contextmanager
def changed(module: Any) -> Iterator[None]:
    """Load Ray's module, then change it."""
    yield
    change(module)


def change(module: Any) -> None:
    """Put what is below into Ray's module. AttributeError where a later Ray has not what is replaced."""
    setup = module._setup_ray_cluster
    # atexit's own would come too late: before it Python waits for the thread that reads what Ray's head prints.
    at_exit: Any = vars(threading)["_register_atexit"]

    def begun(*, head_node_options: Dict[str, Any], **more: Any) -> Any:
        at_exit(_end, module)
        return setup(head_node_options={"include_dashboard": False, **head_node_options}, **more)

    class Hook(module.RayOnSparkStartHook):  # type: ignore[misc]
        def get_default_temp_root_dir(self) -> str:
            return folder()

    for name, ours in {
        "_setup_ray_cluster": begun,
        "RayOnSparkStartHook": Hook,
        "get_random_unused_port": get_random_unused_port,
        "_preallocate_ray_worker_port_range": preallocate_ray_worker_port_range,
        "exec_cmd": exec_cmd,
    }.items():
        getattr(module, name)
        setattr(module, name, ours)


def _end(module: Any) -> None:
    """End the Ray of a script that ends without saying so; it would wait for it, and Ray for the script."""
    with contextlib.suppress(Exception):
        module.shutdown_ray_cluster()


def folder() -> str:
    """The run's own folder for Ray on this host; sockets are in it, so its path is short. OSError: another's."""
    path = os.environ[FOLDER]
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if os.path.islink(path) or os.stat(path).st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user: Ray's files are not put there; start the run again")
    return path


def get_random_unused_port(*_: Any, **__: Any) -> int:
    """Replaces Ray's own."""
    return slot().port()


def preallocate_ray_worker_port_range() -> Tuple[int, int]:
    """Replaces Ray's own: the first port for the node's workers, and the one behind the last."""
    return slot().first + SERVICES, slot().first + SLOT


def exec_cmd(cmd: List[str], *, extra_env: Dict[str, str], **more: Any) -> Any:
    """Replaces Ray's own: start a node of Ray, all of whose ports are the run's."""
    folder()
    ports = {name: str(slot().port()) for name in OF_HEAD} if "--head" in cmd else {}
    utils: Any = importlib.import_module("ray.util.spark.utils")
    return utils.exec_cmd(arguments(cmd), extra_env={**extra_env, **ports}, **more)


def arguments(cmd: List[str]) -> List[str]:
    """The command of a node: ports for all its services, the address that leads to the head, its own folder.

    Nodes of a host that start at once in one folder take the same sockets, and one of them dies.
    """
    given = dict(word.partition("=")[::2] for word in cmd)
    made = {name: str(slot().port()) for name in (*OF_NODES, *([ALSO_OF_HEAD] if "--head" in given else []))}
    if ADDRESS in given:
        host, _, port = given[ADDRESS].rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((host, int(port)))
            made[OWN_ADDRESS] = str(sock.getsockname()[0])
    instead = {}
    if ADDRESS in given and FILES in given:
        instead[FILES] = os.path.join(os.path.dirname(given[FILES]), str(slot().first))
    if PAGE in given and OWN_ADDRESS in given:
        instead[PAGE] = given[OWN_ADDRESS]
    words = [f"{name}={instead[name]}" if (name := word.partition("=")[0]) in instead else word for word in cmd]
    return words + [f"{name}={value}" for name, value in made.items() if name not in given]
