"""`python -m tools.report_picture RESULTS`: the picture of a report in README.md, from a folder of records."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from regatta import paths
from regatta.report import files, make, pdf

PICTURE = paths.PROJECT / "docs/images/report.png"
_SIZE = {"width": 880, "height": 640}


def main() -> None:
    """Make the page of the records, and take a picture of its beginning in a browser that is here."""
    browser = pdf.browser()
    if len(sys.argv) != 2 or browser is None:
        sys.exit(f"{__doc__} Needs one of {', '.join(pdf.BROWSERS)}.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = files.write(Path(folder), make.report(Path(sys.argv[1])), (), 0).page
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = started.new_page(viewport=_SIZE, color_scheme="light")
        page.goto(page_file.as_uri())
        page.locator("#answers .chart svg").first.wait_for()
        page.screenshot(path=PICTURE)
        started.close()
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
