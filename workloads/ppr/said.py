"""The words for a person about a graph file: what was read, what was left out, and what cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workloads.common.events import BadInput
from workloads.ppr.dialect import WEIGHTS, Dialect, Size, shown

_COUNTED = re.compile(rb"(?im)^#[^\n]*\bedges:[ \t]*(\d{1,18})\b")
"""SNAP's comment: ``# Nodes: 5 Edges: 8``."""


def read_as(edges: int, names: int | None, header: str, notes: Sequence[str] = ()) -> str:
    """Return what was read, as one line for a person; `names`: how many, where ids are words."""
    said = [f"{edges:,} edge{'s' if edges != 1 else ''}"]
    if names is not None:
        said.append(f"{names:,} names")
    if header or names is not None:
        said.append(f"header `{header}`" if header else "no header")
    return ", ".join([*said, *notes])


def notes(
    found: Dialect, edges: int, comments: int, undirected: int, *, weighted: bool, doubled: bool = True
) -> list[str]:
    """Notes for a person on a file of so many edges that was read: its kind, and all that was left out.

    `comments`: how many after the first edge; `undirected`: how many edges lead both ways by what the file says;
    `doubled`: these were read in both directions.
    """
    said = [found.form.name] if found.form else []
    if undirected:
        said.append(f"{undirected:,} of them undirected{', read both ways' if doubled else ''}")
    used = {str((found.weight or 0) + 1), *WEIGHTS} if weighted and found.weight is not None else set()
    if left := [name for name in found.others if name.lower() not in used and not (weighted and found.data)]:
        columns = f"column{'s' if len(left) > 1 else ''} {', '.join(left)}" if left != ["data"] else "data of edges"
        said.append(f"{columns} left out")
    if weighted:
        said.append("weighted")
    if comments:
        said.append(
            f"{comments:,} line{'s' if comments > 1 else ''} between edges left out as comment{'s' * (comments > 1)}"
        )
    if (told := _COUNTED.search(found.comments)) and int(told[1]) not in (edges, 2 * edges, edges / 2):
        said.append(f"its comments say {int(told[1]):,} edges: is the file cut?")
    return said


def checked(path: object, found: Dialect, edges: int) -> None:
    """Raise BadInput where a file of so many edges says that it has others."""
    size = found.size
    if size is None or size.edges in (-1, edges) or (size.lenient and edges in (2 * size.edges, size.edges / 2)):
        return
    raise BadInput(
        f"{path}: line {size.line}: says {size.edges:,} edges, and there are {edges:,}: the file is cut, or the "
        "line is wrong: copy the file again, or correct the line"
    )


def asks(path: object, asked: Size, edges: int) -> BadInput:
    """The question what the first line is, to be raised."""
    return BadInput(
        f"{path}: line {asked.line}: may be the size of the graph (Matrix Market without its comments, METIS) and not "
        f"an edge, because its last number is how many lines follow ({edges:,}), and no id is larger than "
        f"{asked.nodes:,}: say --first-line size or --first-line edge"
    )


def odd_first(path: object, found: Dialect) -> BadInput:
    """The error of a first line that has not the columns of the others and is no size, to be raised."""
    line = found.asked.line if found.asked else 1
    count = len(found.first.split())
    return BadInput(
        f"{path}: line {line}: an edge has {found.count} columns in the lines after it, here are {count}: "
        f"{shown(found.first)}: correct it, or say --first-line size if it is the size of the graph (METIS, which has "
        "the neighbours of a node a line, is not read)"
    )


def no_edges(path: object, header: str = "") -> BadInput:
    """The error that says that a graph has no edges, to be raised."""
    only = f" (only the header `{header}`)" if header else ""
    return BadInput(f"{path}: the graph is empty: give a file with an edge a line{only}")
