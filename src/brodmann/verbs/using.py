"""Verbs that use a trained model or relate tasks: predict, export, push, prune, relate."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, overload

from brodmann.config import Changes
from brodmann.data.answer_types import Answer, Input
from brodmann.data.answering.predicts import Frame
from brodmann.data.corpus import Corpus
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.measuring.relations import RELATIONS, names_of
from brodmann.training.events import Report
from brodmann.verbs.asking import Asked, settle
from brodmann.verbs.following import followed
from brodmann.verbs.outcomes import Outcome, Run
from brodmann.verbs.rows import rows_of_pruning, rows_of_relation

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

Place = str | os.PathLike[str]
Trained: TypeAlias = "Place | Run | MultiTaskModel"


@overload
def predict(
    model: Trained,
    inputs: Sequence[Input],
    task: str,
    *,
    abstain: float | None = None,
    coverage: float | None = None,
    device: str = "auto",
) -> list[Answer]: ...
@overload
def predict(
    model: Trained,
    inputs: Sequence[Input],
    task: None = None,
    *,
    abstain: float | None = None,
    coverage: float | None = None,
    device: str = "auto",
) -> list[dict[str, Answer]]: ...
@overload
def predict(
    model: Trained,
    inputs: Frame,
    task: str | None = None,
    *,
    abstain: float | None = None,
    coverage: float | None = None,
    device: str = "auto",
) -> Frame: ...
def predict(
    model: Trained,
    inputs: object,
    task: str | None = None,
    *,
    abstain: float | None = None,
    coverage: float | None = None,
    device: str = "auto",
) -> object:
    """One answer per input: of one task, or of every task that can read it, by task.

    `model` is a trained model, a run, or the folder or hub id of either; `inputs` are texts, pairs
    of texts, or dicts with the tasks' columns. A frame or Dataset comes back as the same type, with
    the columns `<task>.answer` and `<task>.score`, and those that the rules of the model add.

    After `calibrate` (which `run` includes), texts whose `in_domain` is below `abstain` get no
    answer, and `coverage` adds the set or interval that holds the right answer this often.
    """
    trained = _loaded(model, device)
    if task is None:
        return trained.predict_all(inputs, abstain=abstain, coverage=coverage)
    return trained.predict(task, inputs, abstain=abstain, coverage=coverage)


def export(
    model: Trained,
    task: str | None = None,
    *,
    to: str = "transformers",
    out: Place | None = None,
    zeroed: bool = False,
    data: Sequence[Task] | None = None,
    int8: bool = False,
    tolerance: float | None = None,
) -> Path:
    """Write one task as a transformers checkpoint, ONNX or a peft adapter; return its folder.

    `to` is "transformers", "onnx" or "peft"; without a task, "onnx" writes a package with all
    tasks, which `brodmann.runtime.load` opens without torch. `out` may be left out for a run or
    folder, which then holds the export. `zeroed` fills removed heads with zeros, so that any
    transformers can load the checkpoint. A package is compared with the model on the validation
    examples of `data` (loaded tasks; default: the run's own). `int8` stores layers in 8 bits, as
    many as leave every task within `tolerance` points of the model's score (default: 1).
    """
    from brodmann.pipeline.export import export as write

    folder = None if out is None else Path(out)
    place = model.folder if isinstance(model, Run) else model
    if isinstance(place, str | os.PathLike):
        place = Path(place)
    elif folder is None:
        raise InputError("export: a model in memory has no folder: pass out='FOLDER'")
    found = write(place, task, to, folder, zeroed=zeroed, data=data, int8=int8, tolerance=tolerance)
    return found.folder


def push(
    run: Place | Run,
    repo_id: str,
    *,
    private: bool = True,
    token: str | bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    licence: str | None = None,
) -> str:
    """Upload a run's model to the hub, with a card of its scores and head map.

    Returns the commit's address. For a model in memory, see `MultiTaskModel.push_to_hub`.
    """
    from brodmann.pipeline.push import push as upload

    folder = run.folder if isinstance(run, Run) else Path(run)
    return upload(
        folder,
        repo_id,
        private=private,
        token=token,
        revision=revision,
        message=message,
        licence=licence,
    )


def prune(
    run: Asked | Run,
    *,
    alpha: float = 0.3,
    order: str = "least",
    task: str | None = None,
    out: Place | None = None,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Remove heads of a trained run: a smaller model with its size, speed and scores.

    `order` is "least" or "top" (by importance to `task`, or to all together) or "random". For a
    model in memory, see `prune_heads`.
    """
    from brodmann.pipeline.prune import prune as make_smaller

    settings, base = settle(run.folder if isinstance(run, Run) else run, changes)
    target = None if out is None else Path(out)
    with followed(progress, report) as shown:
        found = make_smaller(settings, base, shown, alpha=alpha, order=order, task=task, to=target)
    rows = rows_of_pruning(found)
    return Outcome("prune", found, rows, Path(found["folder"]), shown.blocks)


def relate(
    tasks: Asked | Run | Sequence[Task],
    *,
    by: str = "words",
    clusters: int | None = None,
    examples: int = 1000,
    limit: int = 1000,
    other: Place | Run | None = None,
    voxels: Place | None = None,
    corpus: Corpus | None = None,
    pieces: bool = False,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Measure how tasks relate: by words, groups or pair trainings, or inside trained runs.

    Takes a configuration, a run, or loaded tasks (for "words" and "groups"). `clusters` is their
    number (default: the clearest); `examples` are texts per task (for "dse" and "cra", of all tasks
    together); `limit` is the number of training examples per task for "pairs"; `other` the second
    run for "attention". `corpus` replaces the tasks' own sentences for "dse" and "cra"; `pieces`
    compares word pieces instead of words.
    """
    from brodmann.pipeline.attention import relate_attention
    from brodmann.pipeline.relate import relate as relate_run
    from brodmann.pipeline.relate import relate_tasks
    from brodmann.studies.pair_trainings import relate_pairs

    if by not in RELATIONS:
        raise InputError(f"by = '{by}'{did_you_mean(by, RELATIONS)}")
    relation = RELATIONS[by]
    if isinstance(tasks, Sequence) and not isinstance(tasks, str):
        if relation.of != "data":
            able = " or ".join(f"'{name}'" for name in names_of("data"))
            raise InputError(f"loaded tasks relate by {able}; by = '{by}' needs a run")
        if pieces:
            raise InputError("pieces: loaded tasks have no backbone: pass a configuration or run")
        with followed(progress, report) as shown:
            found = relate_tasks(tasks, shown, by=by, clusters=clusters)
        return Outcome(f"relate by {by}", found, rows_of_relation(found, by), None, shown.blocks)
    settings, base = settle(tasks.folder if isinstance(tasks, Run) else tasks, changes)
    with followed(progress, report) as shown:
        if relation.of == "trainings":
            found = relate_pairs(settings, base, shown, clusters=clusters, limit=limit)
        elif relation.of == "two runs":
            if other is None:
                raise InputError(f"by = '{by}' compares two runs: pass other=RUN")
            second = other.folder if isinstance(other, Run) else Path(other)
            maps = relate_attention(settings, base, shown, other=second, examples=examples)
            found = {"tasks": maps.tasks, "runs": maps.runs, "maps": maps.values.tolist()}
        else:
            found = relate_run(
                settings,
                base,
                shown,
                by=by,
                clusters=clusters,
                examples=examples,
                voxels=None if voxels is None else Path(voxels),
                pieces=pieces,
                corpus=corpus,
            )
    rows = rows_of_relation(found, by)
    return Outcome(f"relate by {by}", found, rows, settings.folder, shown.blocks)


def _loaded(model: Trained, device: str) -> "MultiTaskModel":
    if isinstance(model, Run):
        return model.load_model(device=device)
    if not isinstance(model, str | os.PathLike):
        return model
    from brodmann.models.multitask import MultiTaskModel

    return MultiTaskModel.from_pretrained(Path(model), device=device)
