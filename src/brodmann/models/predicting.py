"""Read texts with a torch model, so that `data/answering` can turn its outputs into answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from brodmann.data.answering.reader import Gathered, Reading
from brodmann.data.answering.rules import Rules
from brodmann.data.batches import evaluation_order
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Example, TaskSpec
from brodmann.models.backbone.precision import autocast
from brodmann.models.evaluation import Progress, evaluating, first_items, unlabelled
from brodmann.models.representations import keeping_layers, mean_over_tokens, middle_layer

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


class TorchReader:
    """A `Reader` of a model in memory."""

    def __init__(self, model: "MultiTaskModel") -> None:
        self.model = model

    @property
    def specs(self) -> Mapping[str, TaskSpec]:
        return self.model.specs

    @property
    def rules(self) -> Mapping[str, Rules]:
        return self.model.rules

    @property
    def one_pass(self) -> bool:
        return self.model.architecture.one_pass

    def encode(self, spec: TaskSpec, examples: Sequence[Example]) -> Encoded:
        return self.model.encode(spec, examples, cache=False)

    def read(
        self, encoded: Encoded, tasks: Sequence[str], *, batch_size: int
    ) -> dict[str, Reading]:
        return read_tasks(self.model, encoded, tasks, batch_size=batch_size)


@torch.inference_mode()
def read_tasks(
    model: "MultiTaskModel",
    encoded: Encoded,
    tasks: Sequence[str],
    *,
    batch_size: int,
    precision: str = "float32",
    progress: Progress | None = None,
) -> dict[str, Reading]:
    """Outputs and mean states of every item, for tasks that read the same rows."""
    specs = [model.specs[name] for name in tasks]
    gathered = Gathered(encoded, specs, int(model.config.hidden_size))
    first = first_items(encoded)
    with evaluating(model), keeping_layers(model):
        for items in evaluation_order(encoded, batch_size):
            batch = unlabelled(model, tasks[0], encoded, items)
            part = batch.parts[0]
            with autocast(model.device, precision):
                found = model.states(batch.inputs, batch.parts)[0]
                logits = {
                    name: model.read_off(replace(part, task=name), found, batch.inputs)
                    for name in tasks
                }
            outputs = {name: list(tensor.float().cpu().numpy()) for name, tensor in logits.items()}
            states = mean_over_tokens(middle_layer(found), batch.inputs["attention_mask"])
            gathered.add(items, outputs, states.cpu().numpy())
            if progress is not None:
                progress(int(first[items].sum()))
    return gathered.readings()
