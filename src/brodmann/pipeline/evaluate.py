"""Stage 2: a trained model → `metrics.json`, the scores of every task and split."""

from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import clearly_learnt, undertrained
from brodmann.analysis.statistics import bootstrap_weights, percentile_interval, score_interval
from brodmann.config import Config
from brodmann.data.kinds import lower_is_better, outcomes, resampled_scores, trivial_score
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task, TaskSpec
from brodmann.files import Array, write_arrays, write_json
from brodmann.pipeline.keep_mistakes import keep_mistakes
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.pipeline.training_loss import training_losses
from brodmann.text import conditioning
from brodmann.training.events import Report

OUTCOMES = "evaluated.npz"  # contribution of every example, for later resampling
RESAMPLES = 1000


def evaluate(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    from brodmann.training.processes import is_main, together

    trained(config)
    tasks = tasks_of(config, base, cache)
    with together(config.device), opened(config, tasks, keep=True, main=is_main()) as folder:
        return evaluate_in(folder, config, tasks, report)


def evaluate_in(folder: Path, config: Config, tasks: list[Task], report: Report) -> dict[str, Any]:
    with timed(folder, "evaluation"):
        return _evaluate_in(folder, config, tasks, report)


def _evaluate_in(folder: Path, config: Config, tasks: list[Task], report: Report) -> dict[str, Any]:
    from brodmann.models.controls import knows_tasks, rotations
    from brodmann.models.evaluation import evaluate as measure
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.processes import is_main

    model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
    splits = judged_splits(tasks)
    total = sum(len(task.splits.get(split, ())) for task in tasks for split in splits)
    if knows_tasks(model):
        turns = len(rotations([task.name for task in tasks]))
        total += turns * sum(len(task.splits.get("validation", ())) for task in tasks)
    report("evaluation starts", {"examples": total})
    results: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for split in splits:
        measured = measure(
            model,
            tasks,
            split=split,
            batch_size=config.training.evaluation_batch_size,
            precision=config.training.precision,
            progress=lambda items: report("evaluation goes on", {"items": items}),
        )
        keep_mistakes(folder, config, tasks, split, measured)
        for task in tasks:
            if task.name in measured:
                found = measured[task.name].predictions
                kept[f"{split}|{task.name}"] = outcomes(found, task.splits[split], task.spec)
        results[split] = {
            task.name: {
                "metric": task.spec.metric,
                "score": measured[task.name].scores[task.spec.metric],
                "interval": score_interval(
                    kept[f"{split}|{task.name}"], task.spec, resamples=RESAMPLES
                ),
                "trivial": trivial_score(task, split),
                "examples": measured[task.name].examples,
                "truncated": measured[task.name].truncated,
                "scores": measured[task.name].scores,
            }
            for task in tasks
            if task.name in measured
        }
    _judge_training(results.get("validation", {}), training_losses(folder, config, tasks))
    document = {"splits": results, "parameters": model.parameter_counts()}
    if (worth := _conditioning(model, tasks, config, kept, report)) is not None:
        document["conditioning"] = worth
    if model.gates is not None:
        document["gates"] = model.gates().detach().tolist()
    if is_main():
        write_arrays(folder / OUTCOMES, kept)
        write_json(folder / "metrics.json", document)
    report("scores", {"tasks": tasks, "splits": results, "folder": folder})
    if worth is not None:
        report("note", {"text": conditioning(worth)})
    return document


def _conditioning(
    model: Any, tasks: list[Task], config: Config, kept: dict[str, Array], report: Report
) -> dict[str, Any] | None:
    """What an encoder that knows its task loses when tasks are swapped."""
    from brodmann.models.controls import evaluate_exchanged, knows_tasks

    judged = [task for task in tasks if "validation" in task.splits]
    if not knows_tasks(model) or len(judged) < 2:
        return None
    turns = evaluate_exchanged(
        model,
        judged,
        batch_size=config.training.evaluation_batch_size,
        precision=config.training.precision,
        progress=lambda items: report("evaluation goes on", {"items": items}),
    )
    exchanged = {
        task.name: [
            outcomes(turn[task.name].predictions, task.splits["validation"], task.spec)
            for turn in turns
        ]
        for task in judged
    }
    own = {task.name: kept[f"validation|{task.name}"] for task in judged}
    return worth_of_knowing([task.spec for task in judged], own, exchanged)


def worth_of_knowing(
    specs: list[TaskSpec], own: dict[str, Array], exchanged: dict[str, list[Array]]
) -> dict[str, Any]:
    """What each task loses when it is read as another: its score minus the mean over swaps.

    Computed from the contributions of all examples, with a bootstrap interval of the mean over
    tasks.
    """
    scores: dict[str, list[float]] = {}
    lost: dict[str, float] = {}
    drawn = []
    for place, spec in enumerate(specs):
        sign = -1 if lower_is_better(spec.metric) else 1
        count = len(own[spec.name])
        weights = bootstrap_weights(count, RESAMPLES, place)
        weights = np.concatenate([np.ones((1, count)), weights])  # the first: no resample
        others = [resampled_scores(values, weights, spec) for values in exchanged[spec.name]]
        differences = sign * (
            resampled_scores(own[spec.name], weights, spec) - np.mean(others, axis=0)
        )
        scores[spec.name] = [float(values[0]) for values in others]
        lost[spec.name] = float(differences[0])
        drawn.append(differences[1:])
    return {
        "exchanged": scores,
        "lost": lost,
        "mean_lost": float(np.mean(list(lost.values()))),
        "interval": list(percentile_interval(np.mean(drawn, axis=0))),
    }


def judged_splits(tasks: list[Task]) -> list[str]:
    """Every split except training: validation splits first, then test splits."""
    names = dict.fromkeys(split for task in tasks for split in task.splits if split != "train")
    return sorted(names, key=lambda split: (split.startswith("test"), split))


def _judge_training(results: dict[str, Any], losses: dict[str, tuple[float, float]]) -> None:
    """Add each task's training loss to its validation scores, and why it is hardly trained."""
    for name, entry in results.items():
        score, trivial = entry["score"], entry["trivial"]
        lower = lower_is_better(entry["metric"])
        learnt = clearly_learnt(entry["interval"], trivial, lower=lower)
        if lower:  # no scale from trivial to perfect: the loss decides
            score, trivial = 1.0, 0.0
        loss, guessing = losses.get(name, (None, None))
        entry["training_loss"], entry["guessing_loss"] = loss, guessing
        entry["undertrained"] = undertrained(score, trivial, loss, guessing, learnt=learnt)
