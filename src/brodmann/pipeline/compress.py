"""Make the fastest model in which no task loses more than what is allowed → `compressed/`.

`compression.json` holds what was promised and measured. Trials and the steps of a recovery are kept
in `compression/` until the model is written, so that an interrupted search goes on.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import write_json
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import opened, trained
from brodmann.pipeline.smaller.bisection import Search, Trial
from brodmann.pipeline.smaller.candidates import Conditions, make_judge, survey
from brodmann.pipeline.smaller.facts_of_search import facts_of, left_units, measured
from brodmann.pipeline.smaller.kept_trials import Stored, remembering
from brodmann.pipeline.smaller.promise import confirm, held_out
from brodmann.pipeline.smaller.recovery import recover
from brodmann.pipeline.smaller.unused_vocabulary import cut_unused
from brodmann.pipeline.train import tasks_of
from brodmann.training.events import Report

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

FILE = "compression.json"
WORK = "compression"  # folder of what an interrupted search needs
Wishes = Mapping[str, Any]  # what `checked_wishes` returns


def checked_wishes(
    *,
    lose: float,
    latency: float | None,
    size: float | None,
    recover: int,
    vocabulary: str,
    drop: Sequence[str],
) -> dict[str, Any]:
    """What is asked for; InputError if it is impossible."""
    if not 0 < lose < 100:
        raise InputError(f"lose = {lose:g}: expected points between 0 and 100, for example 1")
    if latency is not None and size is not None:
        raise InputError("latency and size: give one of them")
    for name, share in (("latency", latency), ("size", size)):
        if share is not None and not 0 < share < 1:
            raise InputError(f"{name} = {share:g}: expected a share between 0 and 1")
    if recover < 0:
        raise InputError(f"recover = {recover}: expected a number of epochs")
    if vocabulary not in ("keep", "data") and not Path(vocabulary).is_file():
        raise InputError(f"vocabulary = '{vocabulary}': expected keep, data or a text file")
    found: dict[str, Any] = {"lose": float(lose), "recover": recover}
    found |= {"latency": latency and float(latency), "size": size and float(size)}
    return found | {"vocabulary": vocabulary, "drop": sorted(drop)}


def compress(
    config: Config, base: Path, report: Report, *, wishes: Wishes, to: Path | None = None
) -> dict[str, Any]:
    """Compress a run's model; return what was found, and write the model if the promise holds."""
    one_process("compress")
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.pipeline.prune import checked_target

    trained(config)
    tasks = tasks_of(config, base)
    kept = kept_tasks(tasks, wishes["drop"])
    training = config.training
    with opened(config, tasks, keep=True) as folder:
        target = checked_target(to or folder / "compressed")
        model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
        batch, precision = training.evaluation_batch_size, training.precision
        conditions = Conditions(report, batch, precision, config.seed, folder / WORK)
        found = _compress_and_write(
            model, kept, wishes, conditions, target, config.calibrate.model_dump()
        )
        write_json(folder / FILE, found)
        if "folder" in found:
            shutil.rmtree(folder / WORK)
    return found


def compress_in_memory(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    report: Report,
    *,
    wishes: Wishes,
    to: Path,
    seed: int,
) -> dict[str, Any]:
    """The same for a model and tasks that are loaded; the model is left as it is."""
    from brodmann.models.model_settings import EVALUATION_BATCH
    from brodmann.pipeline.prune import checked_target

    target, kept = checked_target(to), kept_tasks(tasks, wishes["drop"])
    if missing := set(model.specs) - {task.name for task in tasks}:
        raise InputError(
            f"tasks: the model's task '{min(missing)}' is missing: pass it, or drop it"
        )
    conditions = Conditions(report, EVALUATION_BATCH, "auto", seed, None)
    return _compress_and_write(model, kept, wishes, conditions, target, {})


def kept_tasks(tasks: Sequence[Task], drop: Sequence[str]) -> list[Task]:
    names = [task.name for task in tasks]
    for name in drop:
        if name not in names:
            raise InputError(f"the run has no task '{name}'{did_you_mean(name, names)}")
    if set(drop) >= set(names):
        raise InputError("drop: no task would be left")
    return [task for task in tasks if task.name not in drop]


def _compress_and_write(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    wishes: Wishes,
    conditions: Conditions,
    target: Path,
    calibration: Mapping[str, Any],
) -> dict[str, Any]:
    from brodmann.measuring.fitting_rules import fit_rules

    small, found = search_and_confirm(model, tasks, wishes, conditions)
    if small is not None:
        if model.rules:  # those of the whole model ended with the cut
            conditions.say("calibrating the smaller model")
            fit_rules(small, list(tasks), **calibration, **conditions.options)
        scores = {task: {e["metric"]: e["after"]} for task, e in found["confirmed"].items()}
        small.save_pretrained(target, scores=scores)
        found["folder"] = str(target)
    place = "no model was written" if small is None else f"model: {target}"
    conditions.report("compressed", {"result": found, "place": place})
    return found


def search_and_confirm(
    model: "MultiTaskModel", tasks: Sequence[Task], wishes: Wishes, conditions: Conditions
) -> tuple["MultiTaskModel | None", dict[str, Any]]:
    """The smaller model and what was found; no model if nothing is within what is allowed."""
    from brodmann.models.derived import without_tasks
    from brodmann.models.saving import weights_digest

    searched, confirming = held_out(tasks, conditions.seed)
    if dropped := set(model.specs) - {task.name for task in tasks}:
        model = without_tasks(model, dropped)
    whole = model.merged()
    large, vocabulary = cut_unused(whole, tasks, searched, wishes["vocabulary"])
    ours = make_judge(large, tasks, searched, conditions)
    identity = [dict(wishes), conditions.seed, conditions.precision]
    stored = Stored(conditions.folder, [*identity, weights_digest(large.state_dict())])
    known = survey(large, tasks, conditions, stored.times)
    stored.keep_times(known.times)
    unit = "latency" if wishes["size"] is None else "size"
    search = Search(known, ours, unit, wishes["lose"], remembering(stored, conditions, unit))
    best = find_best(search, wishes, whole.parameter_counts()["total"])
    held = best if best is not None and best.holds else None
    small = None if held is None else known.make(held.choice)
    found: dict[str, Any] = {"wishes": dict(wishes), "vocabulary": vocabulary}
    if wishes["recover"]:
        small, found["recovered"] = recover(
            small, search, held, wishes, conditions, stored.identity
        )
    found |= facts_of(search, held)
    if small is None:
        return None, found | {"verdict": "nothing holds"}
    found |= measured(whole, small) | {"left": left_units(small, known)}
    conditions.say("confirming on examples that the search never saw")
    final = make_judge(whole, tasks, confirming, conditions)
    after = final.outcomes(small, final.counter("scoring"), anew=vocabulary is not None)
    return small, found | confirm(final.losses(after), tasks, wishes["lose"])


def find_best(search: Search, wishes: Wishes, parameters: int) -> Trial | None:
    """The fastest that holds or, if a share is asked for, the last try at it."""
    target = wishes["latency"] or wishes["size"]
    if target is None:
        return search.fastest()
    if search.unit == "size":
        target *= parameters / search.known.parameters  # the vocabulary may be cut already
    found = search.at(min(target, 1.0))
    if found is None:
        raise InputError(
            f"{search.unit} = {wishes[search.unit]:g}: the parts that are never cut already take "
            "more: ask for a larger share"
            + (", or cut the vocabulary" if search.unit == "size" else "")
        )
    return found
