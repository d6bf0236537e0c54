"""Ends the actors that a Ray run leaves in the cluster's Ray.

Ray itself ends the tasks and actors of a driver that is gone, but for detached actors, which it even starts again when
they are killed. Ray's state API tells of actors; only its control service (GCS) ends one for good. Used on the head.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.parse
import urllib.request
from typing import Any, Dict, List

DASHBOARD = "http://127.0.0.1:8265"
TOKEN = "/etc/regatta/ray_token"
LIVE = ("ALIVE", "RESTARTING", "PENDING_CREATION", "DEPENDENCIES_UNREADY")
RUN = "regatta_run"
"""In the metadata of each Ray job of a run: the run's id."""
SECONDS, POLL_SECONDS, ASK_SECONDS = 6.0, 0.1, 5.0
MOST_BYTES = 64 << 20
_KILL = """
import sys
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated.gcs_service_pb2 import KillActorViaGcsRequest
from ray.core.generated.gcs_service_pb2_grpc import ActorInfoGcsServiceStub
gcs = ActorInfoGcsServiceStub(init_grpc_channel(sys.argv[1]))
for one in map(bytes.fromhex, sys.argv[2:]):
    gcs.KillActorViaGcs(KillActorViaGcsRequest(actor_id=one, force_kill=True, no_restart=True), timeout=5)
"""


def end(run: str, joined: Dict[str, Any], seconds: float = SECONDS) -> int:
    """End what is left of a run whose driver has ended; how many actors there still are after so many seconds.

    `joined`: the address of the control service (`gcs`), and the `python` that has Ray.
    None are left where Ray does not answer: its actors end with it.
    """
    until = time.monotonic() + seconds
    jobs: Dict[str, bool] = {}
    while True:
        try:
            left = _left(run, jobs)
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        if not left or time.monotonic() > until:
            return len(left)
        if detached := [actor["actor_id"] for actor in left if actor.get("is_detached")]:
            _kill(joined["python"], joined["gcs"], detached)
        time.sleep(POLL_SECONDS)


def _left(run: str, jobs: Dict[str, bool]) -> List[Dict[str, Any]]:
    """The run's actors that are not dead. `jobs`: whether a job, by its id, is the run's."""
    found = [actor for state in LIVE for actor in _actors(state)]
    for job in {actor["job_id"] for actor in found} - jobs.keys():
        jobs[job] = (ask(f"/api/jobs/{job}").get("metadata") or {}).get(RUN) == run
    return [actor for actor in found if jobs[actor["job_id"]]]


def _actors(state: str) -> List[Dict[str, Any]]:
    return list(ask(listing("actors", 10000, state=state))["data"]["result"]["result"])


def listing(what: str, most: int, **filters: str) -> str:
    """The path by which Ray's state API lists what has these values."""
    words = [("limit", str(most)), ("detail", "1")]
    for name, value in filters.items():
        words += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
    return f"/api/v0/{what}?{urllib.parse.urlencode(words)}"


def ask(path: str, seconds: float = ASK_SECONDS) -> Any:
    """Return what Ray's API on this node says. Raises OSError, ValueError and HTTPException."""
    with open(TOKEN) as file:
        header = {"Authorization": f"Bearer {file.read().strip()}"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(DASHBOARD + path, headers=header), timeout=seconds) as answer:
        return json.loads(answer.read(MOST_BYTES))


def _kill(python: str, gcs: str, actors: List[str]) -> None:
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN, "PATH": "/usr/bin:/bin"}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [python, "-I", "-c", _KILL, gcs, *actors],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
