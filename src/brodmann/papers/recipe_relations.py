"""Recipes about how tasks relate (by their data, by pair trainings, or between encoders), and
recipes that only describe tasks and models."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.measuring.relations import RELATIONS
from brodmann.papers.recipes import Recipe, View
from brodmann.studies.grid import done_cells
from brodmann.training.events import Report


def takes_training(ways: Collection[str]) -> bool:
    """Whether these relations need trainings, or the data alone."""
    return any(RELATIONS[by].of != "data" for by in ways)


def takes_pairs(ways: Collection[str]) -> bool:
    """Whether these relations need a training of every pair of tasks."""
    return any(RELATIONS[by].of == "trainings" for by in ways)


def related(
    recipe: Recipe,
    config: Config,
    base: Path,
    report: Report,
    ways: tuple[str, ...],
    cache: TaskCache,
) -> dict[str, Any]:
    """Relate tasks by their data or by pair trainings; or between encoders trained first."""
    from brodmann.pipeline.evaluate import evaluate
    from brodmann.pipeline.relate import relate
    from brodmann.pipeline.train import tasks_of, train
    from brodmann.studies.pair_trainings import relate_pairs

    found: dict[str, Any] = {}
    suffix = "-paper" if config.name.endswith("-paper") else ""
    if any(RELATIONS[by].of == "run" for by in ways):
        train(config, base, report, cache=cache)
    if "covsim" in ways:
        scores = evaluate(config, base, report, cache=cache)["splits"]["validation"]
        found["scores"] = {task: entry["score"] for task, entry in scores.items()}
    if "single_trained" in recipe.needs:
        alone = read_json(Path(config.output) / f"single-trained{suffix}" / "metrics.json")
        scores = alone["splits"]["validation"]
        found["single"] = {task: entry["score"] for task, entry in scores.items()}
    if "dse" in ways:
        found["joint"] = done_cells(Path(config.output) / f"five-tasks{suffix}")
        dual = Path(config.output) / f"pairs{suffix}"
        if (dual / "grid.json").is_file():  # `brodmann reproduce pairs` has run
            found["dual"] = done_cells(dual)
    for by in ways:
        if RELATIONS[by].of == "trainings":
            # A recipe has its own limits.
            found[by] = relate_pairs(config, base, report, limit=0, cache=cache)
        elif (measured := _measured_on_a_corpus(config, by)) is not None:
            found[by] = measured
            about = measured[by]["corpus"]
            count = min(measured[by]["examples"], about["sentences"])
            found.setdefault("notes", []).append(f"{by}: {count:,} sentences of {about['name']}")
        else:
            found[by] = relate(config, base, report, by=by, cache=cache)
    if takes_pairs(ways):
        pairs = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
        found["cells"] = pairs["cells"]  # to find hardly learnt tasks
        tasks = tasks_of(config, base, cache)
        found["attention"] = _attention_maps(config, tasks, found["pairs"], recipe.attention)
    return found


def statistics_of(
    recipe: Recipe, config: Config, base: Path, views: Collection[View], cache: TaskCache
) -> dict[str, Any]:
    """Statistics of the datasets and sizes of the models, for the views that show them."""
    from brodmann.data.tasks import TaskSpec
    from brodmann.models.backbone.sizes import Shape, encoder_counts
    from brodmann.pipeline.train import tasks_of

    found: dict[str, Any] = {}
    if any(view.reader == "dataset_statistics" for view in views):
        found["datasets"] = {
            task.name: {
                "classes": None if task.spec.labels is None else len(task.spec.labels),
                "train": task.sizes["train"],
            }
            for task in tasks_of(config, base, cache)
        }
    if any(view.reader == "model_statistics" for view in views):
        found["models"] = {}
        for title, backbone in recipe.models.items():
            shape = Shape.of(backbone)
            task = TaskSpec(name="any", kind="classification")
            parameters = encoder_counts(shape, "shared", {}, [task], config.model.max_length)[0]
            about = {"layers": shape.layers, "heads": shape.heads, "parameters": parameters}
            found["models"][title] = about
    return found


def _measured_on_a_corpus(config: Config, by: str) -> dict[str, Any] | None:
    """The result of `brodmann relate RUN --by … --corpus FILE`, if the user has run it."""
    file = config.folder / RELATIONS[by].file
    known = read_json(file) if file.is_file() else {}
    return known if "corpus" in known.get(by, {}) else None


def _attention_maps(
    config: Config, tasks: list[Task], pairs: dict[str, Any], named: dict[str, list[str]]
) -> dict[str, Any]:
    """Compare every head's maps in the task's own model and in the pair's, by their mean cosine.

    One helpful and one harmful pair are compared: those `named`, if their tasks are here, or else
    the pairs that help and harm most.
    """
    from brodmann.models.heads.attention_maps import attention_map_similarity
    from brodmann.models.multitask import MultiTaskModel

    by_name = {task.name: task for task in tasks}
    names, matrix = pairs["tasks"], pairs["matrix"]
    gains = {
        (a, b): (matrix[i][j] + matrix[j][i]) / 2
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j and matrix[i][j] is not None and matrix[j][i] is not None
    }
    if not gains:
        raise InputError("attention maps: no pair of tasks has a relevance both ways")
    summary = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
    models = {
        frozenset(cell["splits"]["validation"]): Path(config.output) / "cells" / cell["fingerprint"]
        for cell in summary["cells"]
    }

    def loaded(*own: str) -> Any:
        place = models[frozenset(own)] / "model"
        return MultiTaskModel.from_pretrained(place, device=config.device)

    found: dict[str, Any] = {}
    for title, extreme in (("helpful", max), ("harmful", min)):
        own = {one for one in gains if set(one) == set(named.get(title, ()))}
        pair = own.pop() if own else extreme(gains, key=gains.__getitem__)
        together = loaded(*pair)
        maps = {
            name: attention_map_similarity(loaded(name), together, by_name[name]).tolist()
            for name in pair
        }
        found[title] = {"gain": gains[pair], "maps": maps}
    return found
