"""The picture of a report for the README: python docs/images/screenshot.py runs/demo/report.html

Headless Chromium, the atlas in view, one head kept and another under the pointer.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1160, 860


def main() -> None:
    page = Path(sys.argv[1]).resolve()
    target = Path(__file__).with_name("report.png")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        tab.evaluate("document.querySelector('#atlas').scrollIntoView()")
        frames = tab.locator("#joined .frame.top")
        frames.nth(frames.count() // 2).click()
        frames.nth(frames.count() // 3).hover()
        tab.screenshot(path=target)
        browser.close()
    print(target)


if __name__ == "__main__":
    main()
