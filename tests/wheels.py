"""Small wheels that tests make, so that packages come from a folder and need no network."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make(folder: Path, name: str, version: str, files: Mapping[str, str], needs: Sequence[str] = ()) -> Path:
    """A wheel of plain Python: `files` by path, `needs` are its requirements; `NAME:main` is its program."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {one}\n" for one in needs)
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-program = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*whole, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in {**whole, f"{info}/RECORD": record}.items():
            wheel.writestr(inside, text)
    return path
