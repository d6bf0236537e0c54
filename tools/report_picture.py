"""`python -m tools.report_picture RESULTS`: pictures of a report for the docs, from a folder of records."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from regatta import paths
from regatta.report import files, make, pdf

FOLDER = paths.PROJECT / "docs/images"
SCREEN: dict[str, Any] = {"viewport": {"width": 880, "height": 640}, "color_scheme": "light"}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark", "is_mobile": True}
A4: dict[str, Any] = {"viewport": {"width": 794, "height": 1123}, "color_scheme": "light"}


def main() -> None:
    """Make the page of the records, and take pictures of its beginning in a browser that is here."""
    browser = pdf.browser()
    if len(sys.argv) != 2 or browser is None:
        sys.exit(f"{__doc__} Needs one of {', '.join(pdf.BROWSERS)}.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        address = files.write(Path(folder), make.report(Path(sys.argv[1])), (), 0).page.as_uri()
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, shown in {"report": SCREEN, "report-phone": PHONE, "report-print": A4}.items():
            page = started.new_page(**shown)
            printed = shown is A4
            page.goto(address + "#print" * printed)
            if printed:
                page.wait_for_selector("html[data-drawn=yes]")
                page.emulate_media(media="print")
            page.locator("#answers .chart svg").first.wait_for()
            picture = FOLDER / f"{name}.png"
            page.screenshot(path=picture)
            print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")
        started.close()


if __name__ == "__main__":
    main()
