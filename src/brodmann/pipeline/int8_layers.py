"""Choose the layers of a package that can be in int8 without losing more than is allowed.

All layers are tried first. If a task loses more than the tolerance, each layer is quantised alone,
its damage is how far that moves the outputs, and layers return to float32 in the order of their
damage, the worst first. The smallest number that suffices is found by bisection, which supposes
that a further layer in float32 does not make a task worse.
"""

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.rules import Rules
from brodmann.data.encoding import Encoded
from brodmann.errors import InputError, note
from brodmann.files import Array
from brodmann.pipeline.package_parity import BATCH, Trial, compare
from brodmann.runtime.onnx_reader import OnnxReader, open_graph

if TYPE_CHECKING:
    from brodmann.models.onnx_graphs import Graph

TOLERANCE = 1.0  # points
ROUNDING = 1e-6  # of points: three of 300 examples are exactly one
SAMPLE = 32  # examples per task, on which the damage of single layers is measured


@dataclass(frozen=True)
class Chosen:
    """A graph in int8, and the layers of it that stayed in float32, the most sensitive first."""

    graph: "Graph"
    layers: int
    kept: list[str]
    damage: dict[str, float] = field(default_factory=dict)  # of each layer, if it was measured

    def document(self) -> dict[str, Any]:
        return {"layers": self.layers, "float_layers": self.kept, "damage": self.damage}


class Bench:
    """One graph of a package, of which forms with other int8 layers are tried on its tasks."""

    def __init__(
        self,
        graph: "Graph",
        reader: OnnxReader,
        trials: Sequence[Trial],
        rules: Mapping[str, Rules],
        scratch: Path,
    ) -> None:
        self.graph, self.reader, self.rules, self.scratch = graph, reader, rules, scratch
        self.trials = [trial for trial in trials if trial.spec.name in graph.tasks]
        self.tried = 0

    @property
    def path(self) -> Path:
        """The form tried last; each has files of its own, since an open one is still read."""
        return self.scratch / str(self.tried) / self.graph.file

    def with_int8(self, layers: Collection[str]) -> OnnxReader:
        """The package with only these layers in int8."""
        from brodmann.models.quantisation import quantise

        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.tried += 1
        self.path.parent.mkdir(parents=True)
        quantise(self.reader.folder / self.graph.file, self.path, layers)
        return self.reader.using(self.graph.file, open_graph(self.path, self.reader.threads))

    def losses(self, layers: Collection[str]) -> dict[str, float]:
        """The points that every judged task loses with these layers in int8."""
        reader = self.with_int8(layers)
        judged = [trial for trial in self.trials if trial.judged]
        return {t.spec.name: compare(t, reader, self.rules)["points_lost"] for t in judged}

    def damage(self, layer: str) -> float:
        """How far the outputs move by quantising one layer, in their standard deviation."""
        reader, found = self.with_int8([layer]), []
        for trial in self.trials:
            few = trial.encoded.only(np.arange(min(SAMPLE, len(trial.examples))))
            before, after = (_outputs(used, few, trial) for used in (self.reader, reader))
            found.append(float(np.sqrt(np.mean((after - before) ** 2)) / (before.std() + 1e-9)))
        return max(found)


def _outputs(reader: OnnxReader, encoded: Encoded, trial: Trial) -> Array:
    """All outputs of one task, one after the other."""
    name = trial.spec.name
    outputs = reader.read(encoded, [name], batch_size=BATCH)[name].outputs
    return np.concatenate([np.ravel(values) for values in outputs])


def choose_int8(bench: Bench, tolerance: float) -> Chosen:
    """The graph with as many layers in int8 as the tolerance allows; InputError if it is none."""
    from brodmann.models.quantisation import layers_of_graph, read_graph

    layers = layers_of_graph(bench.graph)
    kept: list[str] = []
    damage: dict[str, float] = {}
    lost = bench.losses(layers)
    if (worst := _worst(lost, tolerance)) is not None:
        note(
            f"int8: task '{worst}' loses {lost[worst]:.1f} points with all {len(layers)} layers in "
            f"int8 (tolerance {tolerance:g}): looking for layers to keep in float32"
        )
        damage = {layer: bench.damage(layer) for layer in layers}
        order = sorted(layers, key=lambda layer: -damage[layer])
        kept = order[: _fewest(bench, order, tolerance)]
    bench.with_int8([layer for layer in layers if layer not in kept])
    return Chosen(read_graph(bench.graph, bench.path), len(layers), kept, damage)


def _fewest(bench: Bench, order: Sequence[str], tolerance: float) -> int:
    """How many layers, from the start of `order`, have to stay in float32."""
    enough, too_few = len(order), 0
    lost: dict[str, float] = {}
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        found = bench.losses(order[middle:])
        if _worst(found, tolerance) is None:
            enough = middle
        else:
            too_few, lost = middle, found
    if enough == len(order):
        worst = _worst(lost or bench.losses(order[-1:]), tolerance)
        raise InputError(
            f"int8: task '{worst}' loses more than {tolerance:g} points whichever layers stay in "
            "float32: allow more with --tolerance, or export without --int8"
        )
    return enough


def _worst(lost: Mapping[str, float], tolerance: float) -> str | None:
    """The task that loses most, if that is more than the tolerance."""
    worst = max(lost, key=lambda name: lost[name], default=None)
    return worst if worst is not None and lost[worst] > tolerance + ROUNDING else None
