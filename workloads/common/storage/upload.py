"""``python -m workloads.common.storage.upload``: puts files of this machine into an object store.

Standard input: a JSON object, ``{"files": [[PATH, ADDRESS], ...]}``. A line is printed for each file that is there, its
size in bytes; what fails is one line on standard error, and status 2.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workloads.common.storage import objects
from workloads.common.storage.errors import StorageError
from workloads.common.storage.places import locate

AT_A_TIME = 4


def put(file: tuple[str, str]) -> int:
    """Put one file, (path, address); gives its size. Raises StorageError."""
    path, url = file
    place = locate(url)
    size = Path(path).stat().st_size
    objects.connect(place).put(path, place.path, size)
    return size


def main() -> None:
    """Put all of them, the first one by itself: a fault of the store is one for all."""
    files = [(str(path), str(url)) for path, url in json.load(sys.stdin)["files"]]
    try:
        print(put(files[0]), flush=True)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            try:
                for size in pool.map(put, files[1:]):
                    print(size, flush=True)
            finally:
                pool.shutdown(cancel_futures=True)
    except (StorageError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
