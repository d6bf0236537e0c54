"""The page in a real browser: Debian's chromium, headless, without a network."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept
import pytest
from msgspec import structs

from regatta.errors import RecordError
from regatta.records.record import SCHEMA_VERSION, Record, Series
from regatta.report import files, make, pdf

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}

pytestmark = pytest.mark.skipif(
    BROWSER is None and not os.environ.get("CI"), reason="chromium is not installed (make test as root does it)"
)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a case of each workload, a failed run, a file that is no record, and an earlier set."""
    base = tmp_path_factory.mktemp("report")
    os.environ["REGATTA_CACHE"] = str(base / "cache")
    store = kept.copy_to(base / "results")
    store.save(kept.failed(kept.one("stars", "torch")))
    (store.root / "short.json").write_text('{"schema_version": 1')
    old = kept.copy_to(base / "old")
    torch = kept.one("stars", "torch")
    for index in range(6):
        store.save(kept.again(torch, f"now-{index}", times=2 + index / 50, count=9))
        old.save(kept.again(torch, f"before-{index}", times=1 + index / 50, count=9))
    series = Series("beside", 1, 1, published=145.0, published_size=100_000)
    store.save(iterated(kept.measured(kept.again(torch, "iterated", count=7, series=series))))
    for record in kept.records():
        old.delete(record.run_id)
    words = [
        "--data=</script><b>bold</b>",
        f"--name={'x' * 300}",
        "--to=\u202eleft to right\u2066",
        "--ende=\u05d0\u05d1",
    ]
    hostile = kept.again(torch, "hostile", count=6)
    named = structs.replace(hostile.identity, parameters={"options": words}, workload="</script>\u202e" + "w" * 300)
    store.save(structs.replace(hostile, identity=named))
    for week in range(1, 4):
        later = kept.again(torch, f"week-{week}", count=8)
        began = structs.replace(later.identity, started=f"2026-02-{7 * week:02}T10:00:00Z")
        store.save(structs.replace(later, identity=began, series=None))
    return files.write(base / "out", make.report(store.root, against=old.root, histories=True), (), 0).page


def iterated(record: Record) -> Record:
    """The run as if its ranks had counted iterations."""
    points = [[2.0 + step / 2, 10.0 * step + step % 3, None] for step in range(1, 9)]
    ranks = tuple(structs.replace(rank, progress={"iterations": points}) for rank in record.ranks)
    return structs.replace(record, ranks=ranks)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """An open page, what its console said, and which addresses it asked for."""

    def __init__(self, browser: Any, path: Path, size: str, scheme: str) -> None:
        self.context = browser.new_context(
            viewport=SIZES[size], color_scheme=scheme, is_mobile=size == "phone", has_touch=size == "phone"
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]")

    def draw_all(self) -> None:
        """Open every part and pass by every chart."""
        self.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        for chart in self.page.locator("main .chart").all():
            chart.scroll_into_view_if_needed()
        self.page.wait_for_function("!document.querySelector('main .chart:not(.vega-embed)')")

    def colour(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))


USUAL = [("desktop", "light"), ("phone", "dark")]
OTHERS = [(size, colours) for size in SIZES for colours in ("light", "dark") if (size, colours) not in USUAL]
BOTH = pytest.mark.parametrize("visit", USUAL, ids="-".join, indirect=True)
ALL = pytest.mark.parametrize(
    "visit", [*USUAL, *(pytest.param(other, marks=pytest.mark.whole) for other in OTHERS)], ids="-".join, indirect=True
)


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Any, page_file: Path) -> Iterator[Visit]:
    made = Visit(browser, page_file, *getattr(request, "param", ("desktop", "light")))
    yield made
    made.context.close()


@ALL
def test_everything_is_drawn_and_nothing_complains(visit: Visit, page_file: Path, tmp_path: Path) -> None:
    visit.draw_all()
    assert visit.said == []
    assert {url for url in visit.asked if not url.startswith(("data:", "blob:"))} == {page_file.as_uri()}
    kinds = {chart.get_attribute("data-chart") for chart in visit.page.locator("main .chart").all()}
    steps = {"repetitions", "progress", "iterations", "timeline"}
    assert kinds == {"bars", "phases", "speedup", "changes", "overview", "history", "memory"} | steps
    wide = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0
    for chart in visit.page.locator("main .chart svg").all():
        box, around = chart.bounding_box(), chart.locator("xpath=ancestor::main").bounding_box()
        assert box and around
        assert box["x"] + box["width"] <= around["x"] + around["width"] + 1
    folder = Path(os.environ.get("REGATTA_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    visit.page.evaluate("scrollTo(0, 0)")
    size = visit.page.viewport_size["width"]
    assert visit.page.screenshot(path=folder / f"report-{size}-{visit.colour()}.png", full_page=True)


def test_a_name_does_not_turn_the_text_beside_it_round(visit: Visit) -> None:
    visit.draw_all()
    visit.page.locator('#run-table a[href="#run=hostile"]').click()
    dialog = visit.page.locator("dialog[open]")
    dialog.locator("details.record summary").click()
    assert "\\u202eleft to right" in dialog.locator("details.record pre").inner_text()
    assert not [one for one in "\u202e\u2066" if one in visit.page.content()]
    assert visit.said == []


def test_at_four_widths_nothing_is_wider_than_the_screen(visit: Visit) -> None:
    visit.draw_all()
    for chart in visit.page.locator(".chart[data-chart=bars]").all():
        rows = {text.split("/")[0].split()[0] for text in chart.locator(".role-axis-label text").all_text_contents()}
        legend = {*chart.locator(".role-legend-label text").all_text_contents()} - {"end to end", "compute"}
        assert legend and legend <= rows, "only frameworks that it draws"
    for width in (320, 768, 1280, 1920):
        visit.page.set_viewport_size({"width": width, "height": 800})
        visit.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 100)))")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        answer = visit.page.locator(".answer").first.bounding_box()
        assert answer and answer["y"] < 800, "the first screen has an answer"


@BOTH
def test_the_colours_follow_the_button(visit: Visit) -> None:
    visit.draw_all()
    button = visit.page.locator("#theme")
    found = {}
    for _ in range(3):
        button.click()
        found[button.inner_text()] = visit.colour()
        label = visit.page.locator(".chart[data-chart=bars] svg .role-axis-label text").first
        found[f"{button.inner_text()} label"] = label.get_attribute("fill")
        visit.page.wait_for_timeout(50)
    assert found["light"] != found["dark"]
    assert found["auto"] in (found["light"], found["dark"])
    visit.page.reload()
    visit.page.wait_for_selector("html[data-ready=yes]")
    assert button.inner_text() == "auto"
    assert visit.said == []


@BOTH
def test_every_run_is_a_click_away_with_its_record(visit: Visit) -> None:
    links = visit.page.locator("#run-table tbody a")
    assert links.count() == len(kept.records()) + 12
    for run in ("failed-run", kept.one("stars", "ray").run_id):
        visit.page.locator(f'#run-table a[href="#run={run}"]').click()
        dialog = visit.page.locator("dialog[open]")
        dialog.wait_for()
        assert dialog.locator("h2").inner_text() == run
        dialog.locator("details.record summary").click()
        assert json.loads(dialog.locator("details.record pre").inner_text())["identity"]["run_id"] == run
        with visit.page.expect_download() as download:
            dialog.locator("details.record a").click()
        kept_record = json.loads(Path(download.value.path()).read_text())
        assert kept_record["schema_version"] == SCHEMA_VERSION
        if run == "failed-run":
            assert "localhost, rank 1: killed by SIGKILL" in dialog.inner_text()
            assert "<script>alert(1)</script>" in dialog.inner_text()
        dialog.locator(".close").click()
        visit.page.wait_for_function("!document.querySelector('dialog').open && !location.hash")
    assert visit.said == []


def test_links_lead_somewhere(visit: Visit) -> None:
    for link in visit.page.locator("nav a").all():
        target = link.get_attribute("href")
        link.click()
        assert visit.page.locator(str(target)).count() == 1
    visit.page.goto(f"{visit.page.url.partition('#')[0]}#run={kept.one('digits', 'torch').run_id}")
    visit.page.reload()
    visit.page.locator("dialog[open]").wait_for()
    visit.page.keyboard.press("Escape")
    visit.page.wait_for_function("!document.querySelector('dialog').open")


def test_runs_are_filtered_and_sorted(visit: Visit) -> None:
    visit.page.fill("#filter", "stars ray")
    shown = visit.page.locator("#run-table tbody tr:visible")
    assert shown.count() == 3
    visit.page.locator("#run-table thead th", has_text="total").click()
    totals = [float(text.removesuffix(" s")) for text in shown.locator("td:nth-child(13)").all_inner_texts()]
    assert totals == sorted(totals)
    assert len(totals) == 3


def test_what_changed_is_marked(visit: Visit) -> None:
    assert visit.page.locator("#changes td.slower").all_inner_texts() == ["now is slower", "now is slower"]
    assert "1 file was left out" in visit.page.locator("details.warning summary").inner_text()
    assert visit.page.locator("#times td", has_text="failed").count() == 0


def test_a_caption_stands_once(visit: Visit) -> None:
    found = visit.page.locator("#answers figure > .note").all_text_contents()
    assert len(found) > 2 and len(found) == len({*found})


def test_a_timeline_can_be_chosen(visit: Visit) -> None:
    figure = visit.page.locator(".case details[open] .timelines").first
    figure.scroll_into_view_if_needed()
    figure.locator(".chart svg.marks").wait_for()
    choice = figure.locator("select")
    other = choice.locator("option").last.inner_text()
    choice.select_option(other)
    assert figure.locator(".chart").get_attribute("data-run") == other
    assert visit.said == []


@pytest.mark.parametrize("width", [794, 559], ids=["A4", "A5"])
def test_printed_all_is_there_and_nothing_is_cut(browser: Any, page_file: Path, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 1123})
    page = context.new_page()
    page.goto(f"{page_file.as_uri()}#print")
    page.wait_for_selector("html[data-drawn=yes]")
    page.emulate_media(media="print")
    assert page.locator(".chart").count() == page.locator(".chart > svg, .chart svg.marks").count()
    wide = "(one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1"
    cut = f"[...document.querySelectorAll('main *:not(svg, svg *)')].filter({wide}).map((one) => one.outerHTML)"
    assert page.evaluate(cut) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = "(one) => one.getBoundingClientRect().width < 0.6 * one.viewBox.baseVal.width"
    charts = "[...document.querySelectorAll('main .chart > svg, main .chart svg.marks')]"
    assert page.evaluate(f"{charts}.filter({small}).length") == 0, "words in charts can be read"
    right = "(one) => one.getBoundingClientRect().right"
    cut = f"(one) => [...one.querySelectorAll('.role-legend')].some((part) => ({right})(part) > ({right})(one) + 1)"
    assert page.evaluate(f"{charts}.filter({cut}).map((one) => one.textContent)") == [], "no legend is cut"
    in_two = "(one) => { const words = new Range(); words.selectNodeContents(one); return words.getClientRects()[1]; }"
    heads = "[...document.querySelectorAll('#run-table thead th')].filter((one) => !/\\s/.test(one.textContent))"
    states = "[...document.querySelectorAll('#run-table td:nth-child(6)')]"
    assert page.evaluate(f"[...{heads}, ...{states}].filter({in_two}).map((one) => one.textContent)") == []
    context.close()


def test_who_prints_the_page_gets_all_parts(visit: Visit) -> None:
    shut = visit.page.locator("details:not(.rows):not([open])")
    before = shut.count()
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert before and not shut.count()
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shut.count() == before


def test_the_page_is_printed_into_a_file(page_file: Path, tmp_path: Path) -> None:
    pdf.write(page_file, tmp_path / "report.pdf")
    text = (tmp_path / "report.pdf").read_bytes()
    assert text.startswith(b"%PDF") and text.count(b"/Type /Page\n") > 3
    with pytest.raises(RecordError, match="printed no"):
        pdf.write(page_file, tmp_path / "none" / "report.pdf")


def test_without_a_browser_it_is_said_how_to_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecordError, match=r"no browser is here.*apt-get install"):
        pdf.write(tmp_path / "report.html", tmp_path / "report.pdf")


def test_without_javascript_the_charts_are_in_the_page(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    for case in page.locator(".case").all():
        assert case.locator(".answer").count() and case.locator("figure .chart[data-chart=bars] > svg").count() == 1
    assert page.locator("main .chart").count() == page.locator("main .chart > svg").count()
    assert "its charts" in page.locator("noscript").text_content()
    context.close()


def test_each_chart_has_its_table(visit: Visit) -> None:
    visit.draw_all()
    assert visit.page.locator("main .chart").count() == visit.page.locator("main .chart + .rows").count()
    accuracy = visit.page.locator(".chart[data-chart=progress] + .rows").first
    assert [name for name in accuracy.locator("th").all_inner_texts() if name in ("seconds", "value")]
    assert accuracy.locator("tbody tr").count() > 1
    assert visit.said == []


def test_a_page_of_one_run(browser: Any, tmp_path: Path) -> None:
    store = kept.copy_to(tmp_path / "results")
    run = kept.one("stars", "torch").run_id
    page = files.write(tmp_path / "out", make.report(store.root, run=run), (), 0).page
    made = Visit(browser, page, "phone", "light")
    made.draw_all()
    assert made.page.locator("#one h2").inner_text() == run
    assert made.page.locator("#one .record").count() == 1
    assert made.said == []
    made.context.close()
