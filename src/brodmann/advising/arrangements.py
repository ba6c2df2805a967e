"""Arms: ways of arranging the tasks over models, and of training these.

An arrangement is a partition of the tasks into groups, one model per group, with changes of the
settings for groups of several tasks. A task alone always has the plain settings: its own model is
what every gain is measured against. The cells of an arrangement are shared by all arrangements that
have the same group with the same changes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from brodmann.models.encoders import ARCHITECTURES

Group = tuple[str, ...]

# method → changes of the settings, and what it needs: tasks in a group
METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "annealed sampling": {"training.sampling": "annealed"},
    "ca_mtl": {"model.architecture": "ca_mtl"},
    "hmnet": {"model.architecture": "hmnet"},
    "uncertainty sampling": {"training.sampling": "uncertainty"},
    "square-root sampling": {"training.sampling": "sqrt"},
    "iat": {"specialize.delta": 0.1},
    "lora": {"model.lora": {}},
}
RATES = (1.0, 0.5, 2.0)  # times the usual learning rate


@dataclass(frozen=True)
class Arrangement:
    """Which tasks share a model, and how these models are trained."""

    groups: tuple[Group, ...]
    method: str = "plain"
    rate: float = 1.0  # times the usual learning rate, in groups of several tasks
    clusters: tuple[Group, ...] = ()  # for architectures that take them

    @property
    def label(self) -> str:
        shared = [group for group in self.groups if len(group) > 1]
        alone = [group[0] for group in self.groups if len(group) == 1]
        parts = [" + ".join(group) for group in shared]
        if alone and shared:
            parts.append(f"{', '.join(alone)} alone")
        text = "; ".join(parts) if shared else "each task alone"
        how = [self.method] if self.method != "plain" else []
        how += [f"rate × {self.rate:g}"] if self.rate != 1.0 else []
        return text + (f" ({', '.join(how)})" if how else "")

    def changes_of(self, group: Group) -> dict[str, Any]:
        """Changes of the settings for one of its models."""
        if len(group) == 1:
            return {}
        changes = dict(METHODS[self.method])
        if ARCHITECTURES[changes.get("model.architecture", "shared")].takes_clusters:
            own = [[t for t in cluster if t in group] for cluster in self.clusters]
            own = [cluster for cluster in own if cluster]
            changes["model.parameters"] = {"clusters": own if len(own) > 1 else [list(group)]}
        return changes


@dataclass(frozen=True)
class CellKey:
    """One training: a group of tasks, changes of settings, a learning rate and a seed."""

    group: Group
    changes: str = "{}"  # of settings, as JSON: keys of a dict must not change
    rate: float = 1.0
    seed: int = 0
    share: float = 1.0  # of the training examples, for learning curves

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.changes)
        return found


def cells_of_arrangement(one: Arrangement, seed: int) -> list[CellKey]:
    """The trainings of one arrangement and seed."""
    return [
        CellKey(
            group,
            json.dumps(one.changes_of(group), sort_keys=True),
            one.rate if len(group) > 1 else 1.0,
            seed,
        )
        for group in one.groups
    ]


@dataclass
class Sharing:
    """Named partitions that proposals choose from, in the order in which they are tried."""

    partitions: dict[str, tuple[Group, ...]] = field(default_factory=dict)

    def add(self, name: str, groups: Sequence[Sequence[str]]) -> bool:
        """Add a partition unless an equal one is known."""
        own = tuple(tuple(group) for group in groups if group)
        if not own or any(set(own) == set(known) for known in self.partitions.values()):
            return False
        self.partitions[name] = own
        return True


def alone(names: Sequence[str]) -> tuple[Group, ...]:
    return tuple((name,) for name in names)


def with_alone(shared: Sequence[Sequence[str]], names: Sequence[str]) -> list[list[str]]:
    """The groups, and every other task in a group of its own, in the order of the names."""
    inside = {name for group in shared for name in group}
    return [list(group) for group in shared] + [[name] for name in names if name not in inside]
