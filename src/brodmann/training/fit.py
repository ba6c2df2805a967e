"""`fit`: train a model on its tasks. The steps are in `training/loop.py`."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.models.derived import forget_rules
from brodmann.models.multitask import MultiTaskModel
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.checkpoints.progress import Progress
from brodmann.training.events import Report
from brodmann.training.loop import Loop
from brodmann.training.methods import Method
from brodmann.training.run_facts import fingerprint, tracked_settings
from brodmann.training.settings import checked_options
from brodmann.training.stopping import StopSignals
from brodmann.training.trackers import tracking


def fit(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    folder: str | Path | None = None,
    trackers: Sequence[str] = (),
    report: Report | None = None,
    branch_at: Sequence[float] = (),
    branch_from: str | Path | None = None,
    encoded: Mapping[str, Mapping[str, Encoded]] | None = None,
    methods: Sequence[Method] = (),
    **options: Any,
) -> Progress:
    """Train `model` on the tasks' training splits; afterwards it holds the best weights.

    The options are `seed`, `specialize` and the fields of `TrainingSettings` in
    `training/settings.py`, with their defaults: `epochs` and `learning_rate` ("auto": chosen by the
    size of the data and of the encoder, see `training/defaults.py`), `rates` of parts of the model,
    `batch_size` (per process), `accumulation`, `weight_decay`, `warmup` (share of the steps),
    `schedule`, `clip`, `precision` ("float32", "bf16", "auto"), `sampling` and its
    `sampling_parameters`, `max_steps` and others. `evaluate_every` is a number of steps (None: one
    epoch). The best model has the highest mean of the tasks' primary metrics (`keep="last"` keeps
    the last one instead); training ends after `early_stopping` evaluations without a new best.

    With a `folder`, checkpoints are written there (at every evaluation and every
    `checkpoint_every` steps; the last `checkpoints` are kept), an interrupted run resumes from the
    newest one, and Ctrl-C saves before it stops. `report(event, facts)` is called along the way.
    With `specialize=IAT(...)` each task trains only its important heads in the last steps, and the
    best model is the best after that switch. `branch_at` keeps a checkpoint before each of these
    last shares of the steps; `branch_from`, the folder of such a run, starts from it, so that the
    arms of a comparison share the steps before the switch. `encoded` passes splits that are already
    tokenised, by split and task; `methods` are objects that change how a step trains, in addition
    to those that the options ask for (see `training/methods`).
    """
    chosen = checked_options(options)
    forget_rules(model)
    run = Loop(model, list(tasks), chosen, report, encoded or {}, methods)
    keeper = Keeper(
        None if folder is None else Path(folder),
        keep=chosen.checkpoints,
        fingerprint="" if folder is None else fingerprint(run),
        main=run.rank == 0,
        say=lambda text: run.report("note", {"text": text}),
        plain_fingerprint="" if folder is None else fingerprint(run, shared_steps=True),
    )
    keeper.check_space(run.trained)
    run.branches = frozenset(int((1 - Fraction(str(s))) * run.steps) for s in branch_at)
    run.branch_from = None if branch_from is None else Path(branch_from)
    with (
        StopSignals() as signals,
        tracking(trackers, folder, tracked_settings(run), main=run.rank == 0) as log,
    ):
        run.train(keeper, signals, chosen.checkpoint_every, log)
    return run.progress
