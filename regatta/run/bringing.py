"""Brings here what was asked for of a run, when it has ended."""

import io
from pathlib import Path

from regatta.errors import RegattaError
from regatta.frameworks.api import Handle
from regatta.hosts.remote import Remote
from regatta.run import fetching, keeping, outputs
from regatta.run.request import Request
from regatta.terminal.console import Console
from regatta.text import shown


def at_end(remote: Remote, handle: Handle, request: Request, results: Path, console: Console) -> None:
    """Fetch what fits the request's patterns beside the run's record; what does not come is said, and fails nothing."""
    project = keeping.project(request.root) if request.keep else None
    parts_of_it = outputs.shared_parts({"shared": request.first_run or handle.run, "project": project})
    known = outputs.Run(handle.run, handle.nodes, tuple(node.name for node in handle.nodes), parts_of_it)
    words = " ".join(f"'{shown(word)}'" for word in request.fetch)
    again = f"later: fab fetch {known.id} {words}"
    try:
        parts, failed = outputs.look(remote, known, request.fetch)
        for line in outputs.reasons(parts):
            console.warn(line)
        if any(part.count for part in parts):
            fetching.check(known.id, parts, request.fetch_gb)
            done = fetching.fetch(remote, known, parts, results / known.id, _Notes(console))
            for line in done.notes:
                console.warn(line)
            if done.nodes:
                console.note(done.line())
            failed |= done.failed
        elif not failed:
            words = ", ".join(map(shown, request.fetch))
            console.warn(f"{known.id}: nothing to fetch: no file that it has written fits {words} (fab ls {known.id})")
        for error in failed.values():
            console.warn(f"{error}; {again}")
    except (RegattaError, OSError) as error:
        console.warn(f"{known.id}: its files were not fetched: {error}; {again}")


class _Notes(io.StringIO):
    """Progress as lines of a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        """See io."""
        if text.strip():
            self._console.note(text.strip())
        return len(text)
