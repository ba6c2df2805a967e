"""Meta-learn over pairs of task and language: train a start, test it on pairs it never saw.

In the run folder: `seed-N/meta` and `seed-N/multitask` with their models and checkpoints,
`meta.jsonl` with one row per measurement, `meta.json` with their summary, and `model/`, the start
learnt with the first seed, for every other command.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brodmann.config import Config, MetaSection
from brodmann.data.kinds import lower_is_better
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError, Interrupted, did_you_mean
from brodmann.files import append_lines, read_json, read_lines, write_json, write_text
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import check_folder, machine_of, opened, timed
from brodmann.pipeline.train import build_model, check_methods, tasks_of
from brodmann.results import share_of
from brodmann.studies import Study
from brodmann.studies.meta_starts import make_starts, stop_if_asked, with_every_task
from brodmann.studies.meta_summary import META, summary
from brodmann.studies.plan.counting import Counted, count_trainings, sizes_of_tasks
from brodmann.studies.plan.estimate import meta_learning
from brodmann.studies.plan.planning import plan_once
from brodmann.studies.plan.short_trainings import plan_trainings
from brodmann.training.events import Report
from brodmann.training.meta.meta_settings import Meta

ROWS = "meta.jsonl"
FILE = "meta.json"
RATES = "rates.json"


def meta(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    """Meta-train, train the starts to compare with, and adapt all of them to the unseen pairs."""
    from brodmann.models.backbone.anatomy import head_shape
    from brodmann.models.saving import is_model_folder
    from brodmann.training.meta.trainer import episode_sources
    from brodmann.training.meta.unseen import support_of
    from brodmann.training.stopping import StopSignals

    section = config.meta
    if section is None:
        raise InputError('no [meta] table: add one, for example unseen = ["sentiment-es"]')
    one_process("meta", trains=True)
    settings = Meta(**section.model_dump(include=set(Meta.model_fields)))
    _check(config, section)
    report("stage", {"text": "reading tasks"})
    tasks = {task.name: task for task in tasks_of(config, base, cache)}
    seen, unseen, tuning = divided(section, tasks)
    report("tasks", {"tasks": list(tasks.values())})
    for note in _unshared_heads(seen, [*unseen, *([] if tuning is None else [tuning])]):
        report("note", {"text": note})
    episode_sources(seen, settings)  # find errors before anything is written
    for task in [*unseen, *([] if tuning is None else [tuning])]:
        support_of(task, max(section.shots), 0)
    report("stage", {"text": f"loading {config.model.backbone}"})
    model = with_every_task(build_model(config, seen), tasks)
    heads = math.prod(head_shape(model.bare_models()[0])) if section.off else 0
    if section.off and not share_of(section.off, heads):
        raise InputError(f"[meta]: off = {section.off} of {heads} heads is less than one")
    del model
    check_folder(config, list(tasks.values()))
    with opened(config, list(tasks.values())) as folder, StopSignals() as signals:
        rows = _stored(folder / ROWS, len(section.shots) * len(section.curve) * section.draws)
        rates = read_json(folder / RATES)["rates"] if (folder / RATES).is_file() else {}
        for seed in range(section.seeds):
            starts = make_starts(folder, config, settings, seen, seed, report, signals)
            if not rates:
                with timed(folder, f"seed {seed}: unseen pairs"):
                    rates = _tuned(starts, tuning, section, config, report, signals)
                write_json(folder / RATES, {"rates": rates})
            if seed == 0 and not is_model_folder(folder / "model"):
                with_every_task(starts[META], tasks).save_pretrained(folder / "model")
            with timed(folder, f"seed {seed}: unseen pairs"):
                _test(config, starts, unseen, seed, rates, rows, signals, report)
        result = summary(section, rows, rates, {task.name: task for task in unseen}, seen)
        result["first_seed"] = config.seed
        result["gates"] = _gates(folder)
        result |= {"configuration": config.portable(), "machine": machine_of(config)}
        write_json(folder / FILE, result)
        report("meta", {"result": result, "file": folder / FILE})
    return result


def _check(config: Config, section: MetaSection) -> None:
    check_methods(config, "meta")
    if config.specialize is not None:
        raise InputError("[meta]: cannot be combined with [specialize]")
    if config.training.gradient_checkpointing:
        raise InputError("[meta]: cannot be combined with training.gradient_checkpointing")
    if config.training.max_steps is not None:
        raise InputError(
            "[meta]: training.max_steps cannot be set: plain training reads as much as "
            "meta-training"
        )
    if sorted(set(section.curve)) != section.curve or section.curve[0] < 0:
        raise InputError(f"[meta]: curve = {section.curve}: expected numbers of steps, rising")


def divided(
    section: MetaSection, tasks: Mapping[str, Task]
) -> tuple[list[Task], list[Task], Task | None]:
    """(tasks to train on, tasks held out for the test, the task that chooses the rates)."""
    named = [*section.unseen, *([section.tuning] if section.tuning else [])]
    for name in named:
        if name not in tasks:
            raise InputError(f"[meta]: no task '{name}'{did_you_mean(name, tasks)}")
    if section.tuning in section.unseen or len(set(section.unseen)) < len(section.unseen):
        raise InputError("[meta]: 'unseen' and 'tuning' name a task twice")
    if len(section.rates) > 1 and section.tuning is None:
        raise InputError("[meta]: several rates: name a task that chooses among them in 'tuning'")
    seen = [task for name, task in tasks.items() if name not in named]
    if not seen:
        raise InputError("[meta]: every task is held out for the test: leave some to train on")
    return seen, [tasks[name] for name in section.unseen], tasks.get(section.tuning or "")


def _unshared_heads(seen: list[Task], kept: list[Task]) -> list[str]:
    """Hints about pairs that could start from a trained output head, if it were shared.

    Not done by default: the name of a task's output head is part of its fingerprint.
    """
    notes = []
    for task in kept:
        base = _base_name(task)
        known = next((one for one in seen if base and _base_name(one) == base), None)
        if task.spec.head or known is None or known.spec.language == task.spec.language:
            continue
        if (known.spec.kind, known.spec.labels) == (task.spec.kind, task.spec.labels):
            head = known.spec.head or base.rpartition("/")[2]
            notes.append(
                f"{task.name}: a new output head, though {known.name} is the same task: with "
                f'head = "{head}" on both it starts from the trained one'
            )
    return notes


def _base_name(task: Task) -> str:
    """`builtin/topic` for `builtin/topic:es`; empty for the user's own data."""
    return task.spec.named.partition(":")[0]


def _tuned(
    starts: Mapping[str, Any],
    tuning: Task | None,
    section: MetaSection,
    config: Config,
    report: Report,
    signals: Any,
) -> dict[str, Any]:
    """Choose the best rate for every start, on a pair that is not in the test."""
    from brodmann.training.meta.unseen import DivergedError, meta_test

    if tuning is None:
        return {start: {"chosen": section.rates[0], "tried": {}} for start in starts}
    total = len(starts) * len(section.rates)
    report("measuring starts", {"what": f"choosing rates on {tuning.name}", "examples": total})
    found: dict[str, Any] = {}
    for name, start in starts.items():
        tried: dict[float, float] = {}
        sign = -1 if lower_is_better(tuning.spec.metric) else 1
        for rate in section.rates:
            stop_if_asked(signals)
            try:
                rows = meta_test(
                    {name: start},
                    tuning,
                    shots=[max(section.shots)],
                    at=[section.curve[-1]],
                    rates={name: rate},
                    seed=config.seed,
                    draws=section.draws,
                    precision=config.training.precision,
                )
                tried[rate] = sum(row["score"] for row in rows) / len(rows)
            except DivergedError as error:
                report("note", {"text": f"{name}: {error}"})
            report("measuring goes on", {"items": 1})
        if not tried:
            raise InputError(f"[meta]: '{name}' diverges at every rate of {section.rates}")
        best = max(tried, key=lambda rate: (sign * tried[rate], -rate))
        found[name] = {"chosen": best, "tried": {f"{r:g}": v for r, v in tried.items()}}
    return found


def _stored(path: Path, each: int) -> list[dict[str, Any]]:
    """Rows that an earlier session left; a pair that was not completed is measured again.

    A start's test on a pair has `each` rows.
    """
    rows = read_lines(path)
    counts = Counter((row["pair"], row["start"], row["seed"]) for row in rows)
    whole = [row for row in rows if counts[row["pair"], row["start"], row["seed"]] == each]
    if rows:
        write_text(path, "".join(json.dumps(row) + "\n" for row in whole))
    return whole


def _test(
    config: Config,
    starts: Mapping[str, Any],
    unseen: list[Task],
    seed: int,
    rates: Mapping[str, Any],
    rows: list[dict[str, Any]],
    signals: Any,
    report: Report,
) -> None:
    from brodmann.training.meta.unseen import meta_test

    section = config.meta
    assert section is not None
    done = {(row["pair"], row["start"], row["seed"]) for row in rows}
    wanted = [
        (task, name)
        for task in unseen
        for name in starts
        if (task.name, name, config.seed + seed) not in done
    ]
    if not wanted:
        return

    def stop() -> None:
        if signals.received:
            text = f"stopped after {len(rows)} rows: run the same command again to resume"
            raise Interrupted(text, int(signals.received))

    def note(text: str) -> None:
        report("note", {"text": text})

    # An untested rate that is too high should fail at once. One chosen on the first seed's tuning
    # may still be too high elsewhere, and that is a result.
    given = section.tuning is None
    report("measuring starts", {"what": f"seed {seed}: unseen pairs", "examples": len(wanted)})
    for task, name in wanted:
        found = meta_test(
            {name: starts[name]},
            task,
            shots=section.shots,
            at=section.curve,
            rates={name: rates[name]["chosen"]},
            seed=config.seed + seed,
            draws=section.draws,
            precision=config.training.precision,
            stop=stop,
            diverged=None if given and not seed else note,
        )
        append_lines(config.folder / ROWS, found)
        rows += found
        report("measuring goes on", {"items": 1})


def _gates(folder: Path) -> list[list[float]] | None:
    """ξ (the gates) of the first seed's start, for the report."""
    from brodmann.models.multitask import MultiTaskModel

    own = MultiTaskModel.from_pretrained(folder / "model", device="cpu").gates
    return None if own is None else own().detach().tolist()


class MetaLearning(Study):
    command = "meta"

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return meta(config, base, report, **options)

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        return plan_once(config, report, speed, lambda: _measured(config, base, report))

    def count(self, config: Config, start: Config | None) -> Counted:
        assert config.meta is not None
        return count_trainings(config, meta_learning(config.meta, sizes_of_tasks(config)))


def _measured(config: Config, base: Path, report: Report) -> dict[str, Any]:
    section = config.meta
    assert section is not None
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    check_methods(config, "meta")
    trained = divided(section, {task.name: task for task in tasks})[0]
    report("stage", {"text": f"loading {config.model.backbone}"})
    return plan_trainings(
        config,
        report,
        build_model(config, trained),
        tasks,
        trained,
        section.support,
        lambda sizes, tokens: meta_learning(section, sizes, tokens),
    )


STUDY = MetaLearning()
