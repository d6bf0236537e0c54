"""Which Debian package has a shared library that a program lacks: `libraries.toml`."""

import functools
import sys
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "libraries.toml"


@functools.cache
def _tables() -> dict[str, dict[str, str]]:
    return dict(tomllib.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")))


def package(library: str) -> str | None:
    """Return the Debian package of a library (libGL.so.1, also libGL.so); None where that is not known."""
    tables = _tables()
    by_prefix = (name for prefix, name in tables["prefix"].items() if library.startswith(prefix))
    without_number = (name for one, name in tables["package"].items() if one.startswith(f"{library}."))
    return tables["package"].get(library) or next(by_prefix, None) or next(without_number, None)


def advice(library: str) -> str:
    """Return what to do about a library that is missing."""
    name = package(library)
    if name is None:
        return f"write its Debian package into regatta.toml, apt = [...] ('apt-file search {library}' names it)"
    return f'it is in Debian\'s package {name}: write apt = ["{name}"] into regatta.toml, and the next run has it'
