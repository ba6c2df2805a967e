"""A model beside the smaller one made from it: pruned, or a student."""

from collections.abc import Mapping
from typing import Any

from brodmann.reporting.blocks import Block, Table, Words
from brodmann.text import millions, percent


def pruned(facts: Mapping[str, Any]) -> list[Block]:
    before, after = facts["parameters"]
    words = (
        f"{facts['removed']} of {facts['of']} heads removed: {millions(before, 2)} → "
        f"{millions(after, 2)} parameters, {facts['speed']:.2f} × the speed"
    )
    return [_scores(facts), Words(words)]


def distilled(facts: Mapping[str, Any]) -> list[Block]:
    large, small = facts["parameters"]
    words = f"{millions(large)} → {millions(small)} parameters, {facts['speed']:.2f} times as fast"
    return [_scores(facts), Words(words)]


def _scores(facts: Mapping[str, Any]) -> Table:
    rows = [
        (name, entry["metric"], percent(entry["before"]), percent(entry["after"]))
        for name, entry in facts["scores"].items()
    ]
    columns = ("task", "metric", "before", "after")
    return Table(columns, rows, "Validation scores (%) before and after.")
