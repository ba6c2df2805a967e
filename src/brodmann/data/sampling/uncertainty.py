r"""`uncertainty`: train on those candidates of all tasks that the model is least sure about.

In every step, $b$ candidates of each of the $T$ tasks are read by the current model; the $b$ most
uncertain of the $b \cdot T$ form the batch. With $H(x)$ the entropy of the answer and $H'(x)$ that
of a uniform one (the logarithm of the number of choices), $u = H / H'$ and

$$U(x_i) = u(x_i)\, \frac{\bar u_i}{\max_t \bar u_t} \quad (\text{`published`}), \qquad
  U(x_i) = \frac{H(x_i)}{\hat H\, H'(x_i)},\ \hat H = \max_t \bar H_t \quad (\text{`paper`})$$

where a bar is the mean over a task's candidates. The paper's formula divides all candidates by the
same $\hat H$, so it cannot favour uncertain tasks as its text says; that of the published code can,
and is the default. Regression has no entropy: such a task gets $\lfloor b/T \rfloor$ slots (at
least one; if there is a single slot, it takes turns with the others). If no task has an entropy,
slots left over by the division are assigned in turn.

Reference: Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning", §2.2, Algorithm 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.data.sampling.stream import BatchStream, Draw, Entropies, Feedback, no_feedback
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array

FORMULAS = ("published", "paper")


def uncertainties(found: Sequence[Entropies], formula: str = "published") -> list[Array | None]:
    """U of every candidate, task by task."""
    check_formula(formula)
    shares = [None if one is None else share_of_uniform(one) for one in found]
    if formula == "paper":
        means = [float(np.mean(one[0])) for one in found if one is not None and len(one[0])]
        largest = max(means, default=0.0) or 1.0
        return [None if share is None else share / largest for share in shares]
    averages = [0.0 if share is None or not len(share) else float(share.mean()) for share in shares]
    largest = max(averages) or 1.0
    return [
        None if share is None else share * (average / largest)
        for share, average in zip(shares, averages, strict=True)
    ]


def share_of_uniform(one: tuple[Array, Array]) -> Array:
    """u = H / H'; 0 if there is nothing to choose."""
    return np.divide(one[0], one[1], where=one[1] > 0, out=np.zeros(len(one[0])))


def chosen(
    found: Sequence[Entropies],
    counts: Sequence[int],
    budget: int,
    formula: str = "published",
    turn: int = 0,
) -> list[Array]:
    """Indices among each task's candidates that form the batch; ties go to earlier candidates.

    Tasks without an entropy take candidates spread over all of them, starting at a different
    position each `turn`. They never take the last slot from the others, unless there is only one
    slot: then they take turns.
    """
    tasks = len(found)
    scores = uncertainties(found, formula)
    scored = [task for task, score in enumerate(scores) if score is not None]
    places = [np.arange(0)] * tasks
    unscored = [task for task in range(tasks) if task not in scored]
    first = turn % len(unscored) if unscored else 0
    order = [*unscored[first:], *unscored[:first]]
    if not scored:
        kept = 0
    elif budget > 1:
        kept = 1
    else:
        kept = int(turn % (len(unscored) + 1) == len(unscored))
    takes = _quotas(order, counts, max(1, budget // tasks), budget - kept, fill=not scored)
    for task, take in takes.items():
        spread = np.arange(take) * counts[task] // max(take, 1) + turn
        places[task] = np.sort(spread % counts[task])
    left = budget - sum(takes.values())
    if scored:
        owner = np.concatenate([np.full(counts[task], task) for task in scored])
        place = np.concatenate([np.arange(counts[task]) for task in scored])
        every = np.concatenate([scores[task] for task in scored])
        best = np.argsort(-every, kind="stable")[:left]
        for task in scored:
            places[task] = np.sort(place[best[owner[best] == task]])
    return places


def _quotas(
    order: Sequence[int], counts: Sequence[int], quota: int, room: int, *, fill: bool
) -> dict[int, int]:
    """Slots of the tasks without an entropy; with `fill`, one more in turn until all are used."""
    takes: dict[int, int] = {}
    for task in order:
        takes[task] = min(quota, counts[task], room)
        room -= takes[task]
    while fill and room and any(takes[task] < counts[task] for task in order):
        for task in order:
            if room and takes[task] < counts[task]:
                takes[task] += 1
                room -= 1
    return takes


def in_order(shares: Sequence[Sequence[Entropies]], candidates: Sequence[Array]) -> list[Entropies]:
    """Merge the entropies that each process computed, in candidate order."""
    world = len(shares)
    found: list[Entropies] = []
    for task, items in enumerate(candidates):
        if shares[0][task] is None:
            found.append(None)
            continue
        both = np.zeros((2, len(items)))
        for rank, share in enumerate(shares):
            one = share[task]
            assert one is not None
            both[:, rank::world] = one
        found.append((both[0], both[1]))
    return found


def check_formula(formula: Any = "published") -> None:
    if formula not in FORMULAS:
        raise InputError(
            f"sampler 'uncertainty': formula = {formula!r}{did_you_mean(str(formula), FORMULAS)}"
        )


class UncertaintyStream(BatchStream):
    """Candidates of every task, and the choice among them.

    They are drawn at random regardless of `bucketing`: otherwise the most uncertain would be chosen
    among texts of the same length.
    """

    def __init__(
        self, lengths: Sequence[Array], *, formula: str = "published", **options: Any
    ) -> None:
        self.formula = formula
        super().__init__(lengths, **{**options, "bucketing": False})
        self.used = [np.zeros(len(items), dtype=bool) for items in self.lengths]
        self.entropy = [[0.0, 0.0] for _ in self.lengths]  # sum and number since the last log line

    def next(self, feedback: Feedback = no_feedback) -> Draw:
        epoch = self.drawn // self.batches_per_epoch
        items = self.candidates()
        picked = self.choose(items, feedback(items))
        return Draw({task: own for task, own in enumerate(picked) if len(own)}, epoch + 1)

    def candidates(self) -> list[Array]:
        """The next batch of every task."""
        self.drawn += 1
        return [self.take(task) for task in range(len(self.lengths))]

    def choose(self, items: Sequence[Array], found: Sequence[Entropies]) -> list[Array]:
        """The items that form the batch, task by task."""
        counts = [len(own) for own in items]
        places = chosen(found, counts, self.batch_size, self.formula, turn=self.drawn)
        picked = [own[at] for own, at in zip(items, places, strict=True)]
        for task, own in enumerate(picked):
            self.used[task][own] = True
            one = found[task]
            if one is not None:
                self.entropy[task][0] += float(share_of_uniform(one).sum())
                self.entropy[task][1] += len(one[0])
        return picked

    def log_facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Mean u of each task's candidates since the last line; the share of each task's data used,
        and of all data (distinct examples / all)."""
        facts = {
            "entropy": {
                name: total / number
                for name, (total, number) in zip(names, self.entropy, strict=True)
                if number
            },
            "used": {name: float(used.mean()) for name, used in zip(names, self.used, strict=True)},
            "used_of_all": float(np.concatenate(self.used).mean()),
        }
        self.entropy = [[0.0, 0.0] for _ in self.lengths]
        return facts

    def state(self) -> dict[str, Any]:
        used = [np.packbits(one).tobytes().hex() for one in self.used]
        return {**super().state(), "used": used, "entropy": self.entropy}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for place, text in enumerate(state["used"]):
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8))
            self.used[place] = bits[: len(self.lengths[place])].astype(bool)
        self.entropy = [list(pair) for pair in state["entropy"]]
