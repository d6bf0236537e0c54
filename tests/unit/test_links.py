"""Links: each page, section and file that a document links to, or that code names, is there."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from regatta import paths

ROOT = paths.PROJECT
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/[\w/.-]+\.md(?:#[\w-]+)?")
FENCE = re.compile(r"^(```|    ).*$|`[^`\n]*`", re.MULTILINE)
TEXT = (".py", ".sh", ".yml", ".yaml", ".toml", ".j2", ".json", "Makefile")


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    found = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines()
    return [ROOT / name for name in found if (ROOT / name).exists()]


PAGES = tracked("*.md")


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    headings = re.findall(r"^#{1,6} (.+)$", page.read_text(), re.MULTILINE)
    return frozenset(slug(one) for one in headings)


def problem(base: Path, target: str) -> str | None:
    """Return what is wrong with a link of a file in `base`, or None."""
    path, _, anchor = target.partition("#")
    page = (base / path).resolve()
    if not page.exists():
        return f"{target}: no such file"
    if anchor and anchor not in anchors(page):
        return f"{target}: no such section"
    return None


def test_links_of_pages_lead_somewhere() -> None:
    found = [(page, link) for page in PAGES for link in LINK.findall(FENCE.sub("", page.read_text()))]
    assert len(found) > 200
    inside = [(page, link) for page, link in found if not re.match(r"[a-z]+:", link)]
    wrong = [(page, problem(page if link.startswith("#") else page.parent, link)) for page, link in inside]
    assert [f"{page.relative_to(ROOT)}: {one}" for page, one in wrong if one] == []


def test_pages_that_code_and_messages_name_are_there() -> None:
    files = [path for path in tracked(":!docs", ":!tests/unit/test_links.py") if path.name.endswith(TEXT)]
    named = {(path, link) for path in files for link in NAMED.findall(path.read_text())}
    assert len(named) > 40
    wrong = [(str(path.relative_to(ROOT)), problem(ROOT, link)) for path, link in sorted(named)]
    assert [one for one in wrong if one[1]] == []


def test_a_page_that_is_missing_and_a_section_that_is_missing_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# One `two`\n\n## Three, four's\n")
    assert problem(tmp_path, "page.md#one-two") is problem(tmp_path, "page.md#three-fours") is None
    assert problem(tmp_path, "other.md") == "other.md: no such file"
    assert problem(tmp_path, "page.md#five") == "page.md#five: no such section"


@pytest.mark.whole
def test_the_site_is_made_without_a_warning_and_asks_no_network() -> None:
    subprocess.run(["tools/docs_site.sh"], cwd=ROOT, check=True)
    site = ROOT / "build/docs"
    pages = {path.relative_to(site).with_suffix(".md") for path in site.glob("**/*.html")}
    moved = set((ROOT / "docs").glob("[!i]*.md"))
    assert {
        page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in moved
    } <= pages
    assert (site / "searchindex.js").exists()
    loaded = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//|@import|url\(["\']?https?:')
    assert [
        path.name for path in site.glob("**/*") if path.suffix in {".html", ".css"} and loaded.search(path.read_text())
    ] == []
