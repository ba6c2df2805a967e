"""docs/export.md shows the stored figures of benchmarks/results/exports.json."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
STORED = json.loads((ROOT / "benchmarks" / "results" / "exports.json").read_text(encoding="utf-8"))
TASKS = {"SST-2": "sst2", "QNLI": "qnli", "MRPC": "mrpc", "STS-B": "stsb", "WNUT17": "wnut17"}
FORMS = ("float32", "int8", "pruned", "pruned int8")


def tables() -> list[list[list[str]]]:
    """The tables of the section, as cells."""
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    section = page.partition("## Five real tasks")[2].partition("\n## ")[0]
    found = [block for block in section.split("\n\n") if block.startswith("|")]
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]
        for block in found
    ]


def one_digit(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def test_losses_and_refusals() -> None:
    rows = tables()[0]
    assert [TASKS[row[0].partition(",")[0]] for row in rows] == list(STORED["tasks"])
    for row, (task, entry) in zip(rows, STORED["tasks"].items(), strict=True):
        int8, refused = entry["int8"]["against_its_own_model"], STORED["abstain 0.05"][task]
        ends = ", ".join(one_digit(end) for end in int8["interval"])
        others = [100 * other["refused"] for other in refused["others"].values()]
        assert row[1:] == [
            one_digit(100 * entry["torch"]),
            one_digit(entry["float32"]["points_lost"]),
            f"{one_digit(int8['points_lost'])} [{ends}]",
            f"{100 * int8['changed']:.1f} %",
            one_digit(entry["pruned"]["points_lost"]),
            one_digit(entry["pruned int8"]["points_lost"]),
            f"{100 * refused['own']:.1f} %",
            f"{sum(others) / len(others):.0f} %",
        ]
        assert int8["points_lost"] <= 1.0


def test_latency() -> None:
    rows = tables()[1]
    assert len(rows) == 2 * len(TASKS)
    for row in rows:
        measured = STORED["latency"][TASKS[row[0]]][row[1]]
        ms, faster = measured["ms"], measured["speed over torch"]
        assert row[2:] == [
            f"{ms['torch']:.1f}",
            *(f"{ms[n]:.1f} ({faster[n]:.2f} ×)" for n in FORMS),
        ]
