"""Stage 2: a trained model → `metrics.json`, the scores of every task and split."""

from pathlib import Path
from typing import Any

from brodmann.analysis.dissociation import undertrained
from brodmann.analysis.statistics import score_interval
from brodmann.artifacts import write_arrays, write_json
from brodmann.config import Config
from brodmann.data.kinds import trivial_score
from brodmann.data.outcomes import outcomes
from brodmann.data.tasks import Task
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.pipeline.training_loss import training_losses
from brodmann.results import LOWER_IS_BETTER

OUTCOMES = "evaluation.npz"  # what every example contributed, for later resampling
RESAMPLES = 1000


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
    from brodmann.models.evaluate import evaluate as measure
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.processes import is_main

    model = MultiTaskModel.from_pretrained(folder / "model")
    splits = judged_splits(tasks)
    total = sum(len(task.splits.get(split, ())) for task in tasks for split in splits)
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
    if model.gates is not None:
        document["gates"] = model.gates().detach().tolist()
    if is_main():
        write_arrays(folder / OUTCOMES, kept)
        write_json(folder / "metrics.json", document)
    report("scores", {"tasks": tasks, "splits": results, "folder": folder})
    return document


def judged_splits(tasks: list[Task]) -> list[str]:
    """Every split but the training data: validation and its like first, then test and its like."""
    names = dict.fromkeys(split for task in tasks for split in task.splits if split != "train")
    return sorted(names, key=lambda split: (split.startswith("test"), split))


def _judge_training(results: dict[str, Any], losses: dict[str, tuple[float, float]]) -> None:
    """Add to every task's validation scores its training loss, and why it is hardly trained."""
    for name, entry in results.items():
        score, trivial = entry["score"], entry["trivial"]
        if entry["metric"] in LOWER_IS_BETTER:  # no way from trivial to perfect: the loss decides
            score, trivial = 1.0, 0.0
        loss, guessing = losses.get(name, (None, None))
        entry["training_loss"], entry["guessing_loss"] = loss, guessing
        entry["undertrained"] = undertrained(score, trivial, loss, guessing)
