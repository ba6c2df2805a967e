"""Figures hold what they should say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.results import Dissociation


def a_dissociation(**changes: Any) -> Dissociation:
    values: dict[str, Any] = {
        "tasks": ["a", "b"],
        "metrics": ["accuracy", "accuracy"],
        "alpha": 0.3,
        "heads": [[(0, 0)], [(0, 1)]],
        "base": [0.8, 0.0],
        "trivial": [0.5, 0.5],
        "performance": [[0.4, 0.7], [0.0, 0.0]],
        "random": [[0.7, 0.72], []],
        "per_task": [0.375, None],
        "mean": 0.375,
        "pairwise": [[None, 0.375], [None, None]],
        "verdicts": [["", "undefined"], ["undefined", ""]],
        "intervals": {"level": 0.95, "per_task": [[0.3, 0.4], None], "mean": [0.3, 0.4]},
        "p_values": [None, None],
        "overlap": [[1.0, 0.0], [0.0, 1.0]],
        "heads_per_layer": [[1], [1]],
        "layer_spread": [0.0],
        "undefined": {"b": "its base score is 0"},
        "undertrained": {},
        "curve": [],
        "settings": {},
    }
    return Dissociation(**{**values, **changes})


def test_a_map_marks_the_top_heads(tmp_path: Path) -> None:
    scores = bm.HeadScores(("a", "b", "c", "d", "e"), np.random.rand(5, 3, 4))
    figure = bm.plot(scores, tmp_path / "map.svg", alpha=0.25)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c", "d", "e"]
    marked = axes.collections[1].get_offsets()
    corner = np.array([5, 5])  # of b: one map to the right, one row up; maps are 3 + 2 by 4 + 1
    found = sorted((int(layer), int(head)) for head, layer in marked - corner)
    assert found == scores.top(0.25, "b")
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_a_dissociation_shows_scores_and_bars(tmp_path: Path) -> None:
    figure = bm.plot(a_dissociation(), tmp_path / "d.png")
    left, right = figure.axes
    texts = [text.get_text() for text in left.texts]
    assert texts == ["40.0", "70.0", "71.0", "80.0", "0.0", "0.0", "0.0"]
    assert [bar.get_width() for bar in right.patches] == [37.5, 0.0]
    assert any("undefined" in text.get_text() for text in right.texts)
    with pytest.raises(bm.InputError, match="a dissociation or attention maps, found list"):
        bm.plot([1])
