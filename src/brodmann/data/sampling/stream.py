"""The order of training: one stream of batches from seed, sizes, lengths and progress.

Every process computes the same stream and takes its share of each batch, so that processes need not
communicate. The state is a few integers; everything else is drawn again from the seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.files import Array

Entropies = tuple[Array, Array] | None  # (H, H') of a task's candidates; None: it has none
# The model's current uncertainty about candidates, task by task, which a sampler may ask for.
Feedback = Callable[[Sequence[Array]], Sequence[Entropies]]
Probabilities = Callable[[Sequence[int], int, int], Array]  # (sizes, epoch, epochs) → p of tasks

# Batches sorted by length together: enough that rows of a batch have similar length, few enough
# that the order stays random.
BUCKET_BATCHES = 50


@dataclass(frozen=True)
class Draw:
    """One batch: the items of each task in it, and the epoch (from 1) it belongs to."""

    items: dict[int, Array]
    epoch: int


def no_feedback(candidates: Sequence[Array]) -> Sequence[Entropies]:
    """Feedback for samplers that never ask for it."""
    raise NotImplementedError("this stream has no model to ask")


class BatchStream:
    """`next(feedback)` yields batches, here each from one task that `probabilities` draws.

    An epoch has the same number of batches under every sampler.
    """

    def __init__(
        self,
        lengths: Sequence[Array],
        *,
        batch_size: int,
        epochs: int,
        seed: int,
        bucketing: bool = True,
        probabilities: Probabilities | None = None,
    ) -> None:
        self.lengths = list(lengths)
        self.batch_size = batch_size
        self.epochs = epochs
        self.seed = seed
        self.bucketing = bucketing
        self.probabilities = probabilities
        self.batches = [-(-len(items) // batch_size) for items in lengths]  # rounded up
        self.batches_per_epoch = sum(self.batches)
        self.drawn = 0  # batches given so far
        self.passes = [0] * len(lengths)  # how often each task's examples were reshuffled
        self.places = [0] * len(lengths)  # batches given of the current pass
        self._order: tuple[int, Array] | None = None  # (epoch, task of each of its batches)
        self._walks: list[tuple[int, list[Array]] | None] = [None] * len(lengths)

    def __len__(self) -> int:
        return self.epochs * self.batches_per_epoch

    def state(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "passes": list(self.passes), "places": list(self.places)}

    def restore(self, state: dict[str, Any]) -> None:
        self.drawn = state["drawn"]
        self.passes, self.places = list(state["passes"]), list(state["places"])
        self._order, self._walks = None, [None] * len(self.lengths)

    def next(self, feedback: Feedback = no_feedback) -> Draw:
        """The next batch; `feedback` is for samplers that choose by the model's uncertainty."""
        epoch, place = divmod(self.drawn, self.batches_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, self._task_order(epoch))
        task = int(self._order[1][place])
        self.drawn += 1
        return Draw({task: self.take(task)}, epoch + 1)

    def take(self, task: int) -> Array:
        """The next batch of a task's pass; after the last, a new pass starts in another order."""
        if self.places[task] == self.batches[task]:
            self.passes[task] += 1
            self.places[task] = 0
        walk = self._walks[task]
        if walk is None or walk[0] != self.passes[task]:
            walk = self._walks[task] = (self.passes[task], self._walk(task, self.passes[task]))
        items = walk[1][self.places[task]]
        self.places[task] += 1
        return items

    def log_facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Share of each task's examples used so far, and of all of them together."""
        counts = [self._given(task) for task in range(len(self.lengths))]
        sizes = [len(items) for items in self.lengths]
        shares = (count / size for count, size in zip(counts, sizes, strict=True))
        return {
            "used": dict(zip(names, shares, strict=True)),
            "used_of_all": sum(counts) / sum(sizes),
        }

    def _given(self, task: int) -> int:
        """Number of distinct examples of a task in the batches so far."""
        if self.passes[task] or not self.places[task]:
            return len(self.lengths[task]) if self.passes[task] else 0
        walk = self._walks[task] or (0, self._walk(task, 0))
        return sum(len(items) for items in walk[1][: self.places[task]])

    def _task_order(self, epoch: int) -> Array:
        """The task of each batch of an epoch."""
        assert self.probabilities is not None
        sizes = [len(items) for items in self.lengths]
        return self._generator(epoch).choice(
            len(sizes),
            size=self.batches_per_epoch,
            p=self.probabilities(sizes, epoch + 1, self.epochs),
        )

    def _generator(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 1, epoch])

    def _walk(self, task: int, number: int) -> list[Array]:
        """One pass over a task's items: shuffled, bucketed by length, with the batches shuffled."""
        generator = np.random.default_rng([self.seed, 2, task, number])
        items = generator.permutation(len(self.lengths[task]))
        if self.bucketing:
            # At least four chunks per pass: with one, every pass would make the same batches.
            together = max(1, min(BUCKET_BATCHES, self.batches[task] // 4))
            chunk = together * self.batch_size
            for start in range(0, len(items), chunk):
                part = items[start : start + chunk]
                items[start : start + chunk] = part[
                    np.argsort(self.lengths[task][part], kind="stable")
                ]
        batches = [
            items[start : start + self.batch_size]
            for start in range(0, len(items), self.batch_size)
        ]
        return [batches[index] for index in generator.permutation(len(batches))]


class WholeEpochs(BatchStream):
    """Every example exactly once per epoch."""

    def _task_order(self, epoch: int) -> Array:
        order = np.repeat(np.arange(len(self.batches)), self.batches)
        return self._generator(epoch).permutation(order)
