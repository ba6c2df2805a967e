"""Stage 2: a trained model → `metrics.json`, the scores of every task and split."""

from pathlib import Path
from typing import Any

from brodmann.analysis.statistics import bootstrap_interval
from brodmann.artifacts import Array, write_arrays, write_json
from brodmann.config import Config
from brodmann.data.kinds import trivial_score
from brodmann.data.outcomes import outcomes, resampled_scores
from brodmann.data.tasks import Task, TaskSpec
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of

OUTCOMES = "evaluation.npz"  # what every example contributed, for later resampling
RESAMPLES = 1000
USED = 0.5  # points lost by exchanging tasks from which conditioning counts as used


def evaluate(config: Config, base: Path, report: Any) -> dict[str, Any]:
    from brodmann.training.processes import is_main, together

    trained(config)
    tasks = tasks_of(config, base)
    with together(), opened(config, tasks, keep=True, main=is_main()) as folder:
        return evaluate_in(folder, config, tasks, report)


def evaluate_in(folder: Path, config: Config, tasks: list[Task], report: Any) -> dict[str, Any]:
    with timed(folder, "evaluation"):
        return _evaluate_in(folder, config, tasks, report)


def _evaluate_in(folder: Path, config: Config, tasks: list[Task], report: Any) -> dict[str, Any]:
    from brodmann.models.controls import knows_tasks, rotations
    from brodmann.models.evaluate import evaluate as measure
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.processes import is_main

    model = MultiTaskModel.from_pretrained(folder / "model")
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
        for task in tasks:
            if task.name in measured:
                found = measured[task.name].predictions
                kept[f"{split}|{task.name}"] = outcomes(found, task.splits[split], task.spec)
        results[split] = {
            task.name: {
                "metric": task.spec.metric,
                "score": measured[task.name].scores[task.spec.metric],
                "interval": score_interval(kept[f"{split}|{task.name}"], task.spec),
                "trivial": trivial_score(task, split),
                "examples": measured[task.name].examples,
                "truncated": measured[task.name].truncated,
                "scores": measured[task.name].scores,
            }
            for task in tasks
            if task.name in measured
        }
    document = {"splits": results, "parameters": model.parameter_counts()}
    if (worth := _conditioning(model, tasks, config, results, report)) is not None:
        document["conditioning"] = worth
    if model.gates is not None:
        document["gates"] = model.gates().detach().tolist()
    if is_main():
        write_arrays(folder / OUTCOMES, kept)
        write_json(folder / "metrics.json", document)
    report("scores", {"tasks": tasks, "splits": results, "folder": folder})
    if worth is not None:
        report("note", {"text": conditioning_in_words(worth)})
    return document


def _conditioning(
    model: Any, tasks: list[Task], config: Config, results: dict[str, Any], report: Any
) -> dict[str, Any] | None:
    """What an encoder that knows its task loses when tasks are exchanged."""
    from brodmann.models.controls import exchanged_scores, knows_tasks, worth_of_knowing

    judged = [task for task in tasks if "validation" in task.splits]
    if not knows_tasks(model) or len(judged) < 2:
        return None
    exchanged = exchanged_scores(
        model,
        judged,
        batch_size=config.training.evaluation_batch_size,
        precision=config.training.precision,
        progress=lambda items: report("evaluation goes on", {"items": items}),
    )
    own = {name: entry["score"] for name, entry in results["validation"].items()}
    metrics = {task.name: task.spec.metric for task in judged}
    return worth_of_knowing(own, exchanged, metrics)


def conditioning_in_words(worth: dict[str, Any]) -> str:
    lost = 100 * worth["mean_lost"]
    if lost < USED:
        return (
            f"conditioning is hardly used: reading every task as another costs {lost:.1f} points "
            "on average"
        )
    return f"conditioning is used: reading every task as another costs {lost:.1f} points on average"


def judged_splits(tasks: list[Task]) -> list[str]:
    """Every split but the training data: validation and its like first, then test and its like."""
    names = dict.fromkeys(split for task in tasks for split in task.splits if split != "train")
    return sorted(names, key=lambda split: (split.startswith("test"), split))


def score_interval(values: Array, spec: TaskSpec) -> list[float]:
    """Of the primary metric, over resamples of the examples (of whole sets, where they have some).

    The model is one model: how much another training run would move is not in it.
    """
    return list(
        bootstrap_interval(
            lambda weights: resampled_scores(values, weights, spec),
            len(values),
            resamples=RESAMPLES,
            seed=0,
        )
    )
