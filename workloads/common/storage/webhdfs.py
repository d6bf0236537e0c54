"""Administration through WebHDFS, by the package `hdfs`: what hdfs-native does not offer (checksums), and JMX."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from workloads.common.storage.calls import again
from workloads.common.storage.errors import StorageError, user
from workloads.common.storage.places import Place, web_address

SECONDS = 20.0
BEANS = ("FSNamesystem", "FSNamesystemState", "NameNodeInfo")

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def checksum(place: Place) -> str:
    """HDFS's own checksum of a file, as text: of its bytes, blocks and their size. Raises StorageError.

    A DataNode computes it, and for seconds after its death a redirect can name a dead one: then it is asked again.
    """
    from hdfs import InsecureClient

    def ask() -> dict[str, Any]:
        client = InsecureClient(web_address(place), user=user(), timeout=SECONDS / 2)
        return dict(client.checksum(place.path))

    found = again(ask, place.url, "asking for its checksum", 60.0)
    return f"{found.get('algorithm')}:{found.get('bytes')}"


def state(place: Place) -> dict[str, dict[str, Any]]:
    """Return what the NameNode tells of itself: JMX beans by name. Raises StorageError."""
    base = web_address(place)
    found = {}
    for bean in BEANS:
        try:
            query = f"{base}/jmx?qry=Hadoop:service=NameNode,name={bean}"
            with _OPENER.open(query, timeout=SECONDS) as answer:
                beans = json.load(answer)["beans"]
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise StorageError(f"no NameNode answers at {base} ({reason}): is HDFS provisioned and up?") from None
        found[bean] = beans[0] if beans else {}
    return found
