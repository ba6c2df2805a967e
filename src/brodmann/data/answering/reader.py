"""What a model in any form has to do so that texts can be answered: encode and read.

`Gathered` puts what was read in batches back into the order of the texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from brodmann.data.answering.rules import Rules
from brodmann.data.batches import without_padding
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


@dataclass
class Reading:
    """What a model computed for one task, one entry per item of the encoded texts."""

    outputs: list[Array]  # logits without padding, as `Kind.predict` takes them
    states: Array  # (item, width) the mean of the middle layer over the real tokens


class Reader(Protocol):
    """A trained model: in torch, as ONNX graphs, or on a server."""

    @property
    def specs(self) -> Mapping[str, TaskSpec]:
        """The tasks by name, in the order in which they are answered."""

    @property
    def rules(self) -> Mapping[str, Rules]:
        """What was fitted after training, for the tasks that have it."""

    @property
    def one_pass(self) -> bool:
        """Whether one reading of a text answers several tasks."""

    def encode(self, spec: TaskSpec, examples: Sequence[Example]) -> Encoded:
        """Token ids, as the model was trained to read them."""

    def read(
        self, encoded: Encoded, tasks: Sequence[str], *, batch_size: int
    ) -> dict[str, Reading]:
        """Read texts once for all of these tasks; several tasks only if `one_pass`."""


class Gathered:
    """The outputs and states of all items, which come in batches and in another order."""

    def __init__(self, encoded: Encoded, specs: Sequence[TaskSpec], width: int) -> None:
        self.encoded = encoded
        self.forms = {spec.name: KINDS[spec.kind].HEAD for spec in specs}
        self.outputs: dict[str, dict[int, Array]] = {spec.name: {} for spec in specs}
        self.states = np.zeros((encoded.items, width), np.float32)

    def add(self, items: Array, outputs: Mapping[str, Sequence[Array]], states: Array) -> None:
        """Add a batch: outputs per item, and the mean states of its rows."""
        counts = self.encoded.item_rows[items + 1] - self.encoded.item_rows[items]
        # A question's state is the mean over the rows of its choices.
        firsts = np.cumsum(counts) - counts
        self.states[items] = np.add.reduceat(states, firsts) / counts[:, None]
        for name, form in self.forms.items():
            for values, item in zip(outputs[name], items.tolist(), strict=True):
                self.outputs[name][item] = without_padding(values, form, self.encoded, item)

    def readings(self) -> dict[str, Reading]:
        return {
            name: Reading([found[item] for item in range(self.encoded.items)], self.states)
            for name, found in self.outputs.items()
        }
