"""Few-shot transfer from trained runs to new tasks: `transfer.jsonl`, a table, a learning curve."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.analysis.comparison import over_seeds
from brodmann.config import Config, to_toml
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import (
    append_lines,
    digest,
    locked,
    read_lines,
    write_bytes,
    write_json,
    write_text,
)
from brodmann.models.model_settings import ModelSettings
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import in_threads, machine_of, timed
from brodmann.pipeline.train import check_methods, tasks_of
from brodmann.studies import Study
from brodmann.studies.plan.counting import Counted, count_trainings, sizes_of_tasks
from brodmann.studies.plan.estimate import few_shot
from brodmann.studies.plan.planning import plan_once
from brodmann.studies.plan.short_trainings import plan_trainings
from brodmann.training.events import Report
from brodmann.training.few_shot import LARGEST_BATCH

ROWS = "transfer.jsonl"
FILE = "transfer.json"
FIGURE = "learning_curve.svg"


def transfer(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    """Train every missing start, task, amount and seed; then compute means, spreads and tests."""
    from brodmann.models.backbone.devices import choose_device
    from brodmann.models.backbone.precision import computed_in
    from brodmann.models.saving import weights_digest
    from brodmann.reporting.figures import learning_curves, save
    from brodmann.training.stopping import StopSignals

    section = config.transfer
    if section is None:
        raise InputError('no [transfer] table: add one, for example starts = { plain = "runs/a" }')
    one_process("transfer")
    check_methods(config, "transfer")
    amounts, seeds = _amounts(config)
    if any((config.folder / name).exists() for name in ("model", "checkpoints")):
        raise InputError(f"{config.folder}: contains a trained run: set another name")
    tasks = tasks_of(config, base, cache)
    report("tasks", {"tasks": tasks})
    folder = config.folder
    starts = {name: start_of(source, tasks, config) for name, source in section.starts.items()}
    settings = {
        "starts": {n: weights_digest(_without_heads(m)) for n, m in starts.items()},
        "tasks": {task.name: task.fingerprint() for task in tasks},
        "epochs": section.epochs,
        "learning_rate": section.learning_rate,
        "max_length": config.model.max_length,
        "precision": computed_in(config.training.precision, choose_device(config.device)),
    }
    if config.model.pooling != ModelSettings().pooling:  # rows without it were read by default
        settings["pooling"] = config.model.pooling
    with in_threads(config.threads), locked(folder), StopSignals() as signals:
        rows = _stored(folder / ROWS, settings)
        write_text(folder / "config.toml", to_toml(config.resolved()))
        with timed(folder, "transfer"):
            _train_all(config, tasks, starts, amounts, seeds, rows, signals, report)
        names = [str(amount) for amount in amounts]
        # Rows of an earlier command with more seeds would mix means over different seeds.
        counts = dict(zip(names, seeds, strict=True))
        rows = [row for row in rows if row["seed"] < counts.get(row["amount"], 0)]
        summary = {
            "settings": settings,
            "tasks": {
                task.name: over_seeds(
                    [row for row in rows if row["task"] == task.name], list(starts), names
                )
                for task in tasks
            },
            "metrics": {task.name: task.spec.metric for task in tasks},
            "configuration": config.portable(),
            "machine": machine_of(config),
        }
        write_json(folder / FILE, summary)
        picture = io.BytesIO()
        save(learning_curves(summary), picture)
        write_bytes(folder / FIGURE, picture.getvalue())
    report("transfer", {"summary": summary, "file": folder / FILE, "figure": folder / FIGURE})
    return summary


def _without_heads(model: Any) -> dict[str, Any]:
    """The encoder under its own names, as if without gates, and the gates."""
    own = {} if model.gates is None else model.gates.state_dict(prefix="gates.")
    return {**model.encoder.state_dict(), **own}


def _amounts(config: Config) -> tuple[list[Any], list[int]]:
    from brodmann.training.few_shot import Amount

    assert config.transfer is not None
    section = config.transfer
    amounts = [Amount(examples=count) for count in section.examples]
    amounts += [Amount(share=share) for share in section.shares]
    if not amounts:
        raise InputError("[transfer]: set 'examples' or 'shares'")
    seeds = section.seeds
    counts = [seeds] * len(amounts) if isinstance(seeds, int) else seeds
    if len(counts) != len(amounts):
        raise InputError(
            f"[transfer]: seeds = {seeds}: expected one number, or one for each of "
            f"{', '.join(map(str, amounts))}"
        )
    return amounts, counts


def start_of(source: str, tasks: list[Task], config: Config) -> Any:
    """A trained run or model, or a backbone that is not trained yet."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.saving import is_model_folder

    path = Path(source)
    if is_model_folder(path) or is_model_folder(path / "model"):
        model = MultiTaskModel.from_pretrained(path, device=config.device)
    elif path.exists():
        raise InputError(f"{source}: no trained model in it: run `brodmann train` first")
    else:
        length, pooling = config.model.max_length, config.model.pooling
        model = MultiTaskModel.from_pretrained(
            source, tasks, max_length=length, pooling=pooling, device=config.device
        )
    model.for_tasks(tasks[:1], max_length=config.model.max_length)  # raises if impossible
    return model


def _stored(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that an earlier session left, if its settings were the same."""
    key = digest(settings)
    if not path.is_file():
        write_text(path, json.dumps({"settings": settings, "digest": key}) + "\n")
        return []
    rows = read_lines(path)
    if not rows or rows[0].get("digest") != key:
        raise InputError(
            f"{path}: was measured from other models, data or settings: set another name, or "
            "remove the folder"
        )
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_text(path, text)
    return rows[1:]


def _train_all(
    config: Config,
    tasks: list[Task],
    starts: dict[str, Any],
    amounts: list[Any],
    seeds: list[int],
    rows: list[dict[str, Any]],
    signals: Any,
    report: Report,
) -> None:
    from brodmann.errors import Interrupted
    from brodmann.training.few_shot import transfer as trainings

    assert config.transfer is not None
    total = len(tasks) * len(starts) * sum(seeds)

    def stopped(number: int) -> Interrupted:
        text = (
            f"stopped after {len(rows)} of {total} trainings: run the same command again to resume"
        )
        return Interrupted(text, number)

    def stop() -> None:
        if signals.received:
            raise stopped(int(signals.received))

    report("measuring starts", {"what": "transferring", "examples": total})
    report("measuring goes on", {"items": len(rows)})
    for task in tasks:
        done = {(r["start"], r["amount"], r["seed"]) for r in rows if r["task"] == task.name}
        found = trainings(
            starts,
            task,
            amounts,
            seeds,
            epochs=config.transfer.epochs,
            learning_rate=config.transfer.learning_rate,
            precision=config.training.precision,
            max_length=config.model.max_length,
            done=done,
            stop=stop,
        )
        try:
            for row in found:
                append_lines(config.folder / ROWS, [row])
                rows.append(row)
                report("measuring goes on", {"items": 1})
        except Interrupted as error:  # that training is repeated, the others are kept
            raise stopped(error.exit_code - 128) from None


class Transfer(Study):
    command = "transfer"

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return transfer(config, base, report, **options)

    def move_starts(self, values: dict[str, Any], moved: Callable[[str], str]) -> None:
        starts = values["transfer"]["starts"]
        values["transfer"]["starts"] = {name: moved(start) for name, start in starts.items()}

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        return plan_once(config, report, speed, lambda: _measured(config, base, report))

    def count(self, config: Config, start: Config | None) -> Counted:
        assert config.transfer is not None and start is not None
        model = config.model.model_copy(update={"backbone": start.model.backbone})
        config = config.model_copy(update={"model": model})
        assert config.transfer is not None
        return count_trainings(config, few_shot(config.transfer, sizes_of_tasks(config)))


def _measured(config: Config, base: Path, report: Report) -> dict[str, Any]:
    section = config.transfer
    assert section is not None
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    check_methods(config, "transfer")
    name = next(iter(section.starts.values()))
    report("stage", {"text": f"loading {name}"})
    model = start_of(name, tasks, config).for_tasks(tasks, max_length=config.model.max_length)
    batch = min(LARGEST_BATCH, max(section.examples, default=32))
    return plan_trainings(
        config, report, model, tasks, tasks, batch, lambda sizes, n: few_shot(section, sizes, n)
    )


STUDY = Transfer()
