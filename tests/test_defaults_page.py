"""docs/training.md shows the stored runs of benchmarks/results/defaults.jsonl."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "defaults.jsonl"
USUAL = {"backbone": "builtin:minilm", "pooling": "first", "bucketing": True, "heads": 1.0}
TABLES = {  # first column → settings that all its rows share, what varies, the default
    "pooling": (USUAL | {"rows": 200, "rate": 2e-4, "epochs": 8}, "pooling", "first"),
    "rate": (USUAL | {"rows": 1000, "epochs": 3}, "rate", 2e-4),
}
PER_TASK = ("sst2", "ag_news", "mrpc")
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def stored() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def by_seed(settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {run["seed"]: run for run in stored() if run["settings"] == settings}


def spread(values: list[float], form: str = ".1f") -> str:
    mean = f"{statistics.mean(values):{form}}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.1f}"


def shown(first_column: str) -> dict[str, list[str]]:
    """Rows of the table with this first column, by their first cell."""
    section = PAGE.partition("## How the defaults were chosen")[2].partition("\n## ")[0]
    table = section[section.index(f"\n| {first_column} |") + 1 :].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in rows[2:]}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_stored_runs(name: str) -> None:
    common, varied, default = TABLES[name]
    rows = shown(name)
    values = {run["settings"][varied] for run in stored() if run["settings"] | common | {
        varied: run["settings"][varied]} == run["settings"]}  # fmt: skip
    assert {value if name == "pooling" else float(value) for value in rows} == values
    usual = by_seed(common | {varied: default})
    for first, cells in rows.items():
        value: Any = first if name == "pooling" else float(first)
        runs = by_seed(common | {varied: value})
        expected = [str(len(runs))]
        expected += [spread([100 * run["scores"][t] for run in runs.values()]) for t in PER_TASK]
        expected.append(spread([100 * run["mean"] for run in runs.values()]))
        both = sorted(runs.keys() & usual.keys())
        against = [100 * (runs[seed]["mean"] - usual[seed]["mean"]) for seed in both]
        expected.append("–" if value == default else spread(against, "+.1f"))
        assert cells == expected, first


def test_single_runs_are_told_as_they_are_stored() -> None:
    told = re.search(
        r"the pooler with 8 epochs has ([\d.]+) at 5e-5 and ([\d.]+) at\s1e-4 \(seed 0; 2e-4: "
        r"([\d.]+)\),\sand the first token with 3 epochs ([\d.]+)\s\(8 epochs: ([\d.]+)\)",
        PAGE,
    )
    assert told is not None
    base = USUAL | {"rows": 200, "rate": 2e-4, "epochs": 8}
    changes: list[dict[str, Any]] = [{"pooling": "pooler", "rate": 5e-5}]
    changes += [{"pooling": "pooler", "rate": 1e-4}, {"pooling": "pooler"}, {"epochs": 3}, {}]
    found = [f"{100 * by_seed(base | change)[0]['mean']:.1f}" for change in changes]
    assert list(told.groups()) == found
