"""Episodes of meta-learning: a few examples of a task to adapt to, and others to evaluate on.

Support and query never share an example, nor two examples with the same texts; in tasks over two
texts they do not even share the first one (the premise of a pair, the context of a question), as
long as that leaves enough examples to evaluate on (`note` says if not). Classes are drawn equally
often. An episode depends only on the seed, the step and the task, so an interrupted run draws the
same ones again.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import digest


@dataclass(frozen=True)
class Episode:
    """Indices of examples in the task's training split."""

    task: str
    support: tuple[int, ...]
    query: tuple[int, ...]


class EpisodeSource:
    """Draws episodes of one task."""

    def __init__(self, task: Task, *, support: int, query: int) -> None:
        self.name, self.support, self.query = task.name, support, query
        examples, kind = task.splits["train"], KINDS[task.spec.kind]
        classes: Sequence[Any] = [0] * len(examples)
        if task.spec.kind == "classification":
            classes = kind.strata(examples, task.spec)
        self.members: dict[Any, list[int]] = {}
        self.first: dict[int, str] = {}  # index → first text, if support and query share none
        self.note = ""
        seen: set[str] = set()
        for place, (example, label) in enumerate(zip(examples, classes, strict=True)):
            texts = digest({k: v for k, v in example.items() if k not in kind.TARGETS})
            if texts not in seen:
                seen.add(texts)
                self.members.setdefault(label, []).append(place)
        if len(seen) < support + query:
            raise InputError(
                f"task '{task.name}': {len(seen)} different training examples are too few for "
                f"{support} to adapt to and {query} to evaluate on"
            )

        role = "context" if task.spec.kind == "span" else "text" if task.spec.pair else ""
        if not role or not query:
            return
        chosen = [place for places in self.members.values() for place in places]
        texts_of = {place: str(examples[place][role]) for place in chosen}
        largest = Counter(texts_of.values()).most_common(support)
        if len(chosen) - sum(count for _, count in largest) >= query:
            self.first = texts_of
        else:
            what = "contexts" if role == "context" else "first texts"
            count = len(set(texts_of.values()))
            self.note = (
                f"{task.name}: {len(chosen)} examples over {count} {what} are too few to keep "
                f"{what} apart: one may be among those to adapt to and those to evaluate on"
            )

    def draw(self, key: str) -> Episode:
        """The episode for this key, for example "seed/step"."""
        generator = random.Random(f"episode/{self.name}/{key}")
        queues = [
            generator.sample(self.members[label], len(self.members[label]))
            for label in sorted(self.members, key=str)
        ]
        support = _balanced(queues, self.support, generator)
        if self.first:
            used = {self.first[place] for place in support}
            queues = [[p for p in queue if self.first[p] not in used] for queue in queues]
        return Episode(self.name, support, _balanced(queues, self.query, generator))


def _balanced(queues: list[list[int]], count: int, generator: random.Random) -> tuple[int, ...]:
    """Take one of each class in turn, in random order of classes, off the queues."""
    chosen: list[int] = []
    while len(chosen) < count:
        for queue in generator.sample(queues, len(queues)):
            if queue and len(chosen) < count:
                chosen.append(queue.pop())
    return tuple(chosen)
