"""What recipes take over from their papers, and what their notes say where they do not."""

from typing import Any

import pytest

from brodmann.config import load_config
from brodmann.data.catalogue import description
from brodmann.papers.recipes import find, recipes


def metric_of(task: Any) -> str | None:
    """The primary metric of a task as a recipe describes it."""
    described = {"use": task} if isinstance(task, str) else task.model_dump(exclude_none=True)
    named = description(described["use"], "") if described.get("use") else {}
    found = described.get("metric") or next(iter(named.get("metrics") or ()), None)
    return str(found) if found else None


def test_qqp_is_scored_by_f1_where_li_et_al_print_f1() -> None:
    scored = [
        (recipe.name, metric_of(task))
        for recipe in recipes()
        if recipe.paper == "SPEC" and not recipe.statistics
        for task in load_config(recipe.path)[0].tasks
        if "qqp" in str(task)
    ]
    assert len(scored) >= 5
    assert [found for found in scored if found[1] != "f1"] == []


@pytest.mark.parametrize("name", ["glue_models", "glue_models_proportional"])
def test_a_fixed_alpha_and_delta_is_noted_where_the_paper_searches(name: str) -> None:
    recipe, _ = find(name)
    assert any("+ IAT" in title for title in recipe.titles)
    for view in recipe.views:
        assert "the paper searches nine settings for every model" in view.note, view.name


def test_both_arms_of_figure_7_have_half_of_their_layers_frozen() -> None:
    recipe, _ = find("many_tasks")
    grid = load_config(recipe.path)[0].grid
    assert grid is not None
    for cases in (grid.cases, recipe.at_paper_scale["grid.cases"]):
        plain, conditioned = cases
        assert plain["model.freeze"] == 0.5 and "model.architecture" not in plain
        assert conditioned["model.architecture"] == "ca_mtl"  # which freezes half by default
