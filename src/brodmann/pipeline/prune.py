"""Remove heads of a trained run → a smaller model, with what that costs and gains."""

from functools import partial
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.pipeline.map import map_in
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, trained
from brodmann.pipeline.train import tasks_of
from brodmann.results import Head, HeadScores, share_of
from brodmann.training.events import Event, Report

ORDERS = ("least", "top", "random")


def prune(
    config: Config,
    base: Path,
    report: Report,
    *,
    alpha: float,
    order: str = "least",
    task: str | None = None,
    to: Path | None = None,
) -> dict[str, Any]:
    """Write the smaller model; return its size, speed and scores before and after."""
    one_process("prune")
    from brodmann.models.heads.removal import prune_heads
    from brodmann.models.heads.slices import group_size
    from brodmann.models.multitask import MultiTaskModel

    trained(config)
    if order not in ORDERS:
        raise InputError(f"unknown order '{order}'{did_you_mean(order, ORDERS)}")
    share_of(alpha, 1)
    tasks = tasks_of(config, base)
    if task is not None and task not in (names := [t.name for t in tasks]):
        raise InputError(f"the run has no task '{task}'{did_you_mean(task, names)}")

    def report_all_but_the_map(event: Event, facts: dict[str, Any], /) -> None:
        if event != "map":
            report(event, facts)

    with opened(config, tasks, keep=True) as folder:
        target = checked_target(
            to or folder / f"pruned-{order}-{100 * alpha:g}{'-' + task if task else ''}"
        )
        scores = map_in(folder, config, tasks, report_all_but_the_map)
    full = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
    small = MultiTaskModel.from_pretrained(folder / "model", device=config.device).merged()
    heads = chosen_heads(
        scores, alpha, order, task, group=group_size(small.bare_models()[0]), seed=config.seed
    )
    off = [] if small.gates is None else small.gates.off()
    prune_heads(small, [*heads, *off])  # heads that are switched off are removed, too
    report("stage", {"text": f"removed {len(heads)} of {scores.heads} heads, scoring"})
    facts, measured = beside(full, small, tasks, config)
    if full.rules:
        _calibrate(small, tasks, config, report)
    small.save_pretrained(target, scores=measured)
    result = {
        "folder": str(target),
        "heads": [list(head) for head in heads],
        "removed": len(heads),
        "of": scores.heads,
        **facts,
    }
    report("pruned", result)
    return result


def _calibrate(model: Any, tasks: list[Task], config: Config, report: Report) -> None:
    """Fit rules anew: those of the whole model ended with the removal."""
    from brodmann.measuring.fitting_rules import fit_rules

    report("stage", {"text": "calibrating the smaller model"})
    fit_rules(
        model,
        tasks,
        **config.calibrate.model_dump(),
        batch_size=config.training.evaluation_batch_size,
        precision=config.training.precision,
    )


def beside(
    full: Any, small: Any, tasks: list[Task], config: Config
) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Costs and savings of a small model against the full one, and all its scores."""
    before, after = (task_scores(model, tasks, config) for model in (full, small))
    facts = {
        "parameters": [model.parameter_counts()["total"] for model in (full, small)],
        "speed": speed_on_texts(full, small, tasks),
        "scores": {
            name: {
                "metric": before[name]["metric"],
                "before": before[name]["score"],
                "after": after[name]["score"],
            }
            for name in before
        },
    }
    return facts, {name: entry["scores"] for name, entry in after.items()}


def checked_target(target: Path) -> Path:
    """The folder to write: a new one, or one with an earlier pruned model, never a full model."""
    from brodmann.files import read_json
    from brodmann.models.backbone.anatomy import NEURONS, REMOVED
    from brodmann.models.saving import is_model_folder

    if is_model_folder(target):
        stored = read_json(target / "config.json")["backbone"]
        if not (stored.get(REMOVED) or stored.get(NEURONS)):
            raise InputError(f"{target}: holds a model with all its heads: name another folder")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: holds other files: name a new folder")
    return target


def chosen_heads(
    scores: HeadScores, alpha: float, order: str, task: str | None, *, group: int, seed: int
) -> list[Head]:
    """Choose the heads to remove; heads that share their keys go in whole groups, by their mean."""
    if order == "random":
        heads = scores.random(alpha, seed, group=group)
    else:
        choose = scores.top if order == "top" else scores.least
        heads = choose(alpha, task, group=group)
    if not heads:
        unit = "head" if group == 1 else f"group of {group} heads that share their keys"
        raise InputError(f"alpha = {alpha} of {scores.heads} heads is less than one {unit}")
    return heads


def task_scores(model: Any, tasks: list[Task], config: Config) -> dict[str, Any]:
    from brodmann.models.evaluation import evaluate

    training = config.training
    measured = evaluate(
        model, tasks, batch_size=training.evaluation_batch_size, precision=training.precision
    )
    return {
        task.name: {
            "metric": task.spec.metric,
            "score": measured[task.name].scores[task.spec.metric],
            "scores": measured[task.name].scores,
        }
        for task in tasks
    }


def speed_on_texts(full: Any, small: Any, tasks: list[Task], *, rows: int = 32) -> float:
    """How many times faster the small model reads the same batch of validation texts."""
    import numpy as np

    from brodmann.data.batches import make_batch
    from brodmann.measuring.block_times import ratio_in_turn

    task = max(tasks, key=lambda t: len(t.splits["validation"]))
    encoded = full.encode(task.spec, task.splits["validation"])
    items = np.argsort(-encoded.lengths(), kind="stable")[:rows]
    pad_id = int(full.tokenizer.pad_token_id)
    batch = make_batch([(task.name, encoded, items)], pad_id=pad_id).to(full.device)
    models = (full.eval(), small.eval())
    return ratio_in_turn(models, [partial(model, batch) for model in models])
