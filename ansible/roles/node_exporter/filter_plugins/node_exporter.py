"""The program behind regatta-metrics: modules of the node's side that it needs, as entries for node_files."""

from pathlib import Path, PurePosixPath
from typing import Any


def node_exporter_program(modules: list[str], sources: str, program: str) -> list[dict[str, Any]]:
    """Entries of the folders and files that put these modules of `sources` below `program`, folders first."""
    folders = {str(folder): None for module in modules for folder in reversed(PurePosixPath(module).parents)}
    made = [{"kind": "folder", "path": str(PurePosixPath(program, folder))} for folder in folders]
    return [
        *made,
        *({"path": f"{program}/{module}", "content": Path(sources, module).read_text()} for module in modules),
    ]


class FilterModule:
    """Makes the filter known to Ansible."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"node_exporter_program": node_exporter_program}
