"""Who may mount the folders that only the runs of one account share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def admitted(names: Iterable[str], said: Iterable[Sequence[str]], addresses: str) -> list[dict[str, Any]]:
    """The head's file for each account, with the keys that each other host has told of it.

    `said`: the lines of `members.sh` of each host; `addresses`: from where they come, with commas.
    """
    lines = [line.split() for host in said for line in host if line.startswith("key ")]
    start = f'from="{addresses}",restrict,command="internal-sftp"'
    return [
        {
            "path": f"/etc/regatta/shared_keys/{name}.pub",
            "content": "".join(f"{start} {' '.join(line[2:])}\n" for line in lines if line[1] == name),
        }
        for name in names
    ]


class FilterModule:
    """`names | shared_folder_admitted(lines of hosts, addresses)` -> entries of `node_files`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"shared_folder_admitted": admitted}
