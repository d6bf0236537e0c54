"""Locks of uv and of PEP 751 as lines of a list; a package in them that comes from elsewhere keeps its index."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name as canonical

from regatta.environment import sources, uv
from regatta.environment.names import Names
from regatta.environment.pyproject import at, document
from regatta.errors import EnvironmentFault

_FROM = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*@\s*(\S+)")


def of_uv(file: Path, exported: str, names: Names) -> list[str]:
    """Return the lines that `uv export` gives of a lock. EnvironmentFault for one that is no published package."""
    lines = exported.splitlines()
    for line in lines:
        if elsewhere := _FROM.match(line):
            raise EnvironmentFault(sources.refusal(file, canonical(elsewhere[1]), uv.PRIVATE.sub("//", elsewhere[2])))
    known = _known()
    for package in document(file).get("package", []):
        url = at(package, "source", "registry", otherwise="")
        if url and not uv.alone() and url.rstrip("/") not in known:
            names.index(canonical(package["name"]), _index(url, file))
    return lines


def of_pylock(file: Path, table: Mapping[str, Any], names: Names, hashes: dict[str, set[str]]) -> list[str]:
    """Return the packages of a `pylock.toml` as lines; adds their SHA-256. EnvironmentFault for one from elsewhere."""
    return [*_lines(file, table, names, hashes)]


def _lines(file: Path, table: Mapping[str, Any], names: Names, hashes: dict[str, set[str]]) -> Iterator[str]:
    known = _known()
    for package in table.get("packages", []):
        name = canonical(str(package.get("name")))
        if name in names.own:
            continue
        for kind in ("vcs", "directory", "archive"):
            if kind in package:
                shown = ", ".join(f"{key} {value}" for key, value in package[kind].items() if key in ("url", "path"))
                raise EnvironmentFault(sources.refusal(file, name, f"{kind} {uv.PRIVATE.sub('//', shown)}"))
        if "version" not in package:
            raise EnvironmentFault(f"{file}: {name} has no version: lock a published version of it, or take it out")
        index = str(package.get("index", ""))
        if index and not uv.alone() and index.rstrip("/") not in known:
            names.index(name, _index(index, file))
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        digests = {one.get("hashes", {}).get("sha256") for one in files} - {None}
        hashes.setdefault(name, set()).update(digests)
        marker = f" ; {package['marker']}" if package.get("marker") else ""
        yield f"{name}=={package['version']}{marker}"


def _known() -> set[str]:
    """The indexes in which all packages are looked for, without passwords."""
    return {uv.PUBLIC, *(uv.PRIVATE.sub("//", url).rstrip("/") for url in uv.indexes())}


def _index(url: str, file: Path) -> sources.Index:
    """The index of a URL, by the name that the project next to the lock has for it."""
    beside = file.parent / "pyproject.toml"
    tables = at(document(beside), "tool", "uv", "index", otherwise=[]) if beside.is_file() else []
    folder = (file.parent / url).resolve()
    whole = url if "://" in url else folder.as_uri()
    flat = {"format": "flat"} if "://" not in url and any(folder.glob("*.whl")) else {}
    named = (str(one["name"]) for one in tables if one.get("url") in (url, whole) and one.get("name"))
    name = next(named, re.sub(r"\W+", "-", whole).strip("-"))
    return sources.Index(({"index": name},), ({"name": name, "url": whole, **flat},))
