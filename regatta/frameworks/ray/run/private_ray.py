"""`private_ray.py CPUS FOLDER COMMAND...`: run a command with its own Ray, which ends with it.

Ray listens on 127.0.0.1 only, behind a token that only this user can read. FOLDER is made for it and holds all its
files; sockets are among them, so its path is short. Ray lets everyone write to the folder that it is given (0777),
which is therefore one inside it. It starts what `ray.init()` would, less the dashboard, the autoscaler and a driver of
its own: 6 s of CPU time instead of 10 s, measured.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from typing import Any

SHARED_MEMORY = "/dev/shm"
LEAST_STORE = 128 << 20
LARGEST_STORE = 2 << 30


def start(cpus: int, folder: str) -> Any:
    """Start Ray's processes; returns Ray's own node object. The environment then leads `ray.init()` to it."""
    token = os.path.join(folder, "token")
    with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN_PATH=token,
        RAY_worker_niceness="0",  # as torchrun's ranks
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # else Ray takes 127.0.0.1 for the address that faces the network
    )
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class Alone(Node):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def start_api_server(self, *_: Any, **__: Any) -> None:
            """No dashboard: Ray would start one, without its pages, and wait for it."""
            self._webui_url = ""

    store, place = object_store(folder)
    node = Alone(
        RayParams(
            node_ip_address="127.0.0.1",
            num_cpus=cpus,
            object_store_memory=store,
            plasma_directory=place,
            temp_dir=os.path.join(folder, "r"),
            include_dashboard=False,
            no_monitor=True,
            dashboard_agent_listen_port=0,
        ),
        head=True,
        shutdown_at_exit=False,
    )
    os.environ["RAY_ADDRESS"] = node.gcs_address
    return node


def object_store(folder: str) -> tuple[int, str | None]:
    """Size of Ray's object store, and its folder where shared memory is too small for it (64 MiB in a container)."""
    free = 0
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(SHARED_MEMORY).free
    size = min(free // 2, LARGEST_STORE)
    return (size, None) if size >= LEAST_STORE else (2 * LEAST_STORE, folder)


def main() -> int:
    """Start Ray, run the command, end Ray; ends as the command has ended, by its exit code or its signal."""
    cpus, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.mkdir(folder, 0o700)
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        node = start(cpus, folder)
        signal.signal(signal.SIGTERM, lambda *_: None)  # the command has got it too and may end in its own way
        code = subprocess.run(command).returncode
        node.kill_all_processes(check_alive=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
