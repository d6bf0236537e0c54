"""The site of the docs (`make docs-site`): the pages that are here, with search and a contents list."""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent
FOLDERS = ("tutorial", "how-to", "reference", "explanation", "results", "developing")

project = "Regatta"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Regatta"
html_show_sphinx = False
myst_heading_anchors = 6
# What links on from where a page was before.
exclude_patterns = ["[!i]*.md"]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#]*)\)")


def _contents(folder: Path) -> list[str]:
    pages = sorted(page for page in folder.glob("*.md") if page.name != "index.md")
    below = sorted(index for index in folder.glob("*/index.md") if index.parent.name not in FOLDERS)
    return [str(page.relative_to(folder).with_suffix("")) for page in [*pages, *below]]


def _within(page: Path, text: str) -> str:
    """Return a page whose links to files outside of the docs, which the site lacks, are their names and paths."""

    def named(link: re.Match[str]) -> str:
        there = (page.parent / link[2]).resolve()
        return link[0] if there.is_relative_to(HERE) else f"{link[1]} (`{there.relative_to(HERE.parent)}`)"

    return _LINK.sub(named, text)


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    """Give each index page the hidden contents list that the site's sidebar is made from."""
    source[0] = _within(HERE / name, source[0])
    if Path(name).name == "index":
        folder = (HERE / name).parent
        listed = [f"{one}/index" for one in FOLDERS] if folder == HERE else _contents(folder)
        source[0] += "\n```{toctree}\n:hidden:\n" + "\n".join(listed) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Connect it. Mermaid's pictures, which GitHub draws, are text here: what draws them would ask the network."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _read)
