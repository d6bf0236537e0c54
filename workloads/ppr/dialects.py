"""The kinds of graph files that have a name: how each begins, where its edges are, and what is refused, and why.

A further kind is one more entry of FORMS, and a file of it in tests/unit/workloads/dialects. All other files of edges
are lists with the columns of their first lines (dialect.py): SNAP, CSV, Gephi, networkx and igraph write such ones.
Only the standard library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

COMMENTS = (b"#", b"%", b"//")
"""The beginnings of lines that are no edges, before the first edge of any list."""


@dataclass(frozen=True)
class Form:
    """A kind of graph file. `begins`: its first line; `head`: all before its first edge, as far as it has some.

    Groups of `head`: `nodes` and `edges`, how many there should be; `columns`, which has to equal `nodes`; `both`, a
    word of `undirected` where edges lead both ways. `refused`: why it is not read and what to do, perhaps only where
    `begins` and not `head` finds it. `ends`: the columns of the source and target; `weight`: the column of weights;
    `rest`: whatever columns may follow the ends. `letters`: the first column of an edge; a line that begins with
    another letter is a comment. `sections`: lines that say what comes after them. `lenient`: its files are known to
    count edges once or twice.
    """

    name: str
    begins: re.Pattern[bytes]
    head: re.Pattern[bytes] | None = None
    refused: str = ""
    undirected: tuple[bytes, ...] = ()
    ends: tuple[int, int] = (0, 1)
    weight: int | None = 2
    rest: bool = False
    letters: tuple[bytes, ...] = ()
    sections: re.Pattern[bytes] | None = None
    names: re.Pattern[bytes] | None = None
    lenient: bool = False


def _begins(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\s*" + pattern, re.IGNORECASE)


_WRITE = "read it with networkx and write its edges: networkx.write_weighted_edgelist(networkx.{reader}, 'edges.txt')"

FORMS = (
    Form(
        "Matrix Market array",
        _begins(rb"%%MatrixMarket[ \t]+\w+[ \t]+array\b"),
        refused="holds a dense matrix: write the sparse one with scipy.io.mmwrite",
    ),
    Form(
        "Matrix Market",
        _begins(rb"%%MatrixMarket\b"),
        re.compile(
            rb"\s*%%MatrixMarket[ \t]+matrix[ \t]+coordinate[ \t]+(?P<field>\w+)[ \t]+(?P<both>[\w-]+)[^\n]*\n"
            rb"(?:[ \t]*(?:%[^\n]*)?\r?\n)*"
            rb"[ \t]*(?P<nodes>\d+)[ \t]+(?P<columns>\d+)[ \t]+(?P<edges>\d+)[ \t]*\r?(?:\n|\Z)",
            re.IGNORECASE,
        ),
        undirected=(b"symmetric", b"skew-symmetric", b"hermitian"),
    ),
    Form(
        "KONECT, two kinds of nodes",
        _begins(rb"%[ \t]*bip\b"),
        refused="numbers its two kinds of nodes apart, so that 1 is two nodes; give them names: "
        """awk '!/^%/ {{print "u" $1, "v" $2}}' {path} > edges.txt""",
    ),
    Form(
        "KONECT",
        _begins(rb"%[ \t]*(?:sym|asym)\b"),
        re.compile(rb"\s*%[ \t]*(?P<both>sym|asym)[^\n]*\n(?:[ \t]*(?:%[^\n]*)?\r?\n)*", re.IGNORECASE),
        undirected=(b"sym",),
    ),
    Form(
        "Pajek",
        _begins(rb"\*(?:network|vertices|arcs|edges|matrix)"),
        re.compile(
            rb"\s*(?:\*network[^\n]*\n)?(?:[ \t]*(?:%[^\n]*)?\r?\n)*"
            rb"(?:\*vertices[ \t]+(?P<nodes>\d+)[^\n]*\n(?:[^*\n][^\n]*\n|\n)*)?"
            rb"\*(?P<both>arcs|edges)(?![a-z])[^\n]*(?:\n|\Z)",
            re.IGNORECASE,
        ),
        undirected=(b"edges",),
        rest=True,
        sections=re.compile(rb"(?mi)^[ \t]*\*([a-z]*)[^\n]*"),
        names=re.compile(rb'(?m)^[ \t]*(?P<id>\d+)[ \t]+(?:"(?P<quoted>[^"\n]*)"|(?P<name>[^\s"*]+))'),
        refused="has no line *Arcs or *Edges above its edges: add the one that is true of them (*Matrix, *Arcslist and "
        "*Edgeslist are not read: " + _WRITE.format(reader="read_pajek('{path}')") + ")",
    ),
    Form(
        "DIMACS",
        _begins(rb"(?:c(?:[ \t][^\n]*)?\r?\n\s*)*p[ \t]+(?:edge|edges|col)[ \t]+\d+[ \t]+\d+[ \t]*\r?\n"),
        re.compile(rb"(?:\s*c(?:[ \t][^\n]*)?\n)*\s*p[ \t]+\w+[ \t]+(?P<nodes>\d+)[ \t]+(?P<edges>\d+)[^\n]*\n"),
        undirected=(b"",),
        ends=(1, 2),
        weight=3,
        letters=(b"e",),
        lenient=True,
    ),
    Form(
        "DIMACS, arcs",
        _begins(rb"(?:c(?:[ \t][^\n]*)?\r?\n\s*)*p[ \t]+(?:sp|max|min|aux)[ \t]+(?:\w+[ \t]+)*\d+[ \t]+\d+[ \t]*\r?\n"),
        re.compile(rb"(?:\s*c(?:[ \t][^\n]*)?\n)*\s*p[ \t]+\w+[ \t]+(?P<nodes>\d+)[ \t]+(?P<edges>\d+)[^\n]*\n"),
        ends=(1, 2),
        weight=3,
        letters=(b"a",),
    ),
    Form(
        "GraphML, GEXF or another kind of XML",
        _begins(rb"<(?:\?xml|graphml|gexf|!--|!doctype)"),
        refused=_WRITE.format(reader="read_graphml('{path}')") + " (read_gexf for GEXF)",
    ),
    Form(
        "GML",
        _begins(rb'(?:creator[ \t]+"|version[ \t]+\d|graph\s*\[)'),
        refused=_WRITE.format(reader="read_gml('{path}')"),
    ),
    Form(
        "DOT",
        _begins(rb'(?:strict[ \t]+)?(?:di)?graph[ \t]*(?:[\w"]+[ \t]*)?\{'),
        refused=_WRITE.format(reader="nx_pydot.read_dot('{path}')"),
    ),
    Form(
        "JSON",
        _begins(rb'(?:\{\s*(?:"|\r?\n|\Z)|\[\s*(?:[\[{"]|\r?\n))'),
        refused=_WRITE.format(reader="node_link_graph(json.load(open('{path}')))"),
    ),
    Form(
        "UCINET's DL",
        _begins(rb"dl[ \t]+n[ \t]*="),
        refused="export it as Pajek, which is read",
    ),
)
"""Looked for in this order."""

NEEDS_MORE = re.compile(rb"\s*(?:c(?:[ \t][^\n]*)?\n)+(?:p[^\n]*)?\Z")
"""A beginning with which DIMACS is not yet told from a list of words."""
