"""The starts that meta-learning compares: pretrained, plainly trained, meta-trained."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import Interrupted
from brodmann.pipeline.run_folder import timed
from brodmann.pipeline.train import build_model
from brodmann.studies.meta_summary import META, MULTITASK, PRETRAINED
from brodmann.training.events import Report
from brodmann.training.meta.meta_settings import Meta


def make_starts(
    folder: Path,
    config: Config,
    settings: Meta,
    seen: list[Task],
    seed: int,
    report: Report,
    signals: Any,
) -> dict[str, Any]:
    """Train or read every start of one seed."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.saving import is_model_folder
    from brodmann.training.checkpoints.checkpoint import clear_checkpoints
    from brodmann.training.fit import fit
    from brodmann.training.meta.trainer import meta_train

    assert config.meta is not None
    seeded = config.model_copy(update={"seed": config.seed + seed})
    starts: dict[str, Any] = {}
    for name in (*config.meta.against, META):
        place = folder / f"seed-{seed}" / name
        if is_model_folder(place / "model"):
            starts[name] = MultiTaskModel.from_pretrained(place / "model", device=config.device)
            continue
        stop_if_asked(signals)
        model = build_model(seeded, seen)
        if config.meta.off_before == "training":
            _switch_off(model, config, seen, seeded.seed)
        if name == META:
            report("stage", {"text": f"seed {seed}: meta-training on {len(seen)} pairs"})
            with timed(folder, f"seed {seed}: meta-training"):
                meta_train(
                    model,
                    seen,
                    settings,
                    folder=place,
                    precision=config.training.precision,
                    seed=seeded.seed,
                    report=report,
                )
        elif name == MULTITASK:
            report("stage", {"text": f"seed {seed}: plain training on {len(seen)} pairs"})
            options = config.training.model_dump()
            size = config.training.batch_size * config.training.accumulation
            options |= {"max_steps": max(1, settings.examples() // size), "keep": "last"}
            options |= {
                "epochs": _epochs(seen, settings.examples()),
                "evaluate_every": 10**9,
            }  # only at the end
            with timed(folder, f"seed {seed}: plain training"):
                fit(model, seen, folder=place, report=report, seed=seeded.seed, **options)
        if config.meta.off_before == "testing":
            _switch_off(model, config, seen, seeded.seed)
        if name != PRETRAINED:
            model.save_pretrained(place / "model")
            clear_checkpoints(place)
        starts[name] = model.eval()
    return starts


def with_every_task(model: Any, tasks: Mapping[str, Task]) -> Any:
    """A copy that also has the held-out pairs, for the commands that read a run folder."""
    from brodmann.training.meta.unseen import nearest

    whole = copy.deepcopy(model)
    for task in tasks.values():
        if task.name not in whole.specs:
            whole.add_task(task, like=nearest(whole, task))
    return whole


def stop_if_asked(signals: Any) -> None:
    if signals.received:
        text = "stopped: run the same command again to resume"
        raise Interrupted(text, int(signals.received))


def _epochs(tasks: list[Task], examples: int) -> int:
    """Number of passes that hold as many examples as meta-training reads."""
    return -(-examples // sum(len(task.splits["train"]) for task in tasks)) + 1


def _switch_off(model: Any, config: Config, seen: list[Task], seed: int) -> None:
    """Switch off the least important heads over all pairs together.

    Importance is measured through fitted output heads: those of an untrained start are random, and
    those of a meta-trained one are made to be adapted.
    """
    from brodmann.measuring.importance import head_importance
    from brodmann.training.output_heads import fitted_heads

    assert config.meta is not None
    if not config.meta.off:
        return
    how: dict[str, Any] = {
        "examples": config.map.examples,
        "precision": config.training.precision,
        "seed": seed,
    }
    with fitted_heads(model, seen, **how):
        scores = head_importance(model, seen, **how)
    model.switch_off(scores.least(config.meta.off))
