"""Few-shot transfer: train a new task from trained models on few examples, many times.

Every training starts from the same encoder with a new output head; the sample of examples depends
on the seed alone, so that all starting points learn from the same ones. Classes are drawn equally
often if the number of examples allows. The model is loaded once and reset in place, and texts are
tokenised once, so a training costs little more than its steps.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §6.3 and Table 6 (4 to 100 examples, 20 epochs, 30 seeds);
Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning", Table 3 (shares of the data).
Departures: the paper does not say how examples are drawn, what the output head is or how large a
batch is; here classes are balanced, the head is new, and a batch has min(32, k) examples. The units
of a regression and balanced class weights are those of the whole training split.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.task_heads import new_head
from brodmann.results import share_of
from brodmann.text import percentage
from brodmann.training.fit import fit

LARGEST_BATCH = 32


@dataclass(frozen=True)
class Amount:
    """An amount of training data: a number of examples, or a share of them."""

    examples: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.examples is None) == (self.share is None):
            raise InputError("an amount is a number of examples or a share of the data")

    def of(self, available: int) -> int:
        count = self.examples if self.share is None else share_of(self.share, available)
        assert count is not None
        if not 1 <= count <= available:
            raise InputError(f"{self}: {count} of {available} training examples cannot be drawn")
        return count

    def __str__(self) -> str:
        return f"{self.examples}" if self.share is None else percentage(self.share)


def transfer(
    starts: Mapping[str, MultiTaskModel],
    task: Task,
    amounts: Sequence[Amount],
    seeds: Sequence[int],
    *,
    epochs: int,
    learning_rate: float,
    precision: str = "float32",
    max_length: int | None = None,
    done: Collection[tuple[str, str, int]] = (),
    stop: Callable[[], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield one row per training: start, amount, seed and the scores on the validation split.

    `seeds[i]` is the number of seeds for `amounts[i]`; `done` lists (start, amount, seed) to skip.
    """
    wanted = [
        (amount, seed)
        for amount, count in zip(amounts, seeds, strict=True)
        for seed in range(count)
    ]
    for amount in amounts:
        amount.of(len(task.splits["train"]))
    for name, source in starts.items():
        left = [(a, seed) for a, seed in wanted if (name, str(a), seed) not in done]
        if not left:
            continue
        learner = _Learner(source, task, max_length)
        for amount, seed in left:
            if stop is not None:
                stop()
            places = draw(task, amount, seed)
            scores = learner.learn(places, seed, epochs, learning_rate, precision)
            yield {
                "task": task.name,
                "start": name,
                "amount": str(amount),
                "examples": len(places),
                "seed": seed,
                "score": scores[task.spec.metric],
                "scores": scores,
            }


def draw(task: Task, amount: Amount, seed: int) -> list[int]:
    """Indices of the drawn training examples: the same for every starting point.

    A number of examples is balanced over the classes; a share keeps their proportions.
    """
    examples = task.splits["train"]
    count = amount.of(len(examples))
    generator = random.Random(f"transfer/{task.name}/{amount}/{seed}")
    if task.spec.kind != "classification":
        return sorted(generator.sample(range(len(examples)), count))
    members: dict[Any, list[int]] = {}
    for place, label in enumerate(KINDS[task.spec.kind].strata(examples, task.spec)):
        members.setdefault(label, []).append(place)
    queues = [generator.sample(members[label], len(members[label])) for label in sorted(members)]
    if amount.share is not None:
        quotas = _in_proportion([len(queue) for queue in queues], count)
        return sorted(
            place for q, number in zip(queues, quotas, strict=True) for place in q[:number]
        )
    chosen: list[int] = []
    while len(chosen) < count:  # one of each class in turn, in random order
        for queue in generator.sample(queues, len(queues)):
            if queue and len(chosen) < count:
                chosen.append(queue.pop())
    return sorted(chosen)


def _in_proportion(sizes: list[int], count: int) -> list[int]:
    exact = np.array(sizes) * count / sum(sizes)
    quotas = np.floor(exact).astype(int)
    for place in np.argsort(-(exact - quotas), kind="stable")[: count - int(quotas.sum())]:
        quotas[place] += 1
    return [int(quota) for quota in quotas]


class _Learner:
    """A model for the new task on a trained encoder, reset to its start for every draw."""

    def __init__(self, source: MultiTaskModel, task: Task, max_length: int | None) -> None:
        self.task = task
        self.model = source.for_tasks([task], max_length=max_length)
        self.start: dict[str, Tensor] = {  # the encoder, and its gates if it has any
            name: value.detach().clone()
            for name, value in self.model.state_dict().items()
            if not name.startswith("heads.")
        }
        self.encoded = {
            split: self.model.encode(task.spec, task.splits[split])
            for split in ("train", "validation")
        }

    def learn(
        self, places: Sequence[int], seed: int, epochs: int, learning_rate: float, precision: str
    ) -> dict[str, float]:
        name, spec = self.task.name, self.task.spec
        self.model.load_state_dict(self.start, strict=False)
        fresh = new_head(self.model.config, spec, seed, self.model.settings.pooling)
        self.model.head_of(name).load_state_dict(fresh.state_dict())
        train = [self.task.splits["train"][place] for place in places]
        few = replace(self.task, splits={**self.task.splits, "train": train})
        progress = fit(
            self.model,
            [few],
            epochs=epochs,
            batch_size=min(LARGEST_BATCH, len(places)),
            learning_rate=learning_rate,
            precision=precision,
            evaluate_every=10**9,  # only at the end
            keep="last",
            seed=seed,
            encoded={
                "train": {name: self.encoded["train"].only(np.asarray(places))},
                "validation": {name: self.encoded["validation"]},
            },
        )
        scores: dict[str, float] = progress.evaluations[-1]["scores"][name]
        return scores
