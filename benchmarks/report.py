"""The page for 24 tasks × 384 heads: how long it takes to build, how large it is, when it is ready.

    python benchmarks/report.py

Building is timed in a separate process, from `brodmann report` to its end (figures included); ready
is from opening the file in headless Chromium to the script's last line.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.run_folders import write_run

ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        write_run(folder, [f"task {number}" for number in range(24)], layers=24, heads=16)
        building = [build(folder) for _ in range(ROUNDS)]
        page = folder / "report.html"
        result = {
            "tasks": 24,
            "heads": 384,
            "build_seconds": statistics.median(building),
            "megabytes": page.stat().st_size / 1e6,
            "ready_seconds": statistics.median(ready(page) for _ in range(ROUNDS)),
        }
    print(
        f"built in {result['build_seconds']:.2f} s, {result['megabytes']:.2f} MB, "
        f"ready {result['ready_seconds']:.2f} s after opening"
    )
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")


def build(folder: Path) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "brodmann", "report", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def ready(page: Path) -> float:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page()
        began = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_function("document.querySelectorAll('#maps .frame.top').length > 0")
        seconds = time.perf_counter() - began
        browser.close()
        return seconds


if __name__ == "__main__":
    main()
