"""The report in a real browser: nothing is fetched, every picture is there, and it fits the window.

``AGENTLAB_SCREENSHOTS`` names a folder for a picture of the page, to be looked at by a person.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentlab import analysis
from agentlab.log import ParquetStore
from tests.query.runs import short

sync_api = pytest.importorskip("playwright.sync_api")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path / "lab")
    short(store, "a <b>")
    made = analysis.report(store, tmp_path / "page.html")
    said: list[str] = []
    asked: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 900, "height": 800})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(made.path.absolute().as_uri())
        widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        alts = page.evaluate("[...document.images].map(image => image.alt)")
        heads = page.evaluate("[...document.querySelectorAll('h1, h2')].map(head => head.textContent)")
        across = page.evaluate("document.documentElement.scrollWidth")
        if folder := os.environ.get("AGENTLAB_SCREENSHOTS"):
            page.screenshot(path=str(Path(folder, "report.png")), full_page=True)
        browser.close()
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [made.path.absolute().as_uri()]
    assert len(widths) == 8 and min(widths) > 400 and all(alts)
    assert heads[:3] == ["Session a <b>", "Diagnosis", "Timeline"] and "Checkpoints" in heads
    assert across <= 900
