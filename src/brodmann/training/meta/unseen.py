"""Meta-test: learn a pair of task and language that no model was trained on from a few examples.

From every start (not trained at all, plain multi-task training, meta-training) the same SGD steps
as in the inner loop are taken on the same support examples of the pair, and the pair is scored on
its validation split along the way; after 0 steps the score is zero-shot. A pair whose kind of
answer was trained uses that output head; any other gets a new one, the same for every start.

Reference: Gupta et al., "MESH - Multi-head Efficiency in XTREME", Algorithm 3.
"""

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from brodmann.data.batches import Batch
from brodmann.data.draws.episodes import EpisodeSource
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.models.evaluation import evaluate_task
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.task_heads import new_head
from brodmann.training.meta.gradients import adapted
from brodmann.training.meta.trainer import episode_batch, pair_loss

DRAWS_APART = 1_000_003  # distance between the dropout seeds of two draws


class DivergedError(InputError):
    """The weights are no longer finite numbers."""


def nearest(model: MultiTaskModel, task: Task) -> str:
    """The known task whose start a new task takes: one with its output head, its kind, or any."""
    specs = list(model.specs.values())
    for fits in (
        [spec for spec in specs if spec.output_head == task.spec.output_head],
        [spec for spec in specs if spec.kind == task.spec.kind],
        specs,
    ):
        if fits:
            return fits[0].name
    raise InputError("the model has no tasks")


class Adapter:
    """Adapts one start to draws of one pair and scores it, resetting to the start each time."""

    def __init__(
        self, start: MultiTaskModel, task: Task, *, precision: str = "float32", seed: int = 0
    ) -> None:
        self.task, self.precision = task, precision
        self.model = copy.deepcopy(start)
        if task.name not in self.model.specs:
            known = {spec.output_head for spec in self.model.specs.values()}
            self.model.add_task(task, like=nearest(self.model, task))
            if task.spec.output_head not in known:
                fresh = new_head(self.model.config, task.spec, seed, self.model.settings.pooling)
                self.model.head_of(task.name).load_state_dict(fresh.state_dict())
        self.start = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.encoded: dict[str, Encoded] = {
            split: self.model.encode(task.spec, task.splits[split])
            for split in ("train", "validation")
        }

    def curve(
        self, examples: Sequence[int], *, rate: float, at: Sequence[int], seed: int
    ) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield (steps, scores) after each number of steps in `at`."""
        if not at or list(at) != sorted(set(at)) or at[0] < 0:
            raise InputError(f"meta: curve = {list(at)}: expected numbers of steps, rising")
        batch = episode_batch(self.model, self.task, self.encoded["train"], examples)
        trained = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        still = [name for name in trained if name.startswith("gates.")]
        done = 0
        try:
            for steps in at:
                with torch.random.fork_rng():
                    torch.manual_seed(seed * 1000 + done)
                    self.model.train()
                    ends = adapted(
                        self.loss, trained, batch, steps=steps - done, rate=rate, still=still
                    )
                self._put(ends)
                done = steps
                if not all(bool(value.isfinite().all()) for value in ends.values()):
                    raise DivergedError(
                        f"{self.task.name}: adapting at a rate of {rate:g} diverged within {steps} "
                        "steps: give lower 'rates'"
                    )
                yield steps, self._scores()
        finally:
            self._put(self.start)

    def loss(self, parameters: Mapping[str, Tensor], batch: Batch) -> Tensor:
        return pair_loss(self.model, parameters, batch, precision=self.precision)

    def _put(self, values: Mapping[str, Tensor]) -> None:
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, value in values.items():
                own[name].copy_(value)

    def _scores(self) -> dict[str, float]:
        found = evaluate_task(
            self.model,
            self.task.name,
            self.encoded["validation"],
            self.task.splits["validation"],
            precision=self.precision,
        )
        return found.scores


def meta_test(
    starts: Mapping[str, MultiTaskModel],
    task: Task,
    *,
    shots: Sequence[int],
    at: Sequence[int],
    rates: Mapping[str, float],
    draws: int,
    seed: int = 0,
    precision: str = "float32",
    stop: Callable[[], None] | None = None,
    diverged: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Scores of the pair: one row per start, number of shots, draw of the support set and number of
    steps. Every start adapts to the same draws.

    Adaptation that diverges raises a `DivergedError`; if `diverged` is given, it is called instead,
    and the rows have the score None.
    """
    _check(starts, shots, at, rates, draws)
    rows: list[dict[str, Any]] = []
    for name, start in starts.items():
        adapter = Adapter(start, task, precision=precision, seed=seed)
        zero_shot: dict[int, dict[str, float]] = {}  # the same for every draw
        for count, draw in itertools.product(shots, range(draws)):
            if stop is not None:
                stop()
            found = dict(zero_shot)
            left = [steps for steps in at if steps not in found]
            examples = support_of(task, count, seed, draw)
            once = seed + draw * DRAWS_APART
            try:
                for steps, scores in (
                    adapter.curve(examples, rate=rates[name], at=left, seed=once) if left else ()
                ):
                    found[steps] = scores
            except DivergedError as error:
                if diverged is None:
                    raise
                which = f"{name}, seed {seed}" + (f", draw {draw}" if draws > 1 else "")
                diverged(f"{which}: {error}")
            zero_shot = {steps: scores for steps, scores in found.items() if steps == 0}
            for steps in at:
                row: dict[str, Any] = {"pair": task.name, "start": name, "seed": seed}
                row |= {"shots": count, "draw": draw, "steps": steps, "rate": rates[name]}
                scored = found.get(steps, {})
                row |= {"score": scored.get(task.spec.metric), "scores": scored}
                rows.append(row)
    return rows


def _check(
    starts: Mapping[str, Any],
    shots: Sequence[int],
    at: Sequence[int],
    rates: Mapping[str, float],
    draws: int,
) -> None:
    if draws < 1:
        raise InputError(f"meta: draws = {draws}: expected at least 1")
    if not at or list(at) != sorted(set(at)) or at[0] < 0:
        raise InputError(f"meta: curve = {list(at)}: expected numbers of steps, rising")
    if not shots or min(shots) < 1:
        raise InputError(f"meta: shots = {list(shots)}: expected numbers of examples, at least 1")
    missing = next((name for name in starts if name not in rates), None)
    if missing is not None:
        raise InputError(f"meta: rates: none for the start '{missing}'")
    wrong = next((name for name in starts if not rates[name] > 0), None)
    if wrong is not None:
        raise InputError(f"meta: rates: {rates[wrong]} for '{wrong}': expected a number above 0")


def support_of(task: Task, count: int, seed: int, draw: int = 0) -> tuple[int, ...]:
    """The examples of a pair that every start adapts on."""
    name = f"test/{seed}" + (f"/{draw}" if draw else "")
    return EpisodeSource(task, support=count, query=0).draw(name).support
