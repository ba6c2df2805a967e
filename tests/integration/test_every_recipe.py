"""Every recipe from beginning to end with `builtin:tiny`, its tasks played by built-in ones."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from brodmann.config import load_config
from brodmann.data import catalogue
from brodmann.papers.recipes import Recipe, find, recipes
from brodmann.studies.cells import task_name

Command = Callable[..., tuple[int, str, str]]
PLAYERS = {
    "classification": "sentiment",
    "regression": "similarity",
    "tokens": "entities",
    "span": "question",
}
NEEDS_FILES = {"spec-figure3"}  # the voxels of Pereira et al. 2018


def players(recipe: Recipe) -> list[dict[str, Any]]:
    """A small built-in task of the same kind for every task, under its name."""
    found = []
    for task in load_config(recipe.path)[0].tasks:
        kind = "classification"
        if not isinstance(task, str):
            described = catalogue.description(task.use, "") if task.use else {}
            kind = task.kind or described.get("kind") or kind
        player: dict[str, Any] = {
            "use": f"builtin/{PLAYERS[kind]}",
            "name": task_name(task),
            "limit": {"train": 24, "validation": 16, "test": 8},
        }
        if not isinstance(task, str):
            language = task.language or (task.use or "").partition(":")[2]
            player |= {k: v for k, v in (("head", task.head), ("language", language)) if v}
        found.append(player)
    return found


def in_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {in_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def quick(recipe: Recipe) -> list[str]:
    values = tomllib.loads(recipe.path.read_text(encoding="utf-8"))
    changes = ["threads=1", "training.precision=float32", "map.examples=8"]
    changes += ["dissociation.resamples=20", "dissociation.draws=1", "training.epochs=1"]
    changes.append(f"tasks=[{', '.join(map(in_toml, players(recipe)))}]")
    if "adapt" not in values and "transfer" not in values:
        changes.append("model.backbone=builtin:tiny")
    if "specialize" in values or "compare" in values:
        changes.append("specialize.examples=8")
    if "compare" in values:
        changes.append("compare.seeds=[0]")
    if "transfer" in values:
        changes += ["transfer.examples=[4]", "transfer.seeds=2", "transfer.epochs=1"]
    if "meta" in values:
        changes += ["meta.steps=2", "meta.seeds=2", "meta.support=4", "meta.query=4"]
        changes += ["meta.shots=[4]", "meta.curve=[0, 1]", "meta.draws=2"]
    if "seed" in values.get("grid", {}).get("vary", {}):
        changes.append("grid.vary.seed=[0, 1]")
    if recipe.name in ("hmnet_layers", "hmnet_shared"):  # the tiny model has three layers
        cases = [{"shared": 1, "clustered": 1, "specific": 1}, {"shared": 2, "specific": 1}]
        cases[1]["clustered"] = 0
        text = ", ".join(f'{{ "model.parameters" = {in_toml(case)} }}' for case in cases)
        changes.append(f"grid.cases=[{text}]")
    return [word for change in changes for word in ("--set", change)]


def further(recipe: Recipe) -> list[str]:
    """What it starts from, and what that starts from, the first one first."""
    found = [name for needed in recipe.needs for name in (*further(find(needed)[0]), needed)]
    return list(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_a_recipe_from_beginning_to_end(
    recipe: Recipe, tmp_path_factory: pytest.TempPathFactory, command: Command
) -> None:
    output = tmp_path_factory.getbasetemp() / "recipes"
    for needed in (*further(recipe), recipe.name):
        one = find(needed)[0]
        views = [view.name for view in one.views if view.name not in NEEDS_FILES] or [one.name]
        for name in views if any(v.name in NEEDS_FILES for v in one.views) else [one.name]:
            code, _, err = command("reproduce", name, "--output", output, *quick(one))
            assert code == 0, f"{name}: {err}"
    for view in recipe.views:
        if view.name not in NEEDS_FILES:
            document = json.loads(
                (output / "reproduced" / f"{view.name}-mini-changed.json").read_text()
            )
            assert document["ours"], view.name
            for needed in recipe.needs:  # what it starts from is named
                assert any(run.startswith(f"{needed}: ") for run in document["runs"]), needed
