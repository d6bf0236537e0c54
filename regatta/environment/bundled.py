"""Layers of projects that came in a bundle, for where nothing can be downloaded.

`make bundle` makes them for the lock of the nodes' environment, whose wheels say what it will have. In the bundle's
folder `layers/` each is as in the controller's cache, and `wanted-<digest>.json` says which list it is for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from regatta.environment import build, requirements, resolve, told
from regatta.environment.base import Base
from regatta.environment.requirements import Requirements, Wanted
from regatta.environment.resolve import Resolution
from regatta.errors import EnvironmentFault


@dataclass(frozen=True)
class Packed:
    """The needs of a project: its `layer` (None: the base has it all), `lines` on what it takes and leaves out, and
    `files` for the bundle, by name there.
    """

    layer: Resolution | None
    lines: tuple[str, ...]
    files: dict[str, Path]


def pack(project: Path, base: Base, work: Path, say: Callable[[str], None]) -> Packed:
    """Return what a project needs: a folder, or a file of requirements.

    `work`: an empty folder for what is made. EnvironmentFault says what cannot be had.
    """
    asked = Requirements(requirements=project) if project.is_file() else Requirements()
    root = project.parent if project.is_file() else project
    wanted = requirements.of(asked, root)
    if wanted is None or not wanted.asks:
        raise EnvironmentFault(
            requirements.unread(asked, root)
            or f"{project} names no packages: a bundle needs nothing of it ({', '.join(requirements.FOUND)})"
        )
    found = resolve.resolve(wanted, base, root, say)
    kept = work / _name(wanted)
    packages = {name: package.version for name, package in base.packages.items()}
    kept.write_text(json.dumps({"packages": packages, "layer": found.as_json() if found else None}))
    files = [kept]
    if found:
        archive = build.make(found, say)
        files += [archive.path, archive.path.with_name(f"{found.key}.json")]
    lines = told.lines(found, wanted) if found else ["the nodes have it all"]
    unread = (requirements.unread(asked, root), requirements.unread_own(wanted, root))
    said = tuple(line.removeprefix("environment: ") for line in (*lines, *unread) if line)
    return Packed(found, said, {f"{build.IN_BUNDLE}/{path.name}": path for path in files})


def find(wanted: Wanted, base: Base) -> Resolution | None:
    """The layer that a bundle has for a list and for what the nodes have; None without one."""
    for folder in build.of_bundles():
        try:
            said = json.loads((folder / _name(wanted)).read_text())
            found = Resolution.from_json(said["layer"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        same = all(
            name in base.packages and base.packages[name].version == version
            for name, version in said["packages"].items()
        )
        own = {package.name for package in found.packages}
        if same and found.minor == base.minor and found.runs_on(base.platform) and not own & {*wanted.fixed}:
            return replace(found, base=base.id)
    return None


def _name(wanted: Wanted) -> str:
    return f"wanted-{wanted.digest[:24]}.json"
