"""docs/compress.md shows the stored figures of benchmarks/results/compress.jsonl and others."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = (ROOT / "docs" / "compress.md").read_text(encoding="utf-8")
ROWS = [json.loads(line) for line in (RESULTS / "compress.jsonl").read_text("utf-8").splitlines()]
TASKS = ("sst2", "ag_news", "qqp", "qnli", "mnli")
NAMES = {
    "ours": "compress, no training",
    "elimination": "the same without repair",
    "heads": "heads only",
    "layers": "layers",
    "magnitude": "smallest weights",
    "fisher": "Fisher, a model per task",
    "recovered": "compress, one epoch of recovery",
    "distilled": "layers, one epoch of distillation",
    "int8": "8-bit weights",
}


def shown(value: float) -> str:
    return f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")


def cells(row: dict[str, Any]) -> list[str]:
    losses = [row["lost"][task][0] for task in TASKS]
    at = row["at"].partition(",")[0]
    speeds = [
        f"{row['speed'][k]:.2f}" if k in row["speed"] else "–" for k in ("1 x 128", "32 x 128")
    ]
    return [f"{NAMES[row['way']]}: {at}", *speeds, *map(shown, losses), f"**{shown(max(losses))}**"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['way']}-{row['at']}")
def test_every_stored_row_is_in_the_table(row: dict[str, Any]) -> None:
    assert "| " + " | ".join(cells(row)) + " |" in PAGE
