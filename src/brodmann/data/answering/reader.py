"""What a model in any form has to do so that texts can be answered: encode and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from brodmann.data.answering.rules import Rules
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


@dataclass
class Reading:
    """What a model computed for one task, one entry per item of the encoded texts."""

    outputs: list[Array]  # logits without padding, as `Kind.predict` takes them
    states: Array  # (item, width) the mean of the last layer over the real tokens


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
