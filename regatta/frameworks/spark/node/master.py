"""Spark as its master on the head sees it: workers, and applications that wait or work; and its history server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from regatta.node import frameworks, rundirs
from regatta.node.problem import Problem

if TYPE_CHECKING:
    from regatta_protocol.place import Place


CONF = "/etc/regatta/spark.json"
ENVIRONMENT = "/etc/regatta/spark/spark-env.sh"
"""Settings of Spark's programs, which find Java."""
HISTORY = "regatta-spark-history.service"
HISTORY_SECONDS = 12 * 3600
"""A history server that was not stopped ends by itself."""
TIMEOUT_SECONDS = 5.0
JOBS = 65
"""Ports of drivers' pages, as many as Spark tries (spark.port.maxRetries)."""
LISTEN_SECONDS = 0.5


@frameworks.for_members
def state(place: Place) -> dict[str, Any]:
    """{installed, page: port of the head's loopback, workers: [{address, cores, memory}], applications: [{name,
    waiting, cores, memory}], problem}; memory in MiB, of an application that of an executor.

    Workers are those that are alive. Never fails for a master that is down. `page` is None where the master is not
    Regatta's.
    """
    answer: dict[str, Any] = {"installed": False, "page": None, "workers": [], "applications": [], "problem": ""}
    try:
        with open(CONF) as file:
            answer |= {"installed": True, **json.load(file)}
    except (OSError, ValueError):
        return answer
    if answer["page"] is None:
        return answer
    try:
        told = _ask(answer["page"])
        workers = [_worker(one) for one in told["workers"] if one["state"] == "ALIVE"]
        return {**answer, "workers": workers, "applications": [_application(one) for one in told["activeapps"]]}
    except (OSError, ValueError, KeyError) as error:
        return {**answer, "problem": f"Spark's master does not answer: {error}"}


def pages(place: Place) -> dict[str, Any]:
    """{address, ports: on which drivers on this head show their jobs in progress, lowest first}.

    Nothing is read from there: it is a run that answers.
    """
    try:
        with open(CONF) as file:
            address, first = json.load(file)["jobs"]
    except (OSError, ValueError, KeyError):
        return {"address": "", "ports": []}
    return {"address": address, "ports": [port for port in range(first, first + JOBS) if _listens(address, port)]}


@frameworks.for_members
def java_problem(place: Place) -> str:
    """Why Spark finds no Java on this node; empty where it does, and where there is no Spark."""
    if not os.path.exists(ENVIRONMENT):
        return ""
    done = subprocess.run(
        ["/bin/sh", "-c", f". {ENVIRONMENT}"], capture_output=True, text=True, errors="replace", check=False
    )
    return (done.stderr.strip() or "its settings cannot be read") if done.returncode else ""


def history(place: Place) -> dict[str, Any]:
    """Start the server that shows past jobs; {port: of the head's loopback, started: whether it was not there}."""
    try:
        with open(CONF) as file:
            port = json.load(file).get("history")
    except (OSError, ValueError):
        raise Problem("there is no Spark: set spark_enabled: true, and 'regatta provision' makes one") from None
    if not port:
        raise Problem("no event logs are kept: without HDFS and a shared folder set spark_events_url")
    if subprocess.run(["systemctl", "is-active", "--quiet", HISTORY], check=False).returncode == 0:
        return {"port": port, "started": False}
    home = f"{place['root']}/spark/pyspark"
    variables = {
        "HOME": rundirs.home(place),
        "PATH": "/usr/bin:/bin",
        "SPARK_HOME": home,
        "SPARK_CONF_DIR": "/etc/regatta/spark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",
    }
    properties = {
        "RuntimeMaxSec": HISTORY_SECONDS,
        "SuccessExitStatus": 143,
        "NoNewPrivileges": "yes",
        "ProtectSystem": "full",
        "ProtectHome": "yes",
        "RestrictSUIDSGID": "yes",
        "CapabilityBoundingSet": "",
        "OOMScoreAdjust": 500,
    }
    command = ["systemd-run", "--quiet", "--collect", f"--unit={HISTORY}", f"--uid={place['user']}"]
    command += [f"--setenv={name}={value}" for name, value in variables.items()]
    command += [f"--property={name}={value}" for name, value in properties.items()]
    command += ["--", f"{home}/bin/spark-class", "org.apache.spark.deploy.history.HistoryServer"]
    command += ["--properties-file", "/etc/regatta/spark/history.conf"]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise Problem(
            f"systemd did not start Spark's history server: see 'journalctl -u {HISTORY}' ({done.stderr.strip()})"
        )
    return {"port": port, "started": True}


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), LISTEN_SECONDS).close()
    except OSError:
        return False
    return True


def _worker(told: dict[str, Any]) -> dict[str, Any]:
    return {"address": told["host"], "cores": told["cores"], "memory": told["memory"]}


def _application(told: dict[str, Any]) -> dict[str, Any]:
    waiting = told["state"] == "WAITING"
    return {"name": told["name"], "waiting": waiting, "cores": told["cores"], "memory": told["memoryperexecutor"]}


def _ask(port: int) -> Any:
    import urllib.request  # takes longer than most requests to a node do

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/json/", timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)
