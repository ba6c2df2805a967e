"""Important attention-head pruning (IAP): each task's top heads off, every task scored.

For every task, its K = floor(α · heads) most important heads over all layers are switched off; then
r draws of K random heads by the same rule. The result is the matrix of scores, D with its interval,
a test against the random draws, and a test of D itself. Formulas: `analysis/dissociation.py`;
intervals: `measuring/dissociation_intervals.py`, `analysis/redraws.py`; the test of D:
`analysis/null.py`.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §4.1.
Departures: the published code keeps one head per layer in its random draws only; here they follow
the same rule as the ranking, or the baseline would not be fair.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.analysis import dissociation as formulas
from brodmann.analysis.null import exchanged, exchanges_needed, null_distribution
from brodmann.analysis.redraws import USUAL_REDRAWS, redrawn, redrawn_dissociation
from brodmann.analysis.statistics import FEWEST_DRAWS, random_draw_p_value
from brodmann.data.kinds import lower_is_better
from brodmann.data.schema import checked
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.measuring.batch_outcomes import BatchOutcomes, RowScores, batch_tasks
from brodmann.measuring.dissociation_intervals import dissociation_intervals
from brodmann.measuring.head_outcomes import HeadOutcomes, Named, Progress, TaskOutcomes
from brodmann.measuring.measuring_settings import DissociationSettings
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.results import Dissociation, Head, HeadScores, share_of

if TYPE_CHECKING:
    from torch import nn

USUAL = DissociationSettings()


def dissociation(
    model: "nn.Module",
    tasks: Sequence[Task] | Mapping[str, Iterable[object]],
    scores: HeadScores,
    *,
    score: RowScores | None = None,
    alpha: float = USUAL.alpha,
    curve: Sequence[float] = (),
    draws: int = USUAL.draws,
    resamples: int = USUAL.resamples,
    redraws: int | None = USUAL.redraws,
    exchanges: int | None = USUAL.exchanges,
    split: str = "validation",
    seed: int = 0,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: Progress | None = None,
    outcomes_file: str | Path | None = None,
    training_losses: Mapping[str, tuple[float, float]] | None = None,
) -> Dissociation:
    """Score every task with every task's top heads off, and derive D, intervals and tests.

    With a multi-task model, `tasks` are its tasks, scored by their metrics on `split`. With any
    other transformers model, `tasks` maps names to lists of batches, and `score(outputs, batch)`
    returns one number per row, whose mean is the score (by default, 1 for a right label).
    `curve` lists further shares to measure; `draws` random choices of as many heads are the
    baseline. `redraws` choices by redrawn importance examples widen the intervals, and `exchanges`
    random assignments of the heads to the tasks give a p-value of D; each takes one forward pass
    per task. By default, both are measured if `draws` is at least 20: 5 redraws, and as many
    exchanges as the test needs. `outcomes_file` stores the contribution of every example (an .npz)
    for later resampling; `training_losses` gives each task's last training loss and the loss of
    guessing, by which undertrained tasks are recognised.
    """
    asked = {
        "alpha": alpha,
        "curve": curve,
        "draws": draws,
        "resamples": resamples,
        "redraws": redraws,
        "exchanges": exchanges,
    }
    checked(DissociationSettings, asked, "dissociation")
    plain = isinstance(tasks, Mapping)
    listed: Sequence[Any] = batch_tasks(tasks) if isinstance(tasks, Mapping) else tasks
    _check(model, listed, scores, None if plain else split)
    redraws, exchanges = extra_choices(
        len(listed), draws, redraws, exchanges, sums=scores.part_sums is not None
    )
    measured: HeadOutcomes
    if plain:
        measured = BatchOutcomes(model, listed, score, precision, progress)
    else:
        measured = TaskOutcomes(model, listed, split, batch_size, precision, progress)
    chosen = {share: _chosen(scores, listed, share) for share in sorted({alpha, *curve})}
    _measure_choices(measured, chosen, random_heads(scores, alpha, draws, seed))
    if outcomes_file is not None:
        measured.save(Path(outcomes_file))
    base = [measured.score(task, "base") for task in listed]
    matrix = measured.matrix(alpha)
    meaningless = _lower_is_better(measured)
    found = formulas.dissociation_scores(matrix, base, undefined=meaningless)
    again = _redrawn(measured, scores, chosen[alpha], alpha, base, meaningless, redraws, seed)
    layers = formulas.heads_per_layer(chosen[alpha], scores.shape[0])
    random = [[measured.score(t, f"random/{draw}") for draw in range(draws)] for t in listed]
    trivial = [measured.trivial(task) for task in listed]
    return Dissociation(
        tasks=[task.name for task in listed],
        metrics=[measured.metric(task) for task in listed],
        alpha=alpha,
        heads=chosen[alpha],
        base=base,
        trivial=trivial,
        performance=matrix,
        random=random,
        per_task=found.per_task,
        mean=found.mean,
        pairwise=found.pairwise,
        verdicts=formulas.verdicts(found),
        intervals=dissociation_intervals(measured, listed, alpha, found, resamples, seed, again),
        p_values=[
            None if d is None else random_draw_p_value(matrix[i][i], np.array(random[i]))
            for i, d in enumerate(found.per_task)
        ],
        overlap=formulas.overlap(chosen[alpha]),
        heads_per_layer=layers,
        layer_spread=np.std(layers, axis=0).tolist(),
        undefined={listed[i].name: reason for i, reason in found.undefined.items()},
        undertrained=_undertrained(measured, base, trivial, training_losses or {}),
        curve=[_point(measured, listed, share, heads, base) for share, heads in chosen.items()],
        settings={
            "importance": scores.settings,
            "shape": list(scores.shape),
            "architecture": None if plain else architecture_of(model),
            "split": None if plain else split,
            "examples": {task.name: measured.examples(task) for task in listed},
            "draws": draws,
            "redraws": redraws,
            "exchanges": exchanges,
            "resamples": resamples,
            "seed": seed,
            "precision": precision,
        },
        redrawn=again,
        null=_null(measured, chosen[alpha], base, matrix, found, exchanges, seed),
    )


def extra_choices(
    tasks: int, draws: int, redraws: int | None, exchanges: int | None, *, sums: bool
) -> tuple[int, int]:
    """Number of redraws and exchanges to measure; None asks for as many as the test needs.

    `sums` says whether importance has sums over parts of its examples: without them, nothing can
    be redrawn.
    """
    whole = draws >= FEWEST_DRAWS
    if redraws is None:
        redraws = USUAL_REDRAWS if whole and sums else 0
    if exchanges is None:
        exchanges = exchanges_needed(tasks) if whole else 0
    return redraws, exchanges


def forward_passes(
    tasks: int,
    *,
    shares: int,
    draws: int,
    redraws: int | None,
    exchanges: int | None,
    sums: bool = True,
) -> int:
    """Upper bound on how often every task's examples are read: equal choices are measured once."""
    redraws, exchanges = extra_choices(tasks, draws, redraws, exchanges, sums=sums)
    return 1 + draws + tasks * (shares + redraws + exchanges)


def _check(model: Any, tasks: Sequence[Any], scores: HeadScores, split: str | None) -> None:
    from brodmann.models.backbone.anatomy import bare_models, head_shape
    from brodmann.models.heads.trained_gates import gone_heads

    if len(tasks) < 2:
        raise InputError("dissociation needs at least two tasks")
    shape = head_shape(bare_models(model)[0])
    here = set(np.ndindex(shape)) - set(gone_heads(model))
    if shape != scores.shape or here != set(scores.ranking()):
        raise InputError(
            "the scores were measured on a model with other heads: measure importance again"
        )
    for task in tasks:
        scores.of(task.name)
        if split is not None and split not in task.splits:
            raise InputError(f"task '{task.name}' has no split '{split}'")


def _chosen(scores: HeadScores, tasks: Sequence[Named], share: float) -> list[list[Head]]:
    if share_of(share, scores.heads) < 1:
        raise InputError(f"alpha = {share} of {scores.heads} heads is less than one head")
    return [scores.top(share, task.name) for task in tasks]


def _measure_choices(
    measured: HeadOutcomes, chosen: Mapping[float, list[list[Head]]], random: list[list[Head]]
) -> None:
    """Measure with nothing off, with every task's heads at every share, and the random draws."""
    measured.add("base", [])
    for share, heads in chosen.items():
        for task, off in zip(measured.tasks, heads, strict=True):
            measured.add(f"{share}/{task.name}", off)
    for draw, off in enumerate(random):
        measured.add(f"random/{draw}", off)


def random_heads(scores: HeadScores, alpha: float, draws: int, seed: int) -> list[list[Head]]:
    """Random draws of as many heads as a task's top ones, over all layers together."""
    generator = np.random.default_rng(seed)
    every = sorted(scores.ranking())
    count = share_of(alpha, len(every))
    return [
        [every[int(place)] for place in sorted(generator.choice(len(every), count, replace=False))]
        for _ in range(draws)
    ]


def architecture_of(model: Any) -> str:
    """The name of a multi-task model's architecture."""
    return str(model.settings.architecture)


def _lower_is_better(measured: HeadOutcomes) -> dict[int, str]:
    """Tasks whose metric is an error: its ratio grows with damage, so D is undefined."""
    metrics = [measured.metric(task) for task in measured.tasks]
    return {
        i: f"lower is better for its metric {metric}"
        for i, metric in enumerate(metrics)
        if lower_is_better(metric)
    }


def _undertrained(
    measured: HeadOutcomes,
    base: Sequence[float],
    trivial: Sequence[float],
    losses: Mapping[str, tuple[float, float]],
) -> dict[str, str]:
    """Why tasks are hardly trained, by task. If the metric is an error, only the loss counts."""
    found = {}
    for task, score, guess in zip(measured.tasks, base, trivial, strict=True):
        loss, guessing = losses.get(task.name, (None, None))
        lower = lower_is_better(measured.metric(task))
        ends = None if loss is None else measured.interval(task, "base")
        learnt = formulas.clearly_learnt(ends, guess, lower=lower)
        if lower:
            score, guess = 1.0, 0.0
        reason = formulas.undertrained(score, guess, loss, guessing, learnt=learnt)
        if reason is not None:
            found[task.name] = reason
    return found


def _redrawn(
    measured: HeadOutcomes,
    scores: HeadScores,
    chosen: Sequence[Sequence[Head]],
    alpha: float,
    base: Sequence[float],
    meaningless: dict[int, str],
    redraws: int,
    seed: int,
) -> dict[str, Any] | None:
    if not redraws:
        return None
    names = [task.name for task in measured.tasks]
    heads = [[one.top(alpha, name) for name in names] for one in redrawn(scores, redraws, seed)]
    matrices = [measured.matrix_of(choice) for choice in heads]
    return redrawn_dissociation(matrices, base, chosen, heads, meaningless)


def _null(
    measured: HeadOutcomes,
    chosen: Sequence[Sequence[Head]],
    base: Sequence[float],
    matrix: Sequence[Sequence[float]],
    found: formulas.DissociationScores,
    exchanges: int,
    seed: int,
) -> dict[str, Any] | None:
    """The null distribution of D; None if D is undefined or nothing can be tested."""
    if found.mean is None:
        return None
    intact = np.array(base)[:, None]
    others = [measured.matrix_of(heads) for heads in exchanged(chosen, exchanges, seed)]
    result = null_distribution([np.array(one) / intact for one in (matrix, *others)], seed)
    return None if result["p"] is None and not exchanges else result


def _point(
    measured: HeadOutcomes,
    tasks: Sequence[Named],
    share: float,
    heads: list[list[Head]],
    base: list[float],
) -> dict[str, Any]:
    """One point of the curve."""
    matrix = measured.matrix(share)
    found = formulas.dissociation_scores(matrix, base, undefined=_lower_is_better(measured))
    return {
        "alpha": share,
        "performance": matrix,
        "per_task": found.per_task,
        "mean": found.mean,
        "overlap": formulas.overlap(heads),
    }
