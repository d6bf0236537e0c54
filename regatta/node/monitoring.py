"""Whether monitoring works, as the head's Prometheus sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict

from regatta.node import progress
from regatta_protocol.operations.services import MonitoringState

if TYPE_CHECKING:
    from regatta_protocol.place import Place


CONF = "/etc/regatta/monitoring.json"
TIMEOUT_SECONDS = 5.0


def state(place: Place) -> MonitoringState:
    """Its state; never fails for a Prometheus that is down."""
    none = MonitoringState(installed=False, prometheus=None, up=0, down=(), problem="")
    if "prometheus" not in progress.installed():
        return none
    try:
        with open(CONF) as file:
            ports = json.load(file)
    except (OSError, ValueError):
        return none
    known = none.changed(installed=True, prometheus=ports["prometheus"])
    try:
        targets = _ask(ports["prometheus"], "/api/v1/targets?state=active")["data"]["activeTargets"]
    except (OSError, ValueError, KeyError) as error:
        return known.changed(problem=f"Prometheus does not answer: {error}")
    good = [target for target in targets if target["health"] == "up"]
    bad = [target for target in targets if target["health"] != "up"]
    return known.changed(up=len(good), down=tuple(_text(target) for target in bad))


def _ask(port: int, path: str) -> Any:
    import urllib.request  # takes longer than most requests to a node do

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)


def _text(target: Dict[str, Any]) -> str:
    labels = target["labels"]
    why = target["lastError"] or "not asked yet"
    return f"{labels['job']} of {labels.get('node', labels.get('instance', '?'))}: {why}"
