"""Important attention-head pruning (IAP): each task's top heads off, every task scored.

For every task its K = floor(α · heads) most important heads, over all layers together; then r draws
of K random heads by the same rule. What comes out is the matrix of scores, D with a bootstrap
interval over validation examples (from the outcomes already measured: no further forward pass), and
a test against the random draws. Formulas: `analysis/dissociation.py`.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §4.1.
Departures: the published code keeps one head per layer in its random draws only; here they follow
the same rule as the ranking, or the baseline would not be fair.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis import dissociation as formulas
from brodmann.analysis.statistics import (
    bootstrap_weights,
    percentile_interval,
    random_draw_p_value,
)
from brodmann.artifacts import Array, write_arrays
from brodmann.data.kinds import trivial_score
from brodmann.data.outcomes import outcomes, resampled_scores
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.results import LOWER_IS_BETTER, Dissociation, Head, HeadScores, share_of

LEVEL = 0.95
MOST_DRAWS = 10_000  # each reads every example once more
FEWEST_DEFINED = 0.95  # share of the resamples in which a D must exist to have an interval
Progress = Callable[[int], None]


def dissociation(
    model: Any,
    tasks: Sequence[Task],
    scores: HeadScores,
    *,
    alpha: float = 0.3,
    curve: Sequence[float] = (),
    draws: int = 20,
    resamples: int = 2000,
    split: str = "validation",
    seed: int = 0,
    batch_size: int = 64,
    precision: str = "float32",
    progress: Progress | None = None,
    outcomes_file: str | Path | None = None,
) -> Dissociation:
    """Scores of every task with every task's top heads off, and what follows from them.

    `curve` lists further shares to measure; `draws` random choices of as many heads are the
    baseline; `outcomes_file` keeps what every example contributed (an .npz) for later resampling.
    """
    _check(model, tasks, scores, split, draws, resamples)
    measured = _Measured(model, tasks, split, batch_size, precision, progress)
    chosen = {share: _chosen(scores, tasks, share) for share in sorted({alpha, *curve})}
    measured.add("base", [])
    for share, heads in chosen.items():
        for task, off in zip(tasks, heads, strict=True):
            measured.add(f"{share}/{task.name}", off)
    for draw, off in enumerate(random_heads(scores, alpha, draws, seed)):
        measured.add(f"random/{draw}", off)
    if outcomes_file is not None:
        measured.save(Path(outcomes_file))

    base = [measured.score(task, "base") for task in tasks]
    matrix = measured.matrix(alpha)
    meaningless = _lower_is_better(tasks)
    found = formulas.dissociation_scores(matrix, base, undefined=meaningless)
    layers = formulas.heads_per_layer(chosen[alpha], scores.shape[0])
    random = [[measured.score(t, f"random/{draw}") for draw in range(draws)] for t in tasks]
    trivial = [trivial_score(task, split) for task in tasks]
    weak = {
        task.name: reason
        for task, score, guess in zip(tasks, base, trivial, strict=True)
        if task.spec.metric not in LOWER_IS_BETTER
        and (reason := formulas.undertrained(score, guess)) is not None
    }
    return Dissociation(
        tasks=[task.name for task in tasks],
        metrics=[task.spec.metric for task in tasks],
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
        intervals=_intervals(measured, tasks, alpha, found, resamples, seed),
        p_values=[
            None if d is None else random_draw_p_value(matrix[i][i], np.array(random[i]))
            for i, d in enumerate(found.per_task)
        ],
        overlap=formulas.overlap(chosen[alpha]),
        heads_per_layer=layers,
        layer_spread=np.std(layers, axis=0).tolist(),
        undefined={tasks[i].name: reason for i, reason in found.undefined.items()},
        undertrained=weak,
        curve=[_point(measured, tasks, share, heads, base) for share, heads in chosen.items()],
        settings={
            "importance": scores.settings,
            "shape": list(scores.shape),
            "architecture": model.settings.architecture,
            "split": split,
            "examples": {task.name: len(task.splits[split]) for task in tasks},
            "draws": draws,
            "resamples": resamples,
            "seed": seed,
            "precision": precision,
        },
    )


def forward_passes(tasks: int, shares: int, draws: int) -> int:
    """How often every task's examples are read."""
    return 1 + tasks * shares + draws


def _check(
    model: Any, tasks: Sequence[Task], scores: HeadScores, split: str, draws: int, resamples: int
) -> None:
    from brodmann.models.families import head_shape
    from brodmann.models.trained_gates import gone_heads

    if len(tasks) < 2:
        raise InputError("dissociation needs at least two tasks")
    if resamples < 0:
        raise InputError(f"resamples = {resamples}: expected 0 or more")
    here = set(np.ndindex(head_shape(model.bare_models()[0]))) - set(gone_heads(model))
    if head_shape(model.bare_models()[0]) != scores.shape or here != set(scores.ranking()):
        raise InputError(
            "the scores were measured on a model with other heads: measure importance again"
        )
    if not 0 <= draws <= MOST_DRAWS:
        raise InputError(f"draws = {draws}: expected 0 to {MOST_DRAWS:,} (20 for a test)")
    for task in tasks:
        scores.of(task.name)
        if split not in task.splits:
            raise InputError(f"task '{task.name}' has no split '{split}'")


def _chosen(scores: HeadScores, tasks: Sequence[Task], share: float) -> list[list[Head]]:
    if share_of(share, scores.heads) < 1:
        raise InputError(f"alpha = {share} of {scores.heads} heads is less than one head")
    return [scores.top(share, task.name) for task in tasks]


def random_heads(scores: HeadScores, alpha: float, draws: int, seed: int) -> list[list[Head]]:
    """Draws of as many heads as a task's top ones, over all layers together."""
    generator = np.random.default_rng(seed)
    every = sorted(scores.ranking())
    count = share_of(alpha, len(every))
    return [
        [every[int(place)] for place in sorted(generator.choice(len(every), count, replace=False))]
        for _ in range(draws)
    ]


class _Measured:
    """Every task's outcomes under every choice of heads, each choice measured once."""

    def __init__(
        self,
        model: Any,
        tasks: Sequence[Task],
        split: str,
        batch_size: int,
        precision: str,
        progress: Progress | None,
    ) -> None:
        self.model, self.tasks, self.split = model, tasks, split
        self.options: dict[str, Any] = {
            "batch_size": batch_size,
            "precision": precision,
            "progress": progress,
        }
        self.encoded = {t.name: model.encode(t.spec, t.splits[split]) for t in tasks}
        self.found: dict[tuple[str, tuple[Head, ...]], Array] = {}
        self.choices: dict[str, tuple[Head, ...]] = {}

    def add(self, name: str, off: Sequence[Head]) -> None:
        from brodmann.models.evaluate import evaluate_task
        from brodmann.models.gates import head_gates

        self.choices[name] = tuple(off)
        for task in self.tasks:
            key = (task.name, tuple(off))
            if key in self.found:  # two tasks with the same heads
                continue
            examples, encoded = task.splits[self.split], self.encoded[task.name]
            with head_gates(self.model, off=off):
                result = evaluate_task(self.model, task.name, encoded, examples, **self.options)
            self.found[key] = outcomes(result.predictions, examples, task.spec)

    def outcomes_of(self, task: Task, choice: str) -> Array:
        return self.found[task.name, self.choices[choice]]

    def score(self, task: Task, choice: str, weights: Array | None = None) -> Any:
        values = self.outcomes_of(task, choice)
        if weights is not None:
            return resampled_scores(values, weights, task.spec)
        return float(resampled_scores(values, np.ones((1, len(values))), task.spec)[0])

    def matrix(self, share: float) -> list[list[float]]:
        return [[self.score(i, f"{share}/{j.name}") for j in self.tasks] for i in self.tasks]

    def save(self, path: Path) -> None:
        arrays = {
            f"{task.name}|{choice}": self.outcomes_of(task, choice).astype(np.float32)
            for task in self.tasks
            for choice in self.choices
        }
        write_arrays(path, arrays)


def _lower_is_better(tasks: Sequence[Task]) -> dict[int, str]:
    """A ratio of errors grows with damage: no dissociation from such a metric."""
    return {
        i: f"lower is better for its metric {task.spec.metric}"
        for i, task in enumerate(tasks)
        if task.spec.metric in LOWER_IS_BETTER
    }


def _intervals(
    measured: _Measured,
    tasks: Sequence[Task],
    alpha: float,
    found: formulas.DissociationScores,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """Percentile intervals over validation examples; the same draw for all choices of heads."""
    count = len(tasks)
    pairwise: list[list[Any]] = [[None] * count for _ in tasks]
    drawn_d: list[Array | None] = []
    for i, task in enumerate(tasks):
        if found.per_task[i] is None or not resamples:
            drawn_d.append(None)
            continue
        units = len(measured.outcomes_of(task, "base"))
        weights = bootstrap_weights(units, resamples, seed + i)
        base = measured.score(task, "base", weights)
        base = np.where(base > 0, base, np.nan)
        relative = [measured.score(task, f"{alpha}/{j.name}", weights) / base for j in tasks]
        against = [relative[j] - relative[i] for j in range(count)]
        for j in range(count):
            if j != i:
                pairwise[i][j] = _interval(against[j])
        drawn_d.append(np.mean([against[j] for j in range(count) if j != i], axis=0))
    defined = [values for values in drawn_d if values is not None]
    mean = None if not defined else _interval(np.mean(defined, axis=0))
    per_task = [None if values is None else _interval(values) for values in drawn_d]
    return {"level": LEVEL, "per_task": per_task, "mean": mean, "pairwise": pairwise}


def _interval(values: Array) -> list[float] | None:
    defined = values[np.isfinite(values)]
    if len(defined) < FEWEST_DEFINED * len(values):
        return None
    return list(percentile_interval(defined, LEVEL))


def _point(
    measured: _Measured,
    tasks: Sequence[Task],
    share: float,
    heads: list[list[Head]],
    base: list[float],
) -> dict[str, Any]:
    """One share of the curve."""
    matrix = measured.matrix(share)
    found = formulas.dissociation_scores(matrix, base, undefined=_lower_is_better(tasks))
    return {
        "alpha": share,
        "performance": matrix,
        "per_task": found.per_task,
        "mean": found.mean,
        "overlap": formulas.overlap(heads),
    }
