"""Relevance, similarity and attention maps in a report, from files alone."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.run_folders import write_run

import brodmann as bm
from brodmann.files import write_json
from brodmann.papers.readers.links import link_cnm, link_dse
from brodmann.papers.recipes import View
from brodmann.papers.tables import corner
from brodmann.reporting.blocks import Matrix, Scatter, Tree, Words
from brodmann.reporting.charts import scatter, tree
from brodmann.reporting.html import page, shade
from brodmann.reporting.sections import attention_cosines as attention
from brodmann.reporting.sections import related_tasks as relevance
from brodmann.reporting.view_figures import draw_view
from brodmann.studies.report import read_study

TASKS = ["a", "b", "c", "d"]
SIMILARITY = [
    [1.0, 0.9, 0.5, 0.2],
    [0.9, 1.0, 0.4, 0.1],
    [0.5, 0.4, 1.0, 0.3],
    [0.2, 0.1, 0.3, 1.0],
]


def drawn(way: str, unit: str = "") -> dict[str, Any]:
    """A view of a recipe."""
    return asdict(View("v", "s", reader="r", figure=way, unit=unit))


def silent(event: str, facts: dict[str, Any]) -> None:
    pass


def pair_cells(undefined: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [
        {
            "label": one + other, "fingerprint": one + other, "state": "done", "splits": {},
            "varied": {"tasks": [one, other]},
            "dissociation": {
                "tasks": [one, other], "mean": 0.1 * (i + j), "per_task": [0.1, 0.2],
                "undefined": {one: "why"} if one + other in undefined else {},
            },
        }
        for i, one in enumerate(TASKS) for j, other in enumerate(TASKS) if i < j
    ]  # fmt: skip


def similarity_run(folder: Path, tasks: list[str]) -> None:
    write_run(folder, tasks)
    (folder / "dissociation.json").unlink()
    write_json(folder / "similarity.json", {"tasks": TASKS, "dse": {"matrix": SIMILARITY}})


def test_similarity_is_linked_by_name_to_joint_and_dual_task_d(tmp_path: Path) -> None:
    similarity_run(tmp_path / "single", TASKS)
    _, joint = write_run(tmp_path / "joint", ["d", "e", "b", "a", "c"])
    assert joint is not None
    write_json(
        tmp_path / "pairs" / "grid.json", {"cells": pair_cells(), "over_seeds": {}, "failed": []}
    )
    folders = [tmp_path / "single", tmp_path / "joint", tmp_path / "pairs"]
    study = read_study(folders, silent)
    section = relevance.section(study)
    assert section is not None
    plots = [block for block in section.blocks if isinstance(block, Scatter)]
    assert ["pairwise D in joint" in p.caption for p in plots] == [True, False]
    assert "dual-task D" in plots[1].caption
    order = [joint.tasks.index(task) for task in ("a", "b")]
    pairwise = np.array(joint.pairwise, dtype=float)
    expected = 100 * (pairwise[order[0], order[1]] + pairwise[order[1], order[0]]) / 2
    assert plots[0].points[0][2] == "a – b"
    assert plots[0].points[0][1] == pytest.approx(expected)
    assert plots[1].points[0][:2] == pytest.approx((0.9, 10.0))
    document = page("x", "", [section])
    assert document.count('class="band c7"') == 2
    with pytest.raises(bm.InputError, match="a second grid"):
        write_json(tmp_path / "more" / "grid.json", {"cells": []})
        read_study([*folders, tmp_path / "more"], silent)


def test_other_tasks_are_said_to_be_others(tmp_path: Path) -> None:
    similarity_run(tmp_path / "single", TASKS)
    write_run(tmp_path / "joint", ["x", "y", "z"])
    section = relevance.section(read_study([tmp_path / "single", tmp_path / "joint"], silent))
    assert section is not None and not any(isinstance(b, Scatter) for b in section.blocks)
    assert isinstance(section.blocks[-1], Words)
    assert section.blocks[-1].text.startswith("No run with a dissociation has three of these tasks")


def test_the_band_stands_around_the_line_inside_the_axes() -> None:
    band = [(0.0, -5.0, 15.0), (1.0, 0.0, 10.0), (2.0, -5.0, 15.0)]
    text = scatter(Scatter([(0, 4, "p"), (1, 6, "q"), (2, 5, "r")], "x", "y", "c", band))
    found = re.search('class="band c7" points="([^"]*)"', text)
    assert found is not None
    heights = [float(pair.split(",")[1]) for pair in found[1].split()]
    assert len(heights) == 6 and min(heights) >= 14 and max(heights) <= 270 - 44
    assert heights[0] == heights[2] < heights[1]  # the upper edge bends towards the middle


def test_rows_stand_as_the_tree_joins_them_and_harm_has_its_colour() -> None:
    found = {
        "by": "pairs", "tasks": ["a", "b", "c"], "clusters": [["a", "c"]],
        "matrix": [[0.0, None, 0.4], [-0.2, None, 0.1], [0.1, None, 0.0]],
        "suggested": {"clusters": 1, "silhouette": 0.0},
        "left_out": {"b": "it scores 0.0 alone: a ratio to that is not defined"},
        "dendrogram": {
            "order": ["c", "a"], "joins": [{"left": ["c"], "right": ["a"], "distance": 0.5}],
        },
    }  # fmt: skip
    blocks = relevance.relevance_views(found)
    matrix = next(block for block in blocks if isinstance(block, Matrix))
    assert matrix.rows == ["c", "a", "b"]
    assert matrix.values == [[0.0, 0.1, None], [0.4, 0.0, None], [0.1, -0.2, None]]
    assert matrix.cell(2, 1) == "−20.0"
    assert shade(matrix, 2, 1) == "--shade:39%;--heat:var(--mark)"
    assert (matrix.cell(0, 0), shade(matrix, 0, 0)) == ("0.0", "--shade:0%")
    assert (matrix.cell(0, 2), shade(matrix, 0, 2)) == ("–", "")
    texts = [item for block in blocks for item in getattr(block, "items", ())]
    assert ("a → c 40.0 %, back 10.0 %", "") in texts
    assert ("In no cluster: b", found["left_out"]["b"]) in texts
    assert any(isinstance(block, Tree) for block in blocks)


def test_a_tree_is_drawn_by_distance() -> None:
    joins = [
        {"left": ["b"], "right": ["<c>"], "distance": 1.0},
        {"left": ["a"], "right": ["b", "<c>"], "distance": 4.0},
    ]
    text = tree(Tree(["a", "b", "<c>"], joins, "who joins whom"))
    lines = re.findall('<polyline class="line c0" points="([^"]*)"', text)
    across = [[float(point.split(",")[0]) for point in line.split()] for line in lines]
    assert across == [[190, 272.5, 272.5, 190], [190, 520, 520, 272.5]]
    assert "&lt;c&gt;" in text and "distance 4" in text


def test_attention_maps_have_a_table_a_task(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    values = np.linspace(0, 1, 24).reshape(2, 3, 4)
    bm.AttentionMaps(("a", "b"), values, ("run", "other"), 50).save(
        tmp_path / "run" / "attention-maps.json"
    )
    section = attention.section(read_study([tmp_path / "run"], silent))
    assert section is not None and "run and other" in section.blocks[0].text
    _, means, first, _ = section.blocks
    assert means.values[2] == pytest.approx(values[:, 0].mean(axis=1).tolist())
    assert first.rows == ["layer 2", "layer 1", "layer 0"]
    assert first.values[2] == pytest.approx(values[0, 0].tolist())
    assert "layer 2" in page("x", "", [section])
    figure = bm.plot(bm.AttentionMaps.load(tmp_path / "run" / "attention-maps.json"))
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), values[1])
    with pytest.raises(bm.InputError, match=r"expected \(task, layer, head\)"):
        bm.AttentionMaps(("a",), values, ("run", "other"), 50)


def test_rows_of_a_link_and_their_picture() -> None:
    """Of a recipe: pairs without a D are not 0, they are not there."""
    pairwise: Any = [[None, 0.1, None, 0.3], [0.1, None, 0.2, 0.5], [None, 0.2, None, 0.4],
                     [0.3, 0.5, 0.4, None]]  # fmt: skip
    found: dict[str, Any] = {
        "dse": {"tasks": TASKS, "dse": {"matrix": SIMILARITY}},
        "joint": [{"dissociation": {"tasks": TASKS, "pairwise": pairwise}}],
    }
    rows = link_dse(found)
    assert "a+c" not in rows and rows["a+b"] == {"similarity": 0.9, "D": 10.0}
    assert list(rows)[-2:] == ["Pearson r, p", "Spearman ρ, p"]
    scipy = stats.pearsonr([0.9, 0.2, 0.4, 0.1, 0.3], [10, 30, 20, 50, 40])
    assert rows["Pearson r, p"] == pytest.approx({"similarity": scipy.statistic, "D": scipy.pvalue})
    found["dual"] = pair_cells(undefined=("ab",))
    rows = link_dse(found)
    assert rows["a+c"] == {"similarity": 0.5, "D": None, "dual-task D": pytest.approx(20.0)}
    assert "dual-task D" not in rows["a+b"]
    assert rows["Spearman ρ, p (dual-task D)"]["similarity"] is not None
    view = drawn("points")
    axes = draw_view(view, rows).axes[0]
    assert len(axes.collections) == 2  # the points and the band of their line
    assert not any("Pearson" in text.get_text() for text in axes.texts)
    with pytest.raises(bm.InputError, match=r"relate RUN --by cnm --voxels FOLDER"):
        link_cnm(found)
    found["dse"]["cnm"] = {"matrix": SIMILARITY}
    assert link_cnm(found) == rows


def test_harm_is_another_colour_in_a_picture_too() -> None:
    view = drawn("matrix")
    image = draw_view(view, {"a": {"a": 0.0, "b": -5.0}, "b": {"a": 10.0, "b": None}}).axes[0]
    assert image.images[0].get_clim() == (-10.0, 10.0)
    image = draw_view(view, {"a": {"a": 1.0, "b": 5.0}}).axes[0]
    assert image.images[0].get_cmap().name == "Blues"


def test_sides_of_a_matrix_have_names() -> None:
    """Which one helps the other cannot be guessed from a picture."""
    view = drawn("matrix")
    view["sides"] = ["trained with", "gain of"]
    axes = draw_view(view, {"a": {"a": 0.0, "b": 5.0}, "b": {"a": 1.0, "b": 0.0}}).axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("trained with", "gain of")
    assert corner(view) == "trained with ↓ gain of →"


def test_names_of_points_do_not_lie_on_each_other() -> None:
    close = {f"mnli+task{i}": {"similarity": 0.5 + 0.001 * i, "D": 3.0} for i in range(4)}
    rows = close | {"a+b": {"similarity": 0.0, "D": 9.0}, "c+d": {"similarity": 1.0, "D": 1.0}}
    view = drawn("points")
    figure = draw_view(view, rows)
    names = figure.axes[0].texts
    assert sorted(name.get_text() for name in names) == sorted(rows)
    boxes = [name.get_window_extent(figure.canvas.get_renderer()) for name in names]
    for place, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:place])


def test_axes_have_names_counts_whole_steps_and_averages_their_spread() -> None:
    view = drawn("lines", "important heads")
    heads = draw_view(view, {"a": {"layer 0": 1, "layer 1": 2}}).axes[0]
    assert heads.get_ylabel() == "important heads"
    assert all(float(tick).is_integer() for tick in heads.get_yticks())
    view |= {"figure": "bars", "unit": "score (%)"}
    ours = {row: {"average": mean, "± seeds": 2.0, "task σ": 9.0}
            for row, mean in (("a", 70.5), ("b", 80.0))}  # fmt: skip
    scores = draw_view(view, ours).axes[0]
    bars, spread = scores.containers
    if not hasattr(bars, "patches"):
        bars, spread = spread, bars
    assert [bar.get_height() for bar in bars] == [70.5, 80.0]  # the spread is no bar of its own
    (ends,) = spread.lines[2]
    assert [tuple(line[:, 1]) for line in ends.get_segments()] == [(68.5, 72.5), (78.0, 82.0)]


def test_a_figure_of_nothing_and_a_seed_that_stopped_early(tmp_path: Path) -> None:
    from brodmann.papers.readers import READERS

    for way in ("bars", "lines", "matrix", "points"):
        view = drawn(way)
        assert "nothing to show" in draw_view(view, {}).axes[0].texts[0].get_text()
    cells = []
    for seed, steps in enumerate(((10, 20, 30), (10, 20))):
        folder = tmp_path / "cells" / str(seed)
        folder.mkdir(parents=True)
        lines = [json.dumps({"evaluation": n, "step": s, "mean": 0.5}) for n, s in enumerate(steps)]
        (folder / "log.jsonl").write_text("\n".join(lines))
        cells.append({"state": "done", "fingerprint": str(seed), "varied": {"seed": seed}})
    rows = READERS["scores_over_training"]({"cells": cells, "output": str(tmp_path)})
    assert list(rows.values()) == [{"step 10": 50.0, "step 20": 50.0}]
